#include "durable/node/node.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "durable/store/boot_clock.hpp"
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

std::vector<kind_stats> nothing_of(std::span<const kind_rules> kinds) {
  std::vector<kind_stats> each(kinds.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    each[kind].kind = kinds[kind].name;
  }
  return each;
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

// Of what was caught.
std::string words_of(const std::exception_ptr& error) noexcept {
  try {
    return text_of(error);
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

// What the transaction knows of its checks that wait, for the time of its handlers.
class waiting_checks {
 public:
  waiting_checks(store_transaction& open, store_transaction::due_of_waiting due_of) : open_(open) {
    open_.has_waiting(std::move(due_of));
  }
  ~waiting_checks() { open_.has_waiting({}); }
  waiting_checks(const waiting_checks&) = delete;
  waiting_checks& operator=(const waiting_checks&) = delete;

 private:
  store_transaction& open_;
};

// If there is nothing to go back to, the handler has ended the transaction, and that is the reason.
void undo_part(store_transaction& open) {
  try {
    open.rollback_to_savepoint();
  } catch (...) {
    open.check_open();
    throw;
  }
}

}  // namespace

// Rows that the machine was asked for. It has them back, unless the store has answered.
class node::asked_rows {
 public:
  asked_rows(machine& of, std::vector<upcoming> rows) noexcept : of_(of), rows_(std::move(rows)) {}
  asked_rows(const asked_rows&) = delete;
  asked_rows& operator=(const asked_rows&) = delete;
  ~asked_rows() {
    if (!answered_) {
      of_.has_not_asked(rows_);
    }
  }
  void answered() noexcept { answered_ = true; }
  [[nodiscard]] const std::vector<upcoming>& rows() const noexcept { return rows_; }

 private:
  machine& of_;
  const std::vector<upcoming> rows_;
  bool answered_ = false;
};

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
      leases_(options.lease),
      runs_(kinds.size()),
      late_(where, kinds_, options, reported),
      looks_for_slow_at_(instant::max().time_since_epoch().count()),
      machine_(options, std::move(kinds), where.now(), seed ? *seed : random_seed()),
      knows_threads_(threads.has_value()),
      has_threads_(threads.value_or(0) != 0),
      capacity_(kinds_.size(), threads ? std::optional(std::max<std::size_t>(1, *threads)) : std::nullopt),
      claim_limit_(options.batch),
      done_in_a_row_(kinds_.size(), 8 * options.batch),
      tally_(kinds_.size()),
      due_since_(kinds_.size(), instant::max()) {
  stats_.kinds = nothing_of(machine_.kinds());
}

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
  leased_run* const which = runs_.begin(run_clock());
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
    which->took = run_clock() - which->since;
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
    if (closing() || !leases_.may_begin(which.id, which.what.fence(), lease_clock())) {
      return false;
    }
    count_begin(which.kind, which.what.due());
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
    tell_end(which.id, which.kind, which.what.key(), which.what.attempt(), said, thrown);
  }
  TIMING_WHEEL_FAIL_POINT("node.after_handler");
  return said;
}

// What the handler threw, and the death of the check; to the store, why it runs again.
void node::tell_end(std::int64_t id, std::uint32_t kind, std::string_view key, int attempt, const outcome& said,
                    const std::exception_ptr& thrown) noexcept {
  if (said.what() == outcome::verdict::done || said.what() == outcome::verdict::snooze) {
    return;
  }
  const std::string& name = machine_.kinds()[kind].name;
  const std::optional<microseconds> again = machine_.longest_pause(kind, attempt, said);
  if (thrown != nullptr) {
    failures_.report({"handler", name, key, thrown, attempt, again});
  }
  if (again) {
    failed_.add(id, attempt, said.reason());
  } else {
    failures_.report({"dead", name, key, thrown != nullptr ? thrown : exception_of(said.reason()), attempt});
  }
}

void node::count_begin(std::uint32_t kind, instant due) {
  const instant now = store_.now();
  const std::scoped_lock lock(mutex_);
  kind_stats& of = stats_.kinds[kind];
  ++of.fired;
  of.lateness.record(saturating_nanoseconds(saturating_difference(now, due)));
  stats_.early += now < due ? 1U : 0U;
}

// All memory is taken before the lock: under it, counts are copied. A lag grows also while a handler hangs and no step
// is made.
void node::read(scheduler_stats& into) const {
  into.kinds = nothing_of(machine_.kinds());
  into.lost_threads = runs_.lost();
  std::vector<instant> due_since(into.kinds.size());
  std::vector<instant> waits_since(into.kinds.size());
  std::vector<instant> runs_since(into.kinds.size());
  std::vector<std::size_t> waiting(into.kinds.size());
  std::vector<std::size_t> running(into.kinds.size());
  runs_.count(waiting, running, waits_since, runs_since);
  const instant runs_now = run_clock();
  instant now{};
  {
    const std::scoped_lock lock(mutex_);
    now = shown_at_ + (run_clock() - shown_when_);  // asks no store
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
  late_.read(into);
}

std::vector<unfinished_run> node::unfinished() const { return runs_.unfinished(run_clock()); }

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
    give_up_shares();
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
  more = consume_transactional() || more;
  if (is_due) {
    read_ahead();
  }
  const microseconds lease_pause = wake_extender_ ? microseconds::max() : extend();
  now = store_.now();
  receive_news(now);
  const instant next = std::min(
      {leave_if_drained(now), tell_long_runs(now), tell_failed_runs(now), tell_runs(now), machine_.next_event(now)});
  show_state(now);
  if (more || next <= now) {
    return microseconds::zero();
  }
  const microseconds longest = owes_ends_ ? std::chrono::milliseconds(10) : microseconds::max();
  return std::min({next - now, lease_pause, until_something_is_late(), longest, late_.pause()});
}

// ---- leases

instant node::run_clock() const noexcept {
  try {
    return lease_clock();
  } catch (...) {  // in virtual time, where nothing takes any
    return {};
  }
}

// What is due to the second is told by a clock that nobody sets; in virtual time by that of the store.
instant node::lease_clock() const {
  return wake_extender_ ? instant(std::chrono::floor<microseconds>(time_since_boot())) : store_.now();
}

microseconds node::extend() {
  constexpr std::size_t most = 1000;
  // What hangs when the database is back has to end before others may take the leases over.
  const auto patience = std::max<std::chrono::milliseconds>(options_.lease / 6, std::chrono::milliseconds(50));
  instant now = lease_clock();
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
      leases_.failed(lease_clock());
      report_store_failure();
      break;
    }
    if (std::exchange(extending_fails_, false)) {
      store_answers_.store(true, std::memory_order_relaxed);
      wake_();
    }
    now = lease_clock();
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
  {
    const std::scoped_lock lock(mutex_);
    ++stats_.kinds[which.kind].timed_out;
  }
  const std::optional<microseconds> again = machine_.longest_pause(which.kind, which.attempt, retry({}));
  failures_.report(
      {"time_limit", machine_.kinds()[which.kind].name, which.key, exception_of(too_slow()), which.attempt, again});
  if (again) {
    failed_.add(which.id, which.attempt, too_slow());
  }
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

// \pre in a catch clause.
void node::report_store_failure(std::string_view kind) {
  {
    const std::scoped_lock lock(mutex_);
    ++stats_.failures;
  }
  failures_.report({"store", kind, {}, std::current_exception()});
}

void node::show_state(instant now) {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t kind = 0; kind < stats_.kinds.size(); ++kind) {
    kind_stats& of = stats_.kinds[kind];
    of.ready = machine_.ready(kind);
    of.paused = machine_.is_paused(kind);
    due_since_[kind] = closing() ? instant::max() : machine_.oldest_ready(kind).value_or(instant::max());
  }
  next_due_ = closing() ? instant::max() : machine_.next_due();
  shown_at_ = now;
  shown_when_ = run_clock();
  stats_.known = machine_.known();
  stats_.shares = machine_.shares();
}

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
  const instant now = lease_clock();
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
             : std::max(microseconds::zero(), first + capacity_.patience() + microseconds(1) - lease_clock());
}

void node::has_ended(const leased_run& which, instant now) noexcept {
  if (which.ran) {
    capacity_.ran(which.kind, which.took);
    machine_.ended(which.id, machine_.decide(which.kind, which.what.attempt(), which.said, now));
  } else {
    machine_.given_back(which.id, now, std::chrono::milliseconds(10));
  }
}

// Calls the store; what it throws is reported, and it is left alone for a while.
template <class Call>
bool node::tried(bool writing, const Call& call_store) {
  entered_ = false;
  const instant begin = lease_clock();
  try {
    call_store();
    has_worked(writing, lease_clock() - begin);
    return true;
  } catch (...) {
    has_failed(writing);
    return false;
  }
}

void node::has_worked(bool writing, microseconds took) {
  answered_at_ = store_.now();
  if (entered_) {
    machine_.was_busy(took, answered_at_, writing);
  } else {
    machine_.answered(answered_at_, writing);
  }
  machine_.store_works(writing);
}

// \pre in a catch clause.
void node::has_failed(bool writing) {
  if (!entered_) {
    machine_.was_away(writing);
  }
  why_ = words_of(std::current_exception());
  report_store_failure();
  machine_.store_failed(store_.now(), writing);
}

// A hint only: if it fails, that is told, and the checks go on without it. It says nothing of the leases of others: if
// the store is away, the next read or write fails, too; and if it refuses writes for half a lease, `store_contact` sees
// that no write was answered.
template <class Call>
void node::hinted(const Call& call_store) {
  try {
    call_store();
    if (machine_.shares() != 0) {  // else the store is not divided, and was not asked
      machine_.answered(store_.now(), true);
    }
  } catch (...) {
    report_store_failure();
  }
}

void node::renew_shares() {
  const instant now = store_.now();
  if (const std::optional<std::chrono::milliseconds> hold = machine_.next_renewal(now)) {
    machine_.expects_shares(now);
    hinted([&] { machine_.has_shares(store_.renew_shares(name_, kinds_, *hold), store_.now()); });
  }
}

// Once, and so that others need not wait for the end of the hold.
void node::give_up_shares() {
  if (!std::exchange(has_left_, true) && machine_.shares() != 0) {
    hinted([&] { static_cast<void>(store_.renew_shares(name_, kinds_, std::chrono::milliseconds::zero(), true)); });
  }
}

// Other nodes take its shares over. An operator waits until it holds nothing, and takes it for dead if it is silent.
// \returns when it is to be called again.
instant node::leave_if_drained(instant now) {
  constexpr std::chrono::seconds pause(1);
  constexpr std::chrono::seconds silence(5);
  if (!machine_.is_drained()) {
    told_held_.reset();
    return instant::max();
  }
  if (machine_.shares() != 0) {
    hinted([&] { static_cast<void>(store_.renew_shares(name_, kinds_, std::chrono::milliseconds::zero(), true)); });
    machine_.has_left();
  }
  const std::size_t held = machine_.held() + runs_.lost();
  told_at_ = std::min(told_at_, now);  // the clock may have been set back
  const bool is_empty = held == 0 && told_held_ != held;
  const auto next_telling = [&] { return saturating_add(told_at_, told_held_ != held ? pause : silence); };
  if ((is_empty && told_held_) || (now >= next_telling() && (held != 0 || is_empty))) {
    told_at_ = now;
    hinted([&] {
      store_.tell_drained(name_, held);
      told_held_ = held;
    });
  }
  return held == 0 && told_held_ == held ? instant::max() : next_telling();
}

// So that an operator sees where a run is, and since when. It goes on without that: if the store refuses, the node
// tells it again ten seconds later. \returns when it is to be called again.
instant node::tell_long_runs(instant now) {
  constexpr std::chrono::seconds pause(5);
  constexpr std::chrono::seconds long_pause(10);
  constexpr std::size_t most = 1000;
  if (machine_.held() == 0 && runs_.lost() == 0 && !has_told_runs_) {
    return instant::max();
  }
  tells_runs_at_ = std::min(tells_runs_at_, saturating_add(now, long_pause));  // the clock may have been set back
  if (now < tells_runs_at_ || machine_.resting(now)) {
    return std::max(tells_runs_at_, now + pause);
  }
  tells_runs_at_ = saturating_add(now, pause);
  try {
    const instant here = run_clock();
    std::vector<long_run> runs = runs_.begun_before(here - pause, most);
    for (long_run& each : runs) {
      each.begun = now - (here - each.begun);
    }
    if (!runs.empty() || has_told_runs_) {
      store_.tell_long_runs(name_, runs);
      has_told_runs_ = !runs.empty();
    }
  } catch (...) {
    tells_runs_at_ = saturating_add(now, long_pause);
    report_store_failure();
  }
  return tells_runs_at_;
}

// So that an operator sees why a check runs again. What the store refuses is not told again. What was told of checks
// that have gone since is forgotten later, in one go. \returns when it is to be called again.
instant node::tell_failed_runs(instant now) {
  constexpr std::chrono::seconds pause(5);
  constexpr std::chrono::minutes some_time(10);
  const auto next = [&] { return failed_.empty() ? forgets_at_ : tells_failed_at_; };
  if (next() == instant::max()) {
    return instant::max();
  }
  tells_failed_at_ = std::min(tells_failed_at_, saturating_add(now, pause));  // the clock may have been set back
  forgets_at_ = std::min(forgets_at_, saturating_add(now, some_time));
  if (now < next() || machine_.resting(now)) {
    return std::max(next(), now + pause);
  }
  tells_failed_at_ = saturating_add(now, pause);
  try {
    const std::vector<failed_run> failed = failed_.take();  // or none: to forget
    forgets_at_ = failed.empty() ? instant::max() : forgets_at_;
    store_.tell_failed_runs(name_, failed);
  } catch (...) {
    report_store_failure();
  }
  return next();
}

// So that an operator sees how fast it goes, at the first look. What the store refuses is not told again, since it
// would count for another minute. \returns when it is to be called again.
instant node::tell_runs(instant now) {
  constexpr std::chrono::seconds pause(5);
  if (tells_counts_at_ == instant::max()) {
    if (counted_runs() != told_runs_) {
      tells_counts_at_ = saturating_add(now, pause);
    }
    return tells_counts_at_;
  }
  tells_counts_at_ = std::min(tells_counts_at_, saturating_add(now, pause));  // the clock may have been set back
  if (now < tells_counts_at_) {
    return tells_counts_at_;
  }
  if (machine_.resting(now)) {
    return saturating_add(now, pause);
  }
  tells_counts_at_ = instant::max();
  const run_counts all = counted_runs();
  const run_counts before = std::exchange(told_runs_, all);
  try {
    store_.tell_runs(name_, {all.begun - before.begun, all.ended - before.ended, all.failed - before.failed});
  } catch (...) {
    report_store_failure();
  }
  return instant::max();
}

void node::read_ahead() {
  while (std::optional<read_range> page = machine_.next_read(store_.now())) {
    found_.clear();
    paused_.clear();
    page->paused = &paused_;
    page->node = name_;
    if (!tried(false, [&] { store_.read_ahead(*page, found_); })) {
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
  const instant now = lease_clock();
  if (closing()) {
    late_.forget();
  } else if (!machine_.resting(store_.now()) && late_.is_time(now)) {
    try {
      late_.look(now);
    } catch (...) {  // figures only: no reason to leave the store alone
      report_store_failure();
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
  waits_for_begin_.store(!knows_threads_, std::memory_order_relaxed);  // before the look: a begin after that is told
  runs_.count_lost(machine_.lost());
  const allowance allowed = capacity_.now(runs_, lease_clock(), claim_limit_);
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
  const instant sent = lease_clock();
  // What waits for another process's lock of the whole database waits once, however often it asks.
  const transaction_limits limits{.idle = options_.lease,
                                  .orphans_until = machine_.orphans_until(asked_at),
                                  .asked_at = std::min(closed_at_, std::chrono::steady_clock::now())};
  entered_ = false;
  bool worked = false;
  bool some_written = false;
  try {
    leases_.reserve(most);
    if (!write_at_once(ends, limits, round)) {
      transact_past_locks(limits, [&](store_transaction& open) { write_round(ends, round, open); });
    }
    has_worked(true, lease_clock() - sent);
    worked = true;
  } catch (...) {
    if (!ends.empty() && is_quick(sent) && answers(limits)) {
      some_written = write_apart(ends.size(), limits);
    } else {
      has_failed(true);
    }
  }
  // One that takes longer than a statement may is not asked for again and again.
  claim_limit_ = worked ? std::min(options_.batch, 2 * claim_limit_) : std::max<std::size_t>(1, claim_limit_ / 2);
  if (worked) {
    TIMING_WHEEL_FAIL_POINT("node.after_commit_of_leased");
    capacity_.took(lease_clock() - sent);
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
    const instant sent = lease_clock();
    try {
      lease_round no_claims;
      transact_past_locks(limits, [&](store_transaction& open) { write_round(part, no_claims, open); });
      works = true;
    } catch (...) {
      quick = is_quick(sent);
      if (part.size() == 1 && quick) {
        ++refused;
        report_store_failure(machine_.kinds()[machine_.kind_of(part.first().id)].name);
        part.first().locked = true;
        answered_at_ = store_.now();
        has_written(part, std::chrono::seconds(5));
      }
    }
    if (works) {
      has_worked(true, lease_clock() - sent);
      has_written(part, std::chrono::milliseconds(100));
      some_written = true;
    }
  }
  if (refused == 0 || !quick) {
    report_store_failure();
  }
  if (!some_written || !quick) {
    machine_.store_failed(store_.now(), true);
  }
  return some_written;
}

// Whether what was sent then has failed so soon that the store refused it, rather than waited for something.
bool node::is_quick(instant sent) const { return lease_clock() - sent < std::chrono::seconds(1); }

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
  const bool held_none = has_written(written, std::chrono::milliseconds(100));
  for (const claimed& one : got) {
    leases_.hold(one.id, one.fence, sent);
  }
  machine_.has_claimed(asked.rows(), got, answered_at_, tried_spares);
  if (held_none && wake_extender_) {
    wake_extender_();
  }
  begin_runs(got);
}

// What is locked, or was refused, is tried again after `aside`. \returns whether no lease is held any more.
bool node::has_written(const ends_to_write& written, microseconds aside) {
  drop_leases(written);
  const bool held_none = leases_.next_event() == instant::max();
  count_ends(written);
  machine_.has_ended(written, answered_at_, aside);
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
  const auto count = [&](const ticket& of, std::uint64_t tally::*as) {
    if (of.locked) {
      return;
    }
    tally& kind = tally_[machine_.kind_of(of.id)];
    ++(kind.*(of.still_ours ? as : &tally::lost_leases));
    if (!of.still_ours) {
      failures_.report({"lease", {}, {}, lost_lease(of.id)});
    }
  };
  for (const ticket& one : written.complete) {
    count(one, &tally::done);
  }
  for (const release_op& one : written.retry) {
    count(one.of, &tally::retried);
  }
  for (const release_op& one : written.snooze) {
    count(one.of, &tally::snoozed);
  }
  for (const release_op& one : written.give_back) {
    count(one.of, &tally::given_back);
  }
  for (const bury_op& one : written.bury) {
    count(one.of, &tally::dead);
  }
  add_tally();
}

// What was consumed is over; what was put back, or died, is not done.
void node::count_consumed(std::span<const claimed> got) {
  for (const claimed& one : got) {
    ++tally_[one.kind].done;
  }
  for (const row_put_back& one : put_back_) {
    --tally_[one.row.kind].done;
    ++(tally_[one.row.kind].*(one.counts ? &tally::retried : &tally::snoozed));
  }
  for (const std::uint32_t kind : died_) {
    --tally_[kind].done;
    ++tally_[kind].dead;
  }
  add_tally();
}

void node::add_tally() {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t kind = 0; kind < stats_.kinds.size(); ++kind) {
    kind_stats& of = stats_.kinds[kind];
    const tally written = std::exchange(tally_[kind], {});
    of.done += written.done;
    of.retried += written.retried;
    of.snoozed += written.snoozed;
    of.given_back += written.given_back;
    of.dead += written.dead;
    of.lost_leases += written.lost_leases;
  }
}

run_counts node::counted_runs() const {
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

// Of a transaction; none: it has left.
void node::enter_handler(std::optional<std::uint32_t> of) {
  const instant now = run_clock();
  const std::scoped_lock lock(mutex_);
  in_handler_ = of;
  in_handler_since_ = now;
}

job node::job_of(const claimed& one, std::stop_token stop) const {
  return job({machine_.kinds()[one.kind].name, one.key, one.payload, one.due, one.attempt, one.fence, one.id},
             std::move(stop));
}

void node::begin_runs(const std::vector<claimed>& got) {
  if (!has_threads_ && !got.empty()) {
    show_state(answered_at_);  // they may run here
  }
  const instant begin = run_clock();
  std::size_t threads = 0;
  for (const claimed& one : got) {
    if (machine_.exhausted(one.kind, one.attempt)) {
      ending gives_up{outcome::verdict::dead, {}, without_a_done(one)};
      failures_.report({"dead", machine_.kinds()[one.kind].name, one.key, exception_of(gives_up.reason), one.attempt});
      machine_.ended(one.id, std::move(gives_up));
    } else if (std::unique_ptr<leased_run> run = make_run(one); run != nullptr) {
      threads += runs_.push(std::move(run), begin) ? 1U : 0U;
      if (has_threads_ && std::exchange(threads, 0) != 0) {
        ask_thread_();
      }
    } else {  // held without a run, it would be extended for ever
      machine_.given_back(one.id, answered_at_, std::chrono::milliseconds(10));
    }
  }
  for (; threads != 0; --threads) {  // it may hang; what is pushed can go back all the same
    ask_thread_();
  }
  machine_.was_busy(run_clock() - begin, store_.now(), false);  // without a thread for them, the handlers have run
}

// \returns null if there is no memory for it, which is told.
std::unique_ptr<leased_run> node::make_run(const claimed& one) noexcept {
  try {
    std::stop_source stop;
    auto run = std::make_unique<leased_run>(one, job_of(one, stop.get_token()));
    leases_.attach(one.id, std::move(stop));
    return run;
  } catch (const std::bad_alloc&) {
    failures_.report({"scheduler", machine_.kinds()[one.kind].name, one.key, std::current_exception()});
    return nullptr;
  }
}

// ---- transactional

bool node::consume_transactional() {
  if (machine_.resting(store_.now())) {
    return false;
  }
  asked_rows asked(machine_, machine_.to_consume(consume_limit_));
  const std::vector<upcoming>& rows = asked.rows();
  if (rows.empty()) {
    return false;
  }
  std::vector<claimed> got;
  const auto begin = std::chrono::steady_clock::now();
  bool worked = consume(rows, true, got);
  // A commit is lost once, or twice; what is lost again and again alone is broken by its handler.
  constexpr unsigned most_losses = 3;
  if (!worked && entered_ && rows.size() == 1 && ++lost_alone_[rows.front().id] >= most_losses) {
    worked = consume(rows, false, got);
  }
  if (lost_alone_.size() > options_.batch) {  // of rows that went elsewhere
    lost_alone_.clear();
  }
  if (!worked) {
    consume_limit_ = 1;  // so that one that breaks its transaction stands alone
    return false;
  }
  asked.answered();
  adapt(rows.size(), std::chrono::steady_clock::now() - begin);
  for (const upcoming& row : lost_alone_.empty() ? std::span<const upcoming>() : std::span(rows)) {
    lost_alone_.erase(row.id);
  }
  machine_.has_consumed(rows, got, answered_at_);
  for (const row_put_back& one : put_back_) {
    machine_.expect(one.row, answered_at_);
  }
  count_consumed(got);
  return true;
}

// \returns whether it was committed. Without its handlers, each job is one that has failed.
bool node::consume(std::span<const upcoming> asked, bool with_handlers, std::vector<claimed>& got) {
  const std::string why = why_;
  const transaction_limits limits{.idle = options_.lease, .orphans_until = machine_.orphans_until(store_.now())};
  const bool worked = tried(true, [&] {
    store_.consume_within(limits, asked, got, [&](store_transaction& open) {
      machine_.answered(store_.now(), true);
      put_back_.clear();
      died_.clear();
      bad_runs_.clear();
      show_state(store_.now());  // what may hang is not ready any more
      if (with_handlers) {
        consumed_ = waiting_ = got;
        const waiting_checks told(open, [this](auto kind, auto key) { return due_of_waiting(kind, key); });
        run_all(got, open);
      } else {
        for (const claimed& one : got) {
          const outcome said = retry(why);
          bad_runs_.push_back({one.id, one.kind, one.key, one.attempt, said, nullptr, false});
          put_back(one, said, open);
        }
      }
      TIMING_WHEEL_FAIL_POINT("node.before_commit_of_transactional");
    });
  });
  enter_handler(std::nullopt);
  tell_bad_runs(worked);
  if (worked) {
    TIMING_WHEEL_FAIL_POINT("node.after_commit_of_transactional");
  }
  return worked;
}

// As many as are likely to take `transaction_time`.
void node::adapt(std::size_t took, std::chrono::steady_clock::duration time) {
  const std::chrono::nanoseconds most = saturating_nanoseconds(options_.transaction_time);
  if (time > most) {
    consume_limit_ = std::max<std::size_t>(1, took / 2);
  } else if (took == consume_limit_ && time < most / 2) {
    consume_limit_ = std::min(options_.batch, consume_limit_ * 2);
  }
}

void node::run_all(const std::vector<claimed>& got, store_transaction& open) {
  for (auto first = got.begin(); first != got.end();) {
    const auto last = std::find_if(first, got.end(), [&](const claimed& one) { return one.kind != first->kind; });
    if (const auto* const batch = handlers_[first->kind].get<batch_handler>(); batch != nullptr) {
      run_batch(*batch, {first, last}, open);
    } else {
      run_each(*handlers_[first->kind].get<transactional_handler>(), {first, last}, open);
    }
    first = last;
  }
}

// A part of the transaction for each run costs a round trip. So runs share one where all are likely to be done: as many
// as an eighth of those of their kind that were done in a row. If one is not done, all of them are undone, and each is
// repeated in a part of its own.
void node::run_each(const transactional_handler& handler, std::span<const claimed> some, store_transaction& open) {
  std::size_t& in_a_row = done_in_a_row_[some.front().kind];
  while (!some.empty()) {
    const std::span<const claimed> part = some.first(std::clamp<std::size_t>(in_a_row / 8, 1, some.size()));
    bool all_done = true;
    if (part.size() == 1) {
      all_done = run_alone(handler, part, open, std::nullopt);
    } else if (const std::optional<transactional_run> undone = run_together(handler, part, open)) {
      run_alone(handler, part, open, undone);
      all_done = false;
    }
    in_a_row = all_done ? in_a_row + part.size() : 0;
    some = some.subspan(part.size());
  }
}

// \returns the first that was not done; then none has had an effect.
std::optional<node::transactional_run> node::run_together(const transactional_handler& handler,
                                                          std::span<const claimed> some, store_transaction& open) {
  open.savepoint();
  for (const claimed& one : some) {
    count_begin(one.kind, one.due);
    transactional_run end = call_transactional(handler, one, open);
    if (end.said.what() != outcome::verdict::done) {
      undo_part(open);
      return end;
    }
  }
  open.release_savepoint();
  return std::nullopt;
}

// Each in a part of its own. \param undone one that was not done when they ran together. \returns whether all are done.
bool node::run_alone(const transactional_handler& handler, std::span<const claimed> some, store_transaction& open,
                     const std::optional<transactional_run>& undone) {
  bool all_done = true;
  bool counted = undone.has_value();  // a repetition is no other run
  for (const claimed& one : some) {
    if (!counted) {
      count_begin(one.kind, one.due);
    }
    const bool was_undone = undone && undone->id == one.id;
    counted = counted && !was_undone;
    open.savepoint();
    transactional_run end = call_transactional(handler, one, open);
    if (end.said.what() != outcome::verdict::done) {
      undo_part(open);
      put_back(one, end.said, open);
      bad_runs_.push_back(std::move(end));
      all_done = false;
      continue;
    }
    open.release_savepoint();
    if (was_undone) {
      bad_runs_.push_back(*undone);
      bad_runs_.back().repeated = true;
    }
  }
  return all_done;
}

void node::run_batch(const batch_handler& handler, std::span<const claimed> some, store_transaction& open,
                     bool is_repetition) {
  std::vector<job> jobs;
  jobs.reserve(some.size());
  for (const claimed& one : some) {
    jobs.push_back(job_of(one, {}));
  }
  entered_ = true;
  waiting_ = consumed_after(some.back());
  for (const claimed& one : is_repetition ? std::span<const claimed>() : some) {
    count_begin(one.kind, one.due);
  }
  enter_handler(some.front().kind);
  open.savepoint();
  try {
    handler(open, jobs);
    open.check_open();
    open.release_savepoint();
    return;
  } catch (...) {
    if (some.size() == 1) {
      const claimed& one = some.front();
      const outcome said = retry(words_of(std::current_exception()));
      bad_runs_.push_back({one.id, one.kind, one.key, one.attempt, said, std::current_exception(), false});
      undo_part(open);
      put_back(one, said, open);
      return;
    }
    undo_part(open);
  }
  for (const claimed& one : some) {
    run_batch(handler, {&one, 1}, open, true);
  }
}

node::transactional_run node::call_transactional(const transactional_handler& handler, const claimed& one,
                                                 store_transaction& open) {
  const job what = job_of(one, {});
  entered_ = true;
  waiting_ = consumed_after(one);
  enter_handler(one.kind);
  TIMING_WHEEL_FAIL_POINT("node.before_transactional_handler");
  transactional_run end{one.id, one.kind, one.key, one.attempt, done, nullptr, false};
  try {
    end.said = handler(open, what);
    if (end.said.what() == outcome::verdict::done) {
      open.check_open();  // a handler may overlook that its statement has failed
    }
  } catch (...) {
    end.thrown = std::current_exception();
    end.said = retry(words_of(end.thrown));
  }
  TIMING_WHEEL_FAIL_POINT("node.after_transactional_handler");
  return end;
}

std::span<const claimed> node::consumed_after(const claimed& one) const {
  return consumed_.subspan(static_cast<std::size_t>(&one - consumed_.data()) + 1);
}

std::optional<instant> node::due_of_waiting(std::string_view kind, std::string_view key) const {
  const auto found = std::ranges::find_if(
      waiting_, [&](const claimed& one) { return one.key == key && machine_.kinds()[one.kind].name == kind; });
  return found == waiting_.end() ? std::nullopt : std::optional(found->due);
}

// Outside the transaction, so that the user's code may use the scheduler. A run that was undone, with its transaction
// or to be repeated, ends no check.
void node::tell_bad_runs(bool committed) {
  for (const transactional_run& one : bad_runs_) {
    if (committed && !one.repeated) {
      tell_end(one.id, one.kind, one.key, one.attempt, one.said, one.thrown);
    } else if (one.thrown != nullptr) {
      failures_.report({"handler", machine_.kinds()[one.kind].name, one.key, one.thrown, one.attempt});
    }
  }
  bad_runs_.clear();
}

void node::put_back(const claimed& one, const outcome& said, store_transaction& open) {
  const ending how = machine_.decide(one.kind, one.attempt, said, open.now());
  const std::string& kind = machine_.kinds()[one.kind].name;
  if (how.what == outcome::verdict::retry) {
    open.put_back(one, kind, how.due, one.attempt - (how.counts ? 0 : 1));
    put_back_.push_back({{one.id, how.due, {}, one.kind, 0, one.payload.size()}, how.counts});
  } else {
    open.bury_consumed(one, kind, how.reason);
    died_.push_back(one.kind);
  }
}

}  // namespace timing_wheel::durable
