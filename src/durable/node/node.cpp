#include "durable/node/node.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "durable/store/fail_point.hpp"
#include "durable/store/instant.hpp"
#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

// Of a statement that is repeated without the row that it has waited for.
constexpr std::chrono::milliseconds shortest_lock_wait(1);

std::uint64_t random_seed() {
  std::random_device device;
  return device();
}

std::string random_name() {
  std::ostringstream text;
  text << std::hex << random_seed() << random_seed();
  return text.str();
}

// What is told where an end is written, or was: without memory it is told that there was none, or nothing.

std::exception_ptr lost_lease(std::int64_t id) noexcept {
  try {
    return std::make_exception_ptr(timer_error(make_error_code(errc::lost_lease), "check " + std::to_string(id)));
  } catch (...) {
    return std::current_exception();
  }
}

std::string without_a_done(const claimed& too_many) noexcept {
  try {
    return "none of " + std::to_string(too_many.attempt - 1) + " runs was done" +
           (too_many.orphaned ? "; one or more ended without a word, with its node or its lease" : "");
  } catch (const std::bad_alloc&) {
    return {};
  }
}

std::string too_slow() noexcept {
  try {
    return "the handler has not returned in time";
  } catch (const std::bad_alloc&) {
    return {};
  }
}

// Of a store: there is room for no more of them.
void refuse_too_many(const lease_round& round) {
  if (round.got.size() > round.most) {
    throw std::logic_error("the store has claimed more checks than it was asked for");
  }
}

std::vector<microseconds> limits_of(std::span<const kind_rules> kinds) {
  std::vector<microseconds> limits;
  limits.reserve(kinds.size());
  std::transform(kinds.begin(), kinds.end(), std::back_inserter(limits), [](const kind_rules& each) {
    const std::chrono::milliseconds limit = each.options.time_limit;
    return limit == limit.max() ? microseconds::max() : saturating_microseconds(limit);
  });
  return limits;
}

std::vector<std::string> names_of(std::span<const kind_rules> kinds) {
  std::vector<std::string> names;
  names.reserve(kinds.size());
  std::transform(kinds.begin(), kinds.end(), std::back_inserter(names),
                 [](const kind_rules& each) { return each.name; });
  return names;
}

}  // namespace

node::node(store& where, const scheduler_options& options, std::vector<kind_rules> kinds,
           std::vector<any_handler> handlers, failures& reported, std::function<void()> wake,
           std::function<void()> ask_thread, std::optional<std::size_t> threads, std::function<void()> wake_extender,
           std::optional<std::uint64_t> seed)
    : store_(where),
      options_(options),
      name_(options.node.empty() ? random_name() : options.node),
      kinds_(names_of(kinds)),
      handlers_(std::move(handlers)),
      failures_(reported),
      wake_(std::move(wake)),
      ask_thread_(std::move(ask_thread)),
      wake_extender_(std::move(wake_extender)),
      time_limits_(limits_of(kinds)),
      clock_(where, !wake_extender_),
      leases_(options.lease),
      runs_(kinds.size()),
      late_(where, kinds_, options, reported),
      looks_for_slow_at_(instant::max().time_since_epoch().count()),
      machine_(options, std::move(kinds), where.now(), seed ? *seed : random_seed()),
      figures_(kinds_, clock_),
      calls_(where, machine_, figures_, failures_, clock_),
      reports_(where, name_, machine_, runs_, figures_, calls_, failures_, clock_),
      transactional_(where, options_, handlers_, machine_, calls_, figures_, reports_, failures_,
                     [this] { show_state(store_.now()); }),
      threads_(threads),
      capacity_(kinds_.size(), threads ? std::optional(std::max<std::size_t>(1, *threads)) : std::nullopt),
      claim_limit_(options.batch) {}

std::optional<std::uint32_t> node::kind_of(std::string_view name) const {
  for (std::uint32_t kind = 0; kind < machine_.kinds().size(); ++kind) {
    if (machine_.kinds()[kind].name == name) {
      return kind;
    }
  }
  return std::nullopt;
}

// ---- from other threads

void node::wake() noexcept {
  try {
    wake_();
  } catch (...) {
    failures_.report({"scheduler", {}, {}, std::current_exception()});
  }
}

void node::expect(const upcoming& row) noexcept {
  try {
    const std::scoped_lock lock(mutex_);
    news_.push_back(row);
  } catch (const std::bad_alloc&) {
    return;
  }
  wake();
}

void node::run_next() noexcept {
  leased_run* const which = runs_.begin(clock_.run_now());
  if (which == nullptr) {  // it has gone back; another may be claimed for this thread
    wake();
    return;
  }
  if (waits_for_begin_.exchange(false, std::memory_order_relaxed)) {
    wake();
  }
  const instant limit = saturating_add(which->since, time_limits_[which->kind]);
  if (wake_extender_ && limit.time_since_epoch().count() < looks_for_slow_at_.load(std::memory_order_relaxed)) {
    wake_extender_();
  } else if (!wake_extender_ && limit != instant::max()) {
    wake();  // a step keeps the limits
  }
  if (which->may_begin && begins(*which)) {
    which->said = call_handler(*which);
    which->ran = true;
    which->took = clock_.run_now() - which->since;
  }
  static_cast<void>(runs_.end(*which));  // what was given up goes away
  wake();
}

void node::drop_next() noexcept {
  runs_.drop();
  wake();
}

// Whether it may. Then it is counted.
bool node::begins(const leased_run& which) noexcept {
  try {
    if (closing() || !leases_.may_begin(which.id, which.what.fence(), clock_.now())) {
      return false;
    }
    figures_.count_begin(which.kind, which.what.due(), store_.now());
    return true;
  } catch (...) {  // the store has no clock
    failures_.report({"scheduler", which.what.kind(), which.what.key(), std::current_exception()});
    return false;
  }
}

outcome node::call_handler(const leased_run& which) noexcept {
  TIMING_WHEEL_FAIL_POINT("node.before_handler");
  outcome said;
  std::exception_ptr thrown;
  try {
    said = (*handlers_[which.kind].get<leased_handler>())(which.what);
  } catch (...) {
    thrown = std::current_exception();
    said = retry(words_of(thrown));
  }
  if (!runs_.is_written_off(which)) {  // else it has no effect
    reports_.tell_end(which.id, which.kind, which.what.key(), which.what.attempt(), said, thrown);
  }
  TIMING_WHEEL_FAIL_POINT("node.after_handler");
  return said;
}

void node::read(scheduler_stats& into) const {
  figures_.read(into, runs_);
  late_.read(into);
}

std::vector<unfinished_run> node::unfinished() const { return runs_.unfinished(clock_.run_now()); }

void node::close() {
  auto expected = never;  // a second call is no later time
  close_asked_at_.compare_exchange_strong(expected, std::chrono::steady_clock::now(), std::memory_order_acq_rel);
}

// ---- a step

std::chrono::microseconds node::step() {
  if (store_answers_.exchange(false, std::memory_order_relaxed)) {
    machine_.end_rest();
  }
  instant now = store_.now();
  machine_.advance(now);
  receive_news(now);
  if (closing()) {
    if (closed_at_ == never) {
      closed_at_ = close_asked_at_.load(std::memory_order_relaxed);
    }
    machine_.close();
    if (!wake_extender_) {
      machine_.end_rest();  // virtual time stands still in `stop`, and no rest would end in it
    }
    leases_.stop_all();
    if (!std::exchange(has_left_, true)) {  // so that others need not wait for the end of the hold
      give_up_shares();
    }
  }
  give_back_what_waits();
  renew_shares();
  const bool is_due = knows_pauses_ && machine_.ready() != 0;  // then that is claimed first
  if (!is_due) {
    read_ahead();
  }
  look_for_late();
  show_state(store_.now());  // before what may hang
  bool more = write_leased();
  more = transactional_.run_ready() || more;
  if (is_due) {
    read_ahead();
  }
  const microseconds lease_pause = wake_extender_ ? microseconds::max() : extend();
  now = store_.now();
  receive_news(now);
  if (machine_.is_drained() && machine_.shares() != 0) {  // other nodes take them over
    give_up_shares();
    machine_.has_left();
  }
  const instant next = std::min({reports_.tell_store(now), machine_.next_event(now)});
  show_state(now);
  if (more || next <= now) {
    return microseconds::zero();
  }
  const microseconds longest = owes_ends_ ? std::chrono::milliseconds(10) : microseconds::max();
  return std::min({next - now, lease_pause, until_something_is_late(), longest, late_.pause()});
}

// ---- leases

microseconds node::extend() {
  constexpr std::size_t most = 1000;
  // What hangs when the database is back has to end before others may take the leases over.
  const auto patience = std::max<std::chrono::milliseconds>(options_.lease / 6, std::chrono::milliseconds(50));
  instant now = clock_.now();
  looks_for_slow_at_.store(instant::max().time_since_epoch().count(), std::memory_order_relaxed);
  let_go_of_what_hangs(now);
  constexpr auto pause = std::chrono::milliseconds(10);  // without memory
  const bool kept = keep_limits(now);
  const instant next_limit = std::max(runs_.next_limit(time_limits_), kept ? instant::min() : now + pause);
  looks_for_slow_at_.store(next_limit.time_since_epoch().count(), std::memory_order_relaxed);
  while (leases_.next_event() <= now) {
    std::vector<ticket> due;
    try {
      due = leases_.due(now, most);
      transact_past_locks({.idle = options_.lease, .urgent = patience}, [&](store_transaction& open) {
        open.extend(due, saturating_add(open.now(), options_.lease));
        TIMING_WHEEL_FAIL_POINT("node.before_commit_of_extensions");
      });
      leases_.extended(due, now);
    } catch (...) {
      extending_fails_ = true;
      leases_.failed(clock_.now());
      calls_.report_failure();
      break;
    }
    if (std::exchange(extending_fails_, false)) {
      store_answers_.store(true, std::memory_order_relaxed);
      wake_();
    }
    now = clock_.now();
  }
  const instant next = std::min(leases_.next_event(), next_limit);
  return next == instant::max() ? microseconds::max() : std::max(microseconds::zero(), next - now);
}

// What has waited for so long waits for the thread of the steps, or they would have given it back. Its lease ends, and
// other nodes run it; here it may not begin any more.
void node::let_go_of_what_hangs(instant now) noexcept {
  constexpr auto for_ever = std::chrono::seconds(1);
  try {
    for (const ticket& one : runs_.forbid_late(now - for_ever)) {
      leases_.let_go(one.id, one.fence);
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is extended once more
  }
}

// \returns false if there was no memory; then they are found again.
bool node::keep_limits(instant now) noexcept {
  try {
    for (const slow_run& each : runs_.past_limit(time_limits_, now)) {
      if (!each.given_up) {
        leases_.request_stop(each.id, each.fence);
      } else {
        give_up(each);
      }
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// What becomes of the check, the next step decides. If that hangs, too, the lease ends, and another node runs the
// check.
void node::give_up(const slow_run& which) noexcept {
  leases_.let_go(which.id, which.fence);
  figures_.count_given_up(which.kind);
  reports_.tell_given_up(which, too_slow());
  wake();
}

void node::write_off_what_was_given_up(instant now) noexcept {
  try {
    owes_ends_ = true;
    for (const slow_run& each : runs_.take_given_up()) {
      ending how = machine_.decide(each.kind, each.attempt, retry(too_slow()), now);
      if (how.what == outcome::verdict::dead) {
        failures_.report({"dead", machine_.kinds()[each.kind].name, each.key, exception_of(how.reason), each.attempt});
      }
      machine_.given_up(each.id, std::move(how));
    }
    owes_ends_ = false;
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next step tries again
  }
}

// A statement that leaves out locked rows costs the server more. So it is for the case that one is locked.
void node::transact_past_locks(transaction_limits limits, const std::function<void(store_transaction&)>& work) {
  limits.lock_wait = shortest_lock_wait;
  try {
    store_.transact_within(limits, work);
  } catch (const timer_error& error) {
    if (error.code() != errc::row_locked) {
      throw;
    }
    limits.lock_wait.reset();
    limits.skip_locked = true;
    store_.transact_within(limits, work);
  }
}

void node::show_state(instant now) { figures_.show(machine_, closing(), now); }

bool node::idle() {
  constexpr auto patience = std::chrono::seconds(5);  // with a store that does not answer; the leases end by themselves
  const bool gives_up =
      (machine_.store_fails() || machine_.all_set_aside()) && std::chrono::steady_clock::now() - closed_at_ > patience;
  return runs_.empty() && (machine_.held() == 0 || gives_up);
}

void node::receive_news(instant now) noexcept {
  write_off_what_was_given_up(now);
  run_list ends = runs_.take_ended();
  std::vector<upcoming> news;
  {
    const std::scoped_lock lock(mutex_);
    news.swap(news_);
  }
  for (const upcoming& row : news) {
    machine_.expect(row, now);
  }
  if (closing() && !ends.empty()) {
    closed_at_ = std::chrono::steady_clock::now();
  }
  // They may have ended after `now`, and what is to run later counts from the end.
  instant later = now;
  try {
    later = ends.empty() ? now : std::max(now, store_.now());
  } catch (...) {  // NOLINT(bugprone-empty-catch): a store that is away has no clock; its next call will say so
  }
  while (!ends.empty()) {
    ends.pop_front_and_dispose([&](leased_run* const one) {
      has_ended(*one, later);
      std::default_delete<leased_run>()(one);
    });
  }
}

// What has waited for too long is over without a begin, and goes back with the ends. After a stop nothing begins, nor
// while the node is drained.
void node::give_back_what_waits() {
  const instant now = clock_.now();
  const bool none_begins = closing() || machine_.is_drained();
  if (runs_.end_late(none_begins ? instant::max() : now - capacity_.patience())) {
    if (!none_begins) {
      capacity_.was_late(runs_.running(), now);
    }
    receive_news(store_.now());
  }
}

microseconds node::until_something_is_late() const {
  const instant first = runs_.first();
  return first == instant::max()
             ? microseconds::max()
             : std::max(microseconds::zero(), first + capacity_.patience() + microseconds(1) - clock_.now());
}

void node::has_ended(const leased_run& which, instant now) noexcept {
  if (which.ran) {
    capacity_.ran(which.kind, which.took);
    machine_.ended(which.id, machine_.decide(which.kind, which.what.attempt(), which.said, now));
  } else {
    machine_.given_back(which.id, now, std::chrono::milliseconds(10));
  }
}

void node::renew_shares() {
  const instant now = store_.now();
  if (const std::optional<std::chrono::milliseconds> hold = machine_.next_renewal(now)) {
    machine_.expects_shares(now);
    calls_.hinted([&] { machine_.has_shares(store_.renew_shares(name_, kinds_, *hold), store_.now()); });
  }
}

void node::give_up_shares() {
  if (machine_.shares() != 0) {
    calls_.hinted(
        [&] { static_cast<void>(store_.renew_shares(name_, kinds_, std::chrono::milliseconds::zero(), true)); });
  }
}

void node::read_ahead() {
  while (std::optional<read_range> page = machine_.next_read(store_.now())) {
    found_.clear();
    paused_.clear();
    page->paused = &paused_;
    page->node = name_;
    if (!calls_.tried(false, [&] { store_.read_ahead(*page, found_); })) {
      return;
    }
    const instant now = store_.now();
    machine_.has_read(*page, found_, now);
    machine_.has_paused(paused_, now);
    knows_pauses_ = true;
    machine_.advance(now);
    if (machine_.ready() != 0) {
      return;
    }
  }
}

void node::look_for_late() {
  const instant now = clock_.now();
  if (closing()) {
    late_.forget();
  } else if (!machine_.resting(store_.now()) && late_.is_time(now)) {
    try {
      late_.look(now);
    } catch (...) {  // figures only: no reason to leave the store alone
      calls_.report_failure();
    }
  }
}

// Ends and claims of leased jobs, in one transaction. \returns whether there may be more.
bool node::write_leased() {
  const instant asked_at = store_.now();
  if (machine_.resting(asked_at)) {
    return false;
  }
  ends_to_write ends;
  if (machine_.writes_ends(asked_at)) {
    ends = machine_.to_end(2 * options_.batch);
  } else if (machine_.has_ends()) {
    TIMING_WHEEL_FAIL_POINT("node.end_waits");
  }
  waits_for_begin_.store(!threads_, std::memory_order_relaxed);  // before the look: a begin after that is told
  runs_.count_lost(machine_.lost());
  const allowance allowed = capacity_.now(runs_, clock_.now(), claim_limit_);
  asked_rows asked(machine_, machine_.to_claim(allowed));
  const std::size_t most = asked.rows().size();
  std::vector<upcoming> wanted = machine_.spares_for(asked.rows(), allowed);
  wanted.insert(wanted.begin(), asked.rows().begin(), asked.rows().end());
  if (!machine_.holds_back()) {
    waits_for_begin_.store(false, std::memory_order_relaxed);
  }
  if (ends.empty() && asked.rows().empty()) {
    return false;
  }
  lease_round round{
      .done = ends.complete, .wanted = wanted, .most = most, .lease = options_.lease, .got = {}, .looked_at = most};
  const instant sent = clock_.now();
  // What waits for another process's lock of the whole database waits once, however often it asks.
  const transaction_limits limits{.idle = options_.lease,
                                  .orphans_until = machine_.orphans_until(asked_at),
                                  .asked_at = std::min(closed_at_, std::chrono::steady_clock::now())};
  calls_.begins();
  bool worked = false;
  bool some_written = false;
  try {
    leases_.reserve(most);
    if (!write_at_once(ends, limits, round)) {
      transact_past_locks(limits, [&](store_transaction& open) { write_round(ends, round, open); });
    }
    calls_.worked(true, clock_.now() - sent);
    worked = true;
  } catch (...) {
    if (!ends.empty() && is_quick(sent) && answers(limits)) {
      some_written = write_apart(ends.size(), limits);
    } else {
      calls_.failed(true);
    }
  }
  // One that takes longer than a statement may is not asked for again and again.
  claim_limit_ = worked ? std::min(options_.batch, 2 * claim_limit_) : std::max<std::size_t>(1, claim_limit_ / 2);
  if (worked) {
    TIMING_WHEEL_FAIL_POINT("node.after_commit_of_leased");
    capacity_.took(clock_.now() - sent);
    asked.answered();
    const std::size_t spares = round.looked_at - std::min(round.looked_at, most);
    has_written_leased(asked, ends, round.got, sent, std::span(wanted).subspan(most, spares));
  }
  return worked || some_written;
}

// In one statement, if all ends are good ones and there are few rows. If there are many, it takes a server more time
// than statements for each do, and the trips that it saves are nothing beside that.
bool node::write_at_once(const ends_to_write& ends, transaction_limits limits, lease_round& round) {
  constexpr std::size_t many = 200;
  if (ends.size() != ends.complete.size() || ends.size() + round.wanted.size() > many) {
    return false;
  }
  TIMING_WHEEL_FAIL_POINT("node.before_commit_of_leased");
  limits.lock_wait = shortest_lock_wait;
  if (!store_.complete_and_claim_at_once(limits, round)) {
    return false;
  }
  refuse_too_many(round);
  return true;
}

void node::write_round(ends_to_write& ends, lease_round& round, store_transaction& open) {
  round.got.clear();
  open.complete(ends.complete);
  for (auto* const some : {&ends.retry, &ends.snooze, &ends.give_back}) {
    open.release(*some);
  }
  open.bury(ends.bury);
  if (round.most != 0) {
    const instant until = saturating_add(open.now(), options_.lease);
    round.looked_at = open.claim_some(round.wanted, round.most, until, round.got);
    refuse_too_many(round);
  }
  TIMING_WHEEL_FAIL_POINT("node.before_commit_of_leased");
}

// After a round that has failed, though the store answers: one end that the store refuses, by a trigger or for want of
// a right, must not keep the others. So fewer ends are written, half as many each time; one that is refused alone is
// told, and tried again later; what works is followed by twice as many. If nothing works, or a failure took so long
// that it was a time limit rather than a refusal, the store is left alone for a while. \pre in a catch clause. \returns
// whether some were written.
bool node::write_apart(std::size_t count, const transaction_limits& limits) {
  constexpr int most_refused = 8;
  int refused = 0;
  bool works = false;
  bool some_written = false;
  bool quick = true;
  while (machine_.has_ends() && refused < most_refused && quick) {
    count = works ? 2 * count : std::max<std::size_t>(1, count / 2);
    works = false;
    ends_to_write part = machine_.to_end(count);
    count = part.size();
    const instant sent = clock_.now();
    try {
      lease_round no_claims;
      transact_past_locks(limits, [&](store_transaction& open) { write_round(part, no_claims, open); });
      works = true;
    } catch (...) {
      quick = is_quick(sent);
      if (part.size() == 1 && quick) {
        ++refused;
        calls_.report_failure(machine_.kinds()[machine_.kind_of(part.first().id)].name);
        part.first().locked = true;
        has_written(part, store_.now(), std::chrono::seconds(5));
      }
    }
    if (works) {
      calls_.worked(true, clock_.now() - sent);
      has_written(part, calls_.answered_at(), std::chrono::milliseconds(100));
      some_written = true;
    }
  }
  if (refused == 0 || !quick) {
    calls_.report_failure();
  }
  if (!some_written || !quick) {
    machine_.store_failed(store_.now(), true);
  }
  return some_written;
}

// Whether what was sent then has failed so soon that the store refused it, rather than waited for something.
bool node::is_quick(instant sent) const { return clock_.now() - sent < std::chrono::seconds(1); }

// A transaction without a statement: of a full disk, or of a right that is missing, it says nothing.
bool node::answers(const transaction_limits& limits) {
  try {
    store_.transact_within(limits, [](store_transaction& open) { static_cast<void>(open.now()); });
    return true;
  } catch (...) {
    return false;
  }
}

void node::has_written_leased(const asked_rows& asked, const ends_to_write& written, const std::vector<claimed>& got,
                              instant sent, std::span<const upcoming> tried_spares) {
  const bool held_none = has_written(written, calls_.answered_at(), std::chrono::milliseconds(100));
  for (const claimed& one : got) {
    leases_.hold(one.id, one.fence, sent);
  }
  machine_.has_claimed(asked.rows(), got, calls_.answered_at(), tried_spares);
  if (held_none && wake_extender_) {
    wake_extender_();
  }
  begin_runs(got);
}

// What is locked, or was refused, is tried again after `aside`. \returns whether no lease is held any more.
bool node::has_written(const ends_to_write& written, instant now, microseconds aside) {
  drop_leases(written);
  const bool held_none = leases_.next_event() == instant::max();
  count_ends(written);
  machine_.has_ended(written, now, aside);
  return held_none;
}

// Of what is written. What somebody else has locked is held until it is.
void node::drop_leases(const ends_to_write& written) {
  const auto drop = [this](const ticket& of) {
    if (!of.locked) {
      leases_.drop(of.id);
    }
  };
  std::for_each(written.complete.begin(), written.complete.end(), drop);
  for (const auto* some : {&written.retry, &written.snooze, &written.give_back}) {
    std::for_each(some->begin(), some->end(), [&](const release_op& one) { drop(one.of); });
  }
  std::for_each(written.bury.begin(), written.bury.end(), [&](const bury_op& one) { drop(one.of); });
}

void node::count_ends(const ends_to_write& written) {
  const auto count = [&](const ticket& of, std::uint64_t run_tally::*as) {
    if (of.locked) {
      return;
    }
    run_tally& kind = figures_.written(machine_.kind_of(of.id));
    ++(kind.*(of.still_ours ? as : &run_tally::lost_leases));
    if (!of.still_ours) {
      failures_.report({"lease", {}, {}, lost_lease(of.id)});
    }
  };
  for (const ticket& one : written.complete) {
    count(one, &run_tally::done);
  }
  for (const release_op& one : written.retry) {
    count(one.of, &run_tally::retried);
  }
  for (const release_op& one : written.snooze) {
    count(one.of, &run_tally::snoozed);
  }
  for (const release_op& one : written.give_back) {
    count(one.of, &run_tally::given_back);
  }
  for (const bury_op& one : written.bury) {
    count(one.of, &run_tally::dead);
  }
  figures_.show_written();
}

void node::begin_runs(const std::vector<claimed>& got) {
  const bool has_threads = threads_.value_or(0) != 0;  // so what they run does not keep this step waiting
  if (!has_threads && !got.empty()) {
    show_state(calls_.answered_at());  // they may run here
  }
  const instant begin = clock_.run_now();
  std::size_t threads = 0;
  for (const claimed& one : got) {
    if (machine_.exhausted(one.kind, one.attempt)) {
      ending gives_up{outcome::verdict::dead, {}, without_a_done(one)};
      failures_.report({"dead", machine_.kinds()[one.kind].name, one.key, exception_of(gives_up.reason), one.attempt});
      machine_.ended(one.id, std::move(gives_up));
    } else if (std::unique_ptr<leased_run> run = make_run(one); run != nullptr) {
      threads += runs_.push(std::move(run), begin) ? 1U : 0U;
      if (has_threads && std::exchange(threads, 0) != 0) {
        ask_thread_();
      }
    } else {  // held without a run, it would be extended for ever
      machine_.given_back(one.id, calls_.answered_at(), std::chrono::milliseconds(10));
    }
  }
  for (; threads != 0; --threads) {  // it may hang; what is pushed can go back all the same
    ask_thread_();
  }
  // Without a thread for them, the handlers have run.
  machine_.was_busy(clock_.run_now() - begin, store_.now(), false);
}

// \returns null if there is no memory for it, which is told.
std::unique_ptr<leased_run> node::make_run(const claimed& one) noexcept {
  try {
    std::stop_source stop;
    auto run = std::make_unique<leased_run>(one, job_of(machine_.kinds()[one.kind], one, stop.get_token()));
    leases_.attach(one.id, std::move(stop));
    return run;
  } catch (const std::bad_alloc&) {
    failures_.report({"scheduler", machine_.kinds()[one.kind].name, one.key, std::current_exception()});
    return nullptr;
  }
}

}  // namespace timing_wheel::durable
