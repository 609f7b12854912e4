#include "durable/node/run_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace timing_wheel::durable {

using std::chrono::microseconds;
using patience = enum leased_run::patience;

namespace {

// When it is to be asked to stop, or, if it was, to be given up.
instant next_limit_of(const leased_run& run, microseconds limit) noexcept {
  const microseconds grace = run.patience == patience::asked_to_stop ? limit / 2 : microseconds::zero();
  return saturating_add(saturating_add(run.since, limit), grace);
}

slow_run slow(const leased_run& run, bool given_up) {
  return {run.id, run.what.fence(), run.kind, std::string(run.what.key()), run.what.attempt(), given_up};
}

}  // namespace

run_queue::~run_queue() {
  for (run_list* const some : {&waiting_, &running_, &lost_, &ended_}) {
    some->clear_and_dispose(std::default_delete<leased_run>());
  }
}

bool run_queue::push(std::unique_ptr<leased_run> run, instant now) noexcept {
  const std::scoped_lock lock(mutex_);
  run->since = now;
  ++waiting_of_[run->kind];
  waiting_.push_back(*run.release());
  const bool asks = threads_ < waiting_.size();
  threads_ += asks ? 1U : 0U;
  return asks;
}

leased_run* run_queue::begin(instant now) noexcept {
  const std::scoped_lock lock(mutex_);
  --threads_;
  if (waiting_.empty()) {
    return nullptr;
  }
  leased_run& run = waiting_.front();
  running_.splice(running_.end(), waiting_, waiting_.begin());
  run.since = now;
  --waiting_of_[run.kind];
  ++running_of_[run.kind];
  return &run;
}

std::unique_ptr<leased_run> run_queue::end(leased_run& run) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto at = run_list::s_iterator_to(run);
  if (run.patience == patience::written_off) {
    lost_.erase(at);
    return std::unique_ptr<leased_run>(&run);
  }
  if (run.patience == patience::given_up) {
    ended_.splice(ended_.end(), lost_, at);
  } else {
    --running_of_[run.kind];
    ended_.splice(ended_.end(), running_, at);
  }
  return nullptr;
}

void run_queue::drop() noexcept {
  const std::scoped_lock lock(mutex_);
  --threads_;
  if (threads_ < waiting_.size()) {
    --waiting_of_[waiting_.back().kind];
    ended_.splice(ended_.end(), waiting_, std::prev(waiting_.end()));
  }
}

bool run_queue::end_late(instant limit) noexcept {
  const std::scoped_lock lock(mutex_);
  const std::size_t before = waiting_.size();
  while (!waiting_.empty() && waiting_.front().since < limit) {
    --waiting_of_[waiting_.front().kind];
    ended_.splice(ended_.end(), waiting_, waiting_.begin());
  }
  return waiting_.size() != before;
}

std::vector<ticket> run_queue::forbid_late(instant limit) {
  std::vector<ticket> late;
  const std::scoped_lock lock(mutex_);
  const auto end =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const leased_run& one) { return one.since >= limit; });
  std::transform(waiting_.begin(), end, std::back_inserter(late), [](const leased_run& one) {
    return ticket{one.id, one.what.fence()};
  });
  std::for_each(waiting_.begin(), end, [](leased_run& one) { one.may_begin = false; });
  return late;
}

std::vector<slow_run> run_queue::past_limit(std::span<const microseconds> limits, instant now) {
  std::vector<slow_run> found;
  const std::scoped_lock lock(mutex_);
  for (const leased_run& run : running_) {
    if (next_limit_of(run, limits[run.kind]) <= now) {
      found.push_back(slow(run, run.patience == patience::asked_to_stop));
    }
  }
  for (auto next = running_.begin(); next != running_.end();) {
    const auto run = next++;
    if (next_limit_of(*run, limits[run->kind]) <= now) {
      const bool was_asked = run->patience == patience::asked_to_stop;
      run->patience = was_asked ? patience::given_up : patience::asked_to_stop;
      if (was_asked) {
        --running_of_[run->kind];
        lost_.splice(lost_.end(), running_, run);
      }
    }
  }
  return found;
}

std::vector<slow_run> run_queue::take_given_up() {
  std::vector<slow_run> found;
  const std::scoped_lock lock(mutex_);
  for (const leased_run& run : lost_) {
    if (run.patience == patience::given_up) {
      found.push_back(slow(run, true));
    }
  }
  for (leased_run& run : lost_) {
    run.patience = patience::written_off;
  }
  return found;
}

instant run_queue::next_limit(std::span<const microseconds> limits) const noexcept {
  const std::scoped_lock lock(mutex_);
  instant next = instant::max();
  for (const leased_run& run : running_) {
    next = std::min(next, next_limit_of(run, limits[run.kind]));
  }
  return next;
}

std::vector<unfinished_run> run_queue::unfinished(instant now) const {
  std::vector<unfinished_run> all;
  const std::scoped_lock lock(mutex_);
  for (const run_list* const some : {&lost_, &running_}) {
    for (const leased_run& run : *some) {
      const job& what = run.what;
      all.push_back({std::string(what.kind()), std::string(what.key()), what.fence(), now - run.since});
    }
  }
  return all;
}

std::vector<long_run> run_queue::begun_before(instant limit, std::size_t most) const {
  std::vector<long_run> found;
  const std::scoped_lock lock(mutex_);
  for (const run_list* const some : {&lost_, &running_}) {
    for (const leased_run& run : *some) {
      if (run.since < limit && found.size() < most) {
        long_run& one = found.emplace_back();
        one.id = run.id;
        one.fence = run.what.fence();
        one.begun = run.since;
      }
    }
  }
  return found;
}

run_list run_queue::take_ended() noexcept {
  const std::scoped_lock lock(mutex_);
  return std::move(ended_);
}

instant run_queue::first() const noexcept {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() ? instant::max() : waiting_.front().since;
}

bool run_queue::empty() const noexcept {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() && running_.empty() && ended_.empty();
}

std::size_t run_queue::running() const noexcept {
  const std::scoped_lock lock(mutex_);
  return running_.size();
}

std::size_t run_queue::lost() const noexcept {
  const std::scoped_lock lock(mutex_);
  return lost_.size();
}

void run_queue::count_lost(std::span<std::size_t> lost) const noexcept {
  const std::scoped_lock lock(mutex_);
  std::fill(lost.begin(), lost.end(), 0U);
  for (const leased_run& one : lost_) {
    ++lost[one.kind];
  }
}

bool run_queue::is_written_off(const leased_run& run) const noexcept {
  const std::scoped_lock lock(mutex_);
  return run.patience == patience::written_off;
}

void run_queue::count(std::span<std::size_t> waiting, std::span<std::size_t> running, std::span<instant> due,
                      std::span<instant> runs_since) const noexcept {
  const std::scoped_lock lock(mutex_);
  std::copy(waiting_of_.begin(), waiting_of_.end(), waiting.begin());
  std::copy(running_of_.begin(), running_of_.end(), running.begin());
  std::fill(due.begin(), due.end(), instant::max());
  for (const leased_run& one : waiting_) {
    due[one.kind] = std::min(due[one.kind], one.what.due());
  }
  std::fill(runs_since.begin(), runs_since.end(), instant::max());
  for (const run_list* const some : {&lost_, &running_}) {
    for (const leased_run& one : *some) {
      runs_since[one.kind] = std::min(runs_since[one.kind], one.since);
    }
  }
}

run_queue::state run_queue::look(instant now, microseconds horizon, std::span<const microseconds> costs,
                                 microseconds short_run) const noexcept {
  const auto is_old = [&](const leased_run& one) { return one.since <= now - horizon; };
  const std::scoped_lock lock(mutex_);
  const auto last = std::find_if(running_.rbegin(), running_.rend(), is_old);
  state all{waiting_.size(), running_.size(), lost_.size(), threads_, 0, {}, {}};
  all.young = static_cast<std::size_t>(std::distance(running_.rbegin(), last));
  for (std::size_t kind = 0; kind < costs.size(); ++kind) {
    all.work += static_cast<std::int64_t>(waiting_of_[kind]) * costs[kind];
  }
  for (const leased_run& one : running_) {
    const microseconds cost = costs[one.kind];
    all.ahead += cost <= short_run && now - one.since <= 2 * cost ? cost : microseconds::zero();
  }
  return all;
}

}  // namespace timing_wheel::durable
