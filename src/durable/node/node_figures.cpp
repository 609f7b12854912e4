#include "durable/node/node_figures.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "durable/store/instant.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

std::vector<kind_stats> nothing_of(const std::vector<std::string>& kinds) {
  std::vector<kind_stats> each(kinds.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    each[kind].kind = kinds[kind];
  }
  return each;
}

}  // namespace

node_figures::node_figures(const std::vector<std::string>& kinds, node_clock clock)
    : kinds_(kinds), clock_(clock), tally_(kinds.size()), due_since_(kinds.size(), instant::max()) {
  stats_.kinds = nothing_of(kinds);
}

void node_figures::count_begin(std::uint32_t kind, instant due, instant now) {
  const std::scoped_lock lock(mutex_);
  kind_stats& of = stats_.kinds[kind];
  ++of.fired;
  of.lateness.record(saturating_nanoseconds(saturating_difference(now, due)));
  stats_.early += now < due ? 1U : 0U;
}

void node_figures::count_given_up(std::uint32_t kind) {
  const std::scoped_lock lock(mutex_);
  ++stats_.kinds[kind].timed_out;
}

void node_figures::count_failure() {
  const std::scoped_lock lock(mutex_);
  ++stats_.failures;
}

run_counts node_figures::runs() const {
  const std::scoped_lock lock(mutex_);
  run_counts all;
  for (const kind_stats& of : stats_.kinds) {
    const std::uint64_t failed = of.retried + of.dead;
    all.begun += of.fired;
    all.ended += of.done + of.snoozed + of.lost_leases + failed;
    all.failed += failed;
  }
  return all;
}

void node_figures::read(scheduler_stats& into, const run_queue& runs) const {
  into.kinds = nothing_of(kinds_);
  into.lost_threads = runs.lost();
  std::vector<instant> due_since(into.kinds.size());
  std::vector<instant> waits_since(into.kinds.size());
  std::vector<instant> runs_since(into.kinds.size());
  std::vector<std::size_t> waiting(into.kinds.size());
  std::vector<std::size_t> running(into.kinds.size());
  runs.count(waiting, running, waits_since, runs_since);
  const instant runs_now = clock_.run_now();
  instant now{};
  {
    const std::scoped_lock lock(mutex_);
    now = shown_at_ + (clock_.run_now() - shown_when_);  // asks no store
    into.kinds = stats_.kinds;
    into.early = stats_.early;
    into.failures = stats_.failures;
    into.known = stats_.known;
    into.shares = stats_.shares;
    due_since = due_since_;
    // A step that hangs in a handler, or in the store, meets nothing that becomes due.
    constexpr std::chrono::seconds hangs(1);
    const microseconds late = saturating_difference(now, next_due_);
    into.lag = late >= hangs ? late : microseconds::zero();
    if (in_handler_) {
      runs_since[*in_handler_] = std::min(runs_since[*in_handler_], in_handler_since_);
    }
  }
  for (std::size_t kind = 0; kind < due_since.size(); ++kind) {
    kind_stats& of = into.kinds[kind];
    const instant since = std::min(due_since[kind], waits_since[kind]);
    of.running = running[kind];
    of.claimed = waiting[kind];
    of.lag = since < now ? saturating_difference(now, since) : microseconds::zero();
    of.longest_run = runs_since[kind] < runs_now ? runs_now - runs_since[kind] : microseconds::zero();
    into.fired += of.fired;
    into.done += of.done;
    into.retried += of.retried;
    into.snoozed += of.snoozed;
    into.given_back += of.given_back;
    into.dead += of.dead;
    into.lost_leases += of.lost_leases;
    into.timed_out += of.timed_out;
    into.running += of.running;
    into.claimed += of.claimed;
    into.ready += of.ready;
    into.lag = std::max(into.lag, of.lag);
    into.lateness.merge(of.lateness);
  }
}

void node_figures::show_written() {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t kind = 0; kind < stats_.kinds.size(); ++kind) {
    kind_stats& of = stats_.kinds[kind];
    const run_tally written = std::exchange(tally_[kind], {});
    of.done += written.done;
    of.retried += written.retried;
    of.snoozed += written.snoozed;
    of.given_back += written.given_back;
    of.dead += written.dead;
    of.lost_leases += written.lost_leases;
  }
}

void node_figures::show(const machine& of, bool closing, instant now) {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t kind = 0; kind < stats_.kinds.size(); ++kind) {
    kind_stats& shown = stats_.kinds[kind];
    shown.ready = of.ready(kind);
    shown.paused = of.is_paused(kind);
    due_since_[kind] = closing ? instant::max() : of.oldest_ready(kind).value_or(instant::max());
  }
  next_due_ = closing ? instant::max() : of.next_due();
  shown_at_ = now;
  shown_when_ = clock_.run_now();
  stats_.known = of.known();
  stats_.shares = of.shares();
}

void node_figures::enter_handler(std::optional<std::uint32_t> of) {
  const instant now = clock_.run_now();
  const std::scoped_lock lock(mutex_);
  in_handler_ = of;
  in_handler_since_ = now;
}

}  // namespace timing_wheel::durable
