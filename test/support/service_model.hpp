#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "service_audit.hpp"
#include "service_captures.hpp"
#include "service_random.hpp"
#include "support/engines.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

/// Where the callbacks of a run of the model go.
enum class hand_over {
  none,     // they run where they are driven
  at_once,  // an executor that runs them at once
  queue,    // an executor that keeps them, refuses some, and drops some
};

/// What one run of the model does. Everything follows from the choices.
struct service_scenario {
  timer_options options;
  time_point start;
  unsigned delay_bits = 0;  // delays are below 2^delay_bits ns, of any order of magnitude
  int steps = 0;
  hand_over where = hand_over::none;
  bool has_on_error = false;
};

[[nodiscard]] inline service_scenario scenario_of(dice& random) {
  using std::chrono::hours;
  using std::chrono::nanoseconds;
  constexpr std::array<std::int64_t, 5> ticks{1, 3, 1'000, 1'000'000, 7'000'000};
  constexpr std::array<std::uint32_t, 5> sizes{2, 3, 8, 20, 512};
  constexpr std::array<std::int64_t, 6> starts{
      0,
      1'234'567'891,
      -5,
      std::int64_t{1} << 36,
      std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::int64_t>::max() - nanoseconds(hours(1)).count()};
  service_scenario made;
  made.options.tick = nanoseconds(ticks[random.below(ticks.size())]);
  made.options.wheel_size = sizes[random.below(sizes.size())];
  if (random.one_in(4)) {
    made.options.wheel_sizes = {3, 2, 60};
  }
  made.options.shards = static_cast<unsigned>(random.below(3));
  made.options.max_pending = random.one_in(3) ? random.below(20) : no_limit;
  made.start = time_point(nanoseconds(starts[random.below(starts.size())]));
  made.delay_bits = static_cast<unsigned>(24 + random.below(40));
  made.steps = static_cast<int>(20 + random.below(80));
  made.where = static_cast<hand_over>(random.below(3));
  made.has_on_error = random.one_in(2);
  return made;
}

/// A service driven by hand, and beside it the contract in its plainest form: a map of what should be. Random
/// operations go to both; every answer and every count must agree. Callbacks are checked when they begin, and do random
/// things too.
template <timer_engine Engine>
class service_model {
 public:
  explicit service_model(dice choices)
      : random_(choices), scenario_(scenario_of(random_)), timer_(with_handlers(scenario_.options), scenario_.start) {}

  void run() {
    for (int step = 0; step < scenario_.steps && !random_.exhausted() && !testing::Test::HasFailure(); ++step) {
      operate();
      check_counts();
    }
    stop();
    check_counts();
    run_queued();
    advance();
    check_counts();
  }

 private:
  enum class kind { once, every, with };

  static constexpr int most_runs = 100;  // of one timer: the clock may leap a century

  struct record {
    timer_status status = timer_status::pending;
    time_point deadline = {};
    time_point due = {};  // the later of the deadline and of when it was given
    timer_handle handle = {};
    kind which = kind::once;
    period_policy policy = fixed_delay;
    std::chrono::nanoseconds period = {};
    std::chrono::nanoseconds window = {};
    int runs = 0;
    bool cancelled = false;  // while it ran
    std::optional<std::stop_source> source = {};
  };
  using id = std::uint64_t;
  using nanoseconds = std::chrono::nanoseconds;
  using wall_time = std::chrono::sys_time<nanoseconds>;

  struct callback {
    service_model* model;
    id which;
    live_captures::token token;
    void operator()() { model->begin(which); }
  };
  struct callback_with_handle : callback {
    void operator()(const timer_handle& self) {
      this->model->check_self(this->which, self);
      this->model->begin(this->which);
    }
  };
  struct large_callback : callback {
    std::array<char, 100> ballast{};
  };
  struct rule {
    service_model* model;
    id which;
    std::optional<time_point> operator()(time_point previous) const { return model->next_of(which, previous); }
  };

  timer_options with_handlers(timer_options options) {
    if (scenario_.has_on_error) {
      options.on_error = [this](const std::exception_ptr& failure, std::uint64_t tag) { on_error(failure, tag); };
    }
    if (scenario_.where != hand_over::none) {
      options.executor = [this](task&& work) { execute(std::move(work)); };
    }
    return options;
  }

  // ---- Operations ----

  void operate() {
    if (random_.one_in(500)) {
      return stop_somehow();
    }
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
        return random_.one_in(16) ? schedule_many() : schedule();
      case 3:
        return schedule_periodic();
      case 4:
        return cancel();
      case 5:
        return reschedule();
      case 6:
        return random_.one_in(4) ? list() : inspect();
      case 7:
        return request_stop();
      case 8:
        return run_queued();
      default:
        return advance();
    }
  }

  void schedule() {
    const id which = next_id_++;
    const nanoseconds delay = any_delay();
    const time_point deadline = saturating_add(timer_.now(), delay);
    const std::error_code expected = expected_refusal();
    if (!expected && random_.one_in(8)) {
      return schedule_stoppable(which, delay, deadline);
    }
    std::error_code error;
    const schedule_options options{.tag = which, .window = any_window()};
    const timer_handle handle = start(options, delay, deadline, error);
    admit(which, {.deadline = deadline, .handle = handle, .window = options.window}, error, expected);
  }

  // Some may have no callback; what is refused ends it.
  void schedule_many() {
    std::vector<pending_task> timers(random_.below(80));
    for (pending_task& one : timers) {
      one = {saturating_add(timer_.now(), any_delay()), next_id_++, task(), any_window()};
      if (!random_.one_in(100)) {
        one.callback = task(callback{this, one.tag, captures_.make()});
      }
    }
    std::vector<timer_handle> handles(timers.size());
    std::error_code error;
    const std::size_t done = timer_.schedule_many(timers, handles, error);
    for (std::size_t i = 0; i < done; ++i) {
      ASSERT_FALSE(timers[i].callback);
      const pending_task& one = timers[i];
      admit(one.tag, {.deadline = one.deadline, .handle = handles[i], .window = one.window}, {}, expected_refusal());
    }
    ASSERT_EQ(done == timers.size(), !error);
    if (error) {
      const bool asked = static_cast<bool>(timers[done].callback);
      ASSERT_EQ(error, asked ? expected_refusal() : std::error_code(timer_errc::empty_callback));
      rejected_ += asked ? 1U : 0U;
      ASSERT_FALSE(handles[done]);
    }
  }

  void admit(id which, record one, std::error_code error, std::error_code expected) {
    ASSERT_EQ(error, expected);
    ASSERT_EQ(static_cast<bool>(one.handle), !expected);
    if (expected) {
      ++rejected_;
      return;
    }
    ++scheduled_;
    one.due = std::max(one.deadline, timer_.now());
    records_[which] = std::move(one);
    check(which);
  }

  timer_handle start(const schedule_options& options, nanoseconds delay, time_point deadline, std::error_code& error) {
    callback small{this, options.tag, captures_.make()};
    switch (random_.below(6)) {
      case 0:
        return timer_.schedule_at(deadline, std::move(small), options, error);
      case 1:
        return timer_.schedule_at(deadline, large_callback{std::move(small)}, options, error);
      case 2:
        return timer_.schedule_at(wall_time(deadline.time_since_epoch()), std::move(small), options, error);
      case 3:
        return timer_.schedule_after(delay, large_callback{std::move(small)}, options, error);
      case 4:
        return timer_.schedule_after(delay, callback_with_handle{std::move(small)}, options, error);
      default:
        return timer_.schedule_after(delay, std::move(small), options, error);
    }
  }

  void schedule_stoppable(id which, nanoseconds delay, time_point deadline) {
    record one{.deadline = deadline, .window = any_window(), .source = std::stop_source()};
    const bool requested = random_.one_in(4);
    if (requested) {
      one.source->request_stop();
      one.status = timer_status::finished;
      ++cancelled_;
    }
    one.handle = timer_.schedule_after(delay, callback{this, which, captures_.make()},
                                       {.tag = which, .stop = one.source->get_token(), .window = one.window});
    admit(which, std::move(one), {}, {});
  }

  void schedule_periodic() {
    const id which = next_id_++;
    record one{.which = random_.one_in(3) ? kind::with : kind::every,
               .policy = static_cast<period_policy>(random_.below(3)),
               .period = any_period(),
               .window = any_window()};
    const bool valid = one.which == kind::with || one.period > nanoseconds::zero();
    const std::error_code expected = valid ? expected_refusal() : timer_errc::invalid_period;
    one.deadline = saturating_add(timer_.now(), one.period);
    callback_with_handle small{{this, which, captures_.make()}};
    std::error_code error;
    if (one.which == kind::every) {
      one.handle = timer_.schedule_every(one.period, std::move(small),
                                         {.policy = one.policy, .tag = which, .window = one.window}, error);
      rejected_ -= valid ? 0 : 1;  // it is refused before the service is asked
      return admit(which, std::move(one), error, expected);
    }
    first_ = random_.one_in(8) ? std::nullopt : std::optional(one.deadline);
    one.handle = timer_.schedule_with(rule{this, which}, std::move(small), {.tag = which, .window = one.window}, error);
    if (first_) {
      admit(which, std::move(one), error, expected);
    } else {
      ASSERT_FALSE(one.handle);
      ASSERT_FALSE(error);
    }
  }

  void cancel_some() {
    std::vector<timer_handle> handles;
    std::set<id> chosen;
    for (std::uint64_t left = random_.below(40); left > 0; --left) {
      const auto [which, one] = any_record();
      handles.push_back(one->handle);
      chosen.insert(which);
    }
    std::size_t expected = 0;
    for (const id which : chosen) {
      record& one = records_.at(which);
      expected += one.status == timer_status::pending ? 1U : 0U;
      cancelled(one);
    }
    ASSERT_EQ(cancel_many(handles), expected);
  }

  void cancel() {
    if (records_.empty()) {
      return;
    }
    if (random_.one_in(4)) {
      return cancel_some();
    }
    const auto [which, one] = any_record();
    const cancel_result expected = expected_cancel(one->status);
    ASSERT_EQ(random_.one_in(3) ? one->handle.cancel_and_wait() : one->handle.cancel(), expected) << "timer " << which;
    cancelled(*one);
    check(which);
  }

  void request_stop() {
    if (records_.empty()) {
      return;
    }
    const auto [which, one] = any_record();
    if (one->source && one->source->request_stop()) {
      cancelled(*one);
      check(which);
    }
  }

  void reschedule() {
    if (records_.empty()) {
      return;
    }
    const auto [which, one] = any_record();
    const nanoseconds delay = any_delay();
    const time_point deadline = saturating_add(timer_.now(), delay);
    const bool moved = random_.one_in(2) ? one->handle.reschedule(deadline) : one->handle.reschedule_after(delay);
    ASSERT_EQ(moved, one->status == timer_status::pending) << "timer " << which;
    if (moved) {
      arm(*one, deadline);
    }
    check(which);
  }

  void inspect() {
    if (!records_.empty()) {
      check(any_record().first);
    }
  }

  void list() {
    std::set<id> seen;
    timer_.for_each_pending([&](const pending_timer& shown) {
      const record& one = records_.at(shown.tag);
      EXPECT_TRUE(seen.insert(shown.tag).second);
      EXPECT_EQ(one.status, timer_status::pending) << "timer " << shown.tag;
      EXPECT_EQ(one.handle, shown.handle);
      EXPECT_EQ(one.deadline, shown.deadline);
    });
    EXPECT_EQ(seen.size(), pending());
  }

  void advance() {
    const time_point before = timer_.now();
    const time_point target = any_target();
    if (advancing_) {
      EXPECT_THROW(timer_.advance_to(target), timer_error);
      return;
    }
    const std::uint64_t fired = fired_;
    advancing_ = true;
    const std::size_t ran = timer_.advance_to(target);
    advancing_ = false;
    if (scenario_.where == hand_over::none && !draining_) {  // a stop in a callback runs others
      EXPECT_EQ(ran, fired_ - fired);
    }
    EXPECT_GE(timer_.now(), std::max(before, target));
    expect_none_late(std::max(scenario_.options.tick - nanoseconds(1), nanoseconds(1)));
  }

  /// A tick begins in every tick's length, and a window may put a timer off; only what was scheduled at this very
  /// moment may wait for the next step.
  void expect_none_late(nanoseconds limit) {
    for (const auto& [which, one] : records_) {
      EXPECT_FALSE(one.status == timer_status::pending && waits_for(one, limit)) << "timer " << which << " is late";
    }
  }

  void stop_somehow() {
    switch (random_.below(4)) {
      case 0:
        return stop();
      case 1:
        return stop_now();
      case 2:
        return discard();
      default:
        return drain_until(any_target());
    }
  }

  void stop() {
    draining_ = true;
    stopped_ = true;
    account(timer_.stop());
  }

  void discard() {
    draining_ = true;
    stopped_ = true;
    const std::size_t left = pending();
    for (auto& [which, one] : records_) {
      if (one.status == timer_status::pending) {
        one.status = timer_status::finished;
        ++returned_;
      }
    }
    ASSERT_EQ(timer_.stop_discard(), left);
  }

  void stop_now() {
    if (running_now_) {
      EXPECT_EQ(timer_.stop_run_now(), 0U);
      return;
    }
    draining_ = true;
    const std::uint64_t fired = fired_;
    running_now_ = true;
    const std::size_t ran = timer_.stop_run_now();
    running_now_ = false;
    EXPECT_LE(ran, fired_ - fired);
    stopped_ = true;
    EXPECT_EQ(pending(), 0U);
  }

  void drain_until(time_point until) {
    if (running_now_ || running_down_) {
      EXPECT_TRUE(timer_.stop_drain(until).empty());
      return;
    }
    draining_ = true;
    running_down_ = true;
    const time_point before = timer_.now();
    const bool outermost = !std::exchange(advancing_, true);
    const std::vector<pending_task> left = timer_.stop_drain(until);
    advancing_ = !outermost;
    running_down_ = false;
    if (!left.empty()) {
      EXPECT_GE(timer_.now(), until);
    }
    if (!left.empty() && until > before) {  // what begins at `until` has not run
      expect_none_late(std::max(scenario_.options.tick, nanoseconds(2)));
    }
    EXPECT_LE(timer_.now(), std::max(before, until));
    stopped_ = true;
    account(left);
  }

  void account(const std::vector<pending_task>& rest) {
    for (const pending_task& left : rest) {
      record& one = records_.at(left.tag);
      EXPECT_EQ(one.status, timer_status::pending) << "timer " << left.tag;
      EXPECT_EQ(one.deadline, left.deadline) << "timer " << left.tag;
      const nanoseconds whole =
          std::max(one.window, nanoseconds::zero()) / scenario_.options.tick * scenario_.options.tick;
      EXPECT_LE(left.window, whole) << "timer " << left.tag;
      EXPECT_GE(left.window, whole - whole / 5) << "timer " << left.tag;
      EXPECT_TRUE(left.callback);
      one.status = timer_status::finished;
      ++returned_;
    }
    EXPECT_EQ(pending(), 0U);
  }

  // ---- The executor ----

  void execute(task&& work) {
    if (scenario_.where == hand_over::queue) {
      // Choices that have run out are 0: then it must not refuse, since the service would never cease to try.
      switch (random_.below(8)) {
        case 1:
          ++executor_failures_;
          throw std::runtime_error("refused");
        case 2:
          return;
        case 3:
          task(std::move(work))();
          return fail_afterwards();
        case 4:
          queue_.push_back(std::move(work));
          return fail_afterwards();
        default:
          queue_.push_back(std::move(work));
          return;
      }
    }
    task mine = std::move(work);
    mine();
  }

  void fail_afterwards() {
    if (random_.one_in(2)) {
      ++executor_failures_;
      throw std::runtime_error("it has taken the task");
    }
  }

  void run_queued() {
    for (std::uint64_t left = random_.below(4); left > 0 && !queue_.empty() && depth_ < 3; --left) {
      const auto place = queue_.begin() + static_cast<std::ptrdiff_t>(random_.below(queue_.size()));
      task work = std::move(*place);
      queue_.erase(place);
      if (random_.below(8) != 1) {
        work();
      }
    }
  }

  void on_error(const std::exception_ptr& failure, std::uint64_t tag) {
    ++errors_;
    EXPECT_TRUE(failure);
    EXPECT_EQ(records_.count(tag), 1U) << "timer " << tag;
  }

  // ---- Callbacks ----

  void check_self(id which, const timer_handle& self) {
    EXPECT_EQ(self.status(), timer_status::running) << "timer " << which;
    EXPECT_EQ(self, records_.at(which).handle) << "timer " << which;
  }

  void begin(id which) {
    record& one = records_.at(which);
    EXPECT_EQ(one.status, timer_status::pending) << "timer " << which;
    EXPECT_FALSE(stopped_) << "timer " << which;
    if (!running_now_) {
      EXPECT_GE(timer_.now(), one.deadline) << "timer " << which << " is early";
      EXPECT_FALSE(waits_for(one, scenario_.options.tick)) << "timer " << which << " is late";
      EXPECT_NE(one.deadline, time_point::max()) << "timer " << which << " fires at the end of time";
    }
    EXPECT_GE(timer_.now(), latest_run_) << "timer " << which << " is out of order";
    latest_run_ = timer_.now();
    ++fired_;
    one.status = timer_status::running;
    one.cancelled = false;
    if (++one.runs == most_runs) {
      EXPECT_EQ(one.handle.cancel(), cancel_result::running);
      cancelled(one);
    }
    ++depth_;
    act(which);
    --depth_;
    const bool fails = random_.one_in(20);
    failed_ += fails ? 1 : 0;
    end(one);
    if (fails) {
      throw std::runtime_error("asked for");
    }
  }

  void act(id self) {
    check(self);
    for (std::uint64_t left = depth_ < 4 ? random_.below(3) : 0; left > 0; --left) {
      operate();
      check_counts();
    }
    check(self);
  }

  // The end of a run, as far as it is known when the callback returns: for a rule of the user's, when that was asked.
  void end(record& one) {
    if (one.which == kind::with) {
      return;
    }
    if (one.which == kind::once || one.cancelled || draining_) {
      one.status = timer_status::finished;
    } else {
      arm_again(one, next_periodic(one));
    }
  }

  std::optional<time_point> next_of(id which, time_point previous) {
    const auto found = records_.find(which);
    if (found == records_.end()) {
      EXPECT_EQ(previous, timer_.now());
      return first_;
    }
    record& one = found->second;
    EXPECT_EQ(one.status, timer_status::running);
    EXPECT_EQ(previous, one.deadline);
    check(which);
    switch (random_.below(8)) {
      case 0:
        one.status = timer_status::finished;
        return std::nullopt;
      case 1:
        one.status = timer_status::finished;
        ++failed_;
        throw std::runtime_error("no next");
      default:
        break;
    }
    const time_point next = saturating_add(timer_.now(), any_period());
    if (one.cancelled || draining_) {
      one.status = timer_status::finished;
    } else {
      arm_again(one, next);
    }
    return next;
  }

  // ---- What should be ----

  void arm(record& one, time_point deadline) {
    one.deadline = deadline;
    one.due = std::max(deadline, timer_.now());
  }

  void arm_again(record& one, time_point deadline) {
    one.status = timer_status::pending;
    ++scheduled_;
    ++rearmed_;
    arm(one, deadline);
  }

  void cancelled(record& one) {
    if (one.status == timer_status::pending) {
      one.status = timer_status::finished;
      ++cancelled_;
    } else if (one.status == timer_status::running) {
      one.cancelled = true;
    }
  }

  [[nodiscard]] time_point next_periodic(const record& one) const {
    const time_point now = timer_.now();
    if (one.policy == fixed_delay) {
      return saturating_add(now, one.period);
    }
    if (one.policy == fixed_rate_catch_up || now < one.deadline) {
      return saturating_add(one.deadline, one.period);
    }
    __extension__ using wide = __int128;
    const wide late = wide{now.time_since_epoch().count()} - one.deadline.time_since_epoch().count();
    return saturating_add(now - nanoseconds(static_cast<std::int64_t>(late % one.period.count())), one.period);
  }

  [[nodiscard]] std::error_code expected_refusal() const {
    if (draining_) {
      return timer_errc::stopped;
    }
    const auto runs_again = std::count_if(records_.begin(), records_.end(), [](const auto& entry) {
      return entry.second.which != kind::once && entry.second.status == timer_status::running;
    });
    const std::size_t taken = pending() + static_cast<std::size_t>(runs_again);
    return taken < scenario_.options.max_pending ? std::error_code() : timer_errc::too_many_pending;
  }

  [[nodiscard]] static cancel_result expected_cancel(timer_status status) {
    switch (status) {
      case timer_status::pending:
        return cancel_result::cancelled;
      case timer_status::running:
        return cancel_result::running;
      case timer_status::finished:
        break;
    }
    return cancel_result::finished;
  }

  [[nodiscard]] std::size_t count(timer_status status) const {
    return static_cast<std::size_t>(std::count_if(
        records_.begin(), records_.end(), [status](const auto& entry) { return entry.second.status == status; }));
  }
  [[nodiscard]] std::size_t pending() const { return count(timer_status::pending); }

  /// Whether the window of `one` has been over for `limit`; what waits in the queue of an executor may be.
  [[nodiscard]] bool waits_for(const record& one, nanoseconds limit) const {
    const nanoseconds longest = std::max(one.window, nanoseconds::zero()) + limit;
    return scenario_.where != hand_over::queue && one.deadline != time_point::max() &&
           timer_.now() >= saturating_add(one.due, longest) && one.due <= time_point::max() - longest;
  }

  void check(id which) const {
    const record& one = records_.at(which);
    SCOPED_TRACE(testing::Message() << "timer " << which);
    EXPECT_EQ(one.handle.status(), one.status);
    const bool known = one.status != timer_status::finished;
    EXPECT_EQ(one.handle.deadline(), known ? std::optional(one.deadline) : std::nullopt);
    EXPECT_EQ(one.handle.tag(), known ? std::optional(which) : std::nullopt);
    EXPECT_EQ(one.handle.remaining(), known ? std::optional(time_to(one.deadline)) : std::nullopt);
  }

  [[nodiscard]] nanoseconds time_to(time_point deadline) const {
    const time_point now = timer_.now();
    if (deadline <= now) {
      return nanoseconds::zero();
    }
    const bool overflows = now < time_point() && deadline > time_point::max() + now.time_since_epoch();
    return overflows ? nanoseconds::max() : deadline - now;
  }

  void check_counts() const {
    const timer_stats counts = timer_.stats();
    EXPECT_TRUE(conserved(counts));
    EXPECT_EQ(counts.scheduled, scheduled_);
    EXPECT_EQ(counts.fired, fired_);
    EXPECT_EQ(counts.cancelled, cancelled_);
    EXPECT_EQ(counts.returned, returned_);
    EXPECT_EQ(counts.rejected, rejected_);
    EXPECT_EQ(counts.rearmed, rearmed_);
    EXPECT_EQ(counts.pending, pending());
    EXPECT_EQ(counts.running, count(timer_status::running));
    EXPECT_EQ(timer_.pending(), pending());
    EXPECT_EQ(counts.early, 0U);
    EXPECT_LE(counts.due, counts.pending);
    if constexpr (!std::same_as<Engine, hierarchical_wheel>) {
      EXPECT_EQ(counts.moves_saved + counts.wakeups_shared, 0U);
    }
    EXPECT_EQ(timer_.stopped(), stopped_);
    EXPECT_EQ(captures_.alive(), static_cast<std::int64_t>(pending() + count(timer_status::running)));
    if (depth_ == 0) {
      EXPECT_EQ(counts.failed, failed_);
      EXPECT_EQ(errors_, scenario_.has_on_error ? failed_ + executor_failures_ : 0);
    }
  }

  // ---- Choices ----

  [[nodiscard]] std::pair<id, record*> any_record() {
    auto found = records_.lower_bound(random_.below(next_id_));
    if (found == records_.end()) {
      found = records_.begin();
    }
    return {found->first, &found->second};
  }

  [[nodiscard]] nanoseconds any_delay() {
    switch (random_.below(8)) {
      case 0:
        return -nanoseconds(random_.magnitude(40));
      case 1:
        return around(scenario_.options.tick, random_.below(600));
      case 2:
        return around(level_tick(random_.below(4)), 1);
      case 3:
        return random_.one_in(10) ? nanoseconds::max() : around(scenario_.options.tick, random_.below(3));
      default:
        return nanoseconds(random_.magnitude(scenario_.delay_bits));
    }
  }

  [[nodiscard]] nanoseconds any_period() {
    switch (random_.below(8)) {
      case 0:
        return around(scenario_.options.tick, 1);
      case 1:
        return around(scenario_.options.tick, random_.below(600));
      default:
        return std::max(nanoseconds(random_.magnitude(scenario_.delay_bits)),
                        nanoseconds(std::chrono::milliseconds(1)));
    }
  }

  // None for most, and about as long as a level's tick for some.
  [[nodiscard]] nanoseconds any_window() {
    switch (random_.below(8)) {
      case 1:
        return -nanoseconds(random_.magnitude(40));
      case 2:
        return nanoseconds(random_.magnitude(50));
      case 3:
        return around(level_tick(random_.below(4)), 1);
      default:
        return nanoseconds::zero();
    }
  }

  // A wheel that visits every tick is not sent far at once.
  [[nodiscard]] time_point any_target() {
    constexpr std::int64_t most_ticks = std::same_as<Engine, hashed_wheel> ? 2'000 : std::int64_t{1} << 62U;
    const std::int64_t longest = std::numeric_limits<std::int64_t>::max() / most_ticks;
    const nanoseconds jump =
        scenario_.options.tick.count() > longest ? nanoseconds::max() : most_ticks * scenario_.options.tick;
    return std::min(any_time(), saturating_add(timer_.now(), jump));
  }

  [[nodiscard]] time_point any_time() {
    const time_point earliest = earliest_deadline();
    switch (random_.below(6)) {
      case 0:
        return earliest == time_point::min() ? earliest : earliest - nanoseconds(1);
      case 1:
        return saturating_add(earliest, scenario_.options.tick - nanoseconds(1));
      case 2:
        return timer_.now();
      default:
        return saturating_add(timer_.now(), any_delay());
    }
  }

  [[nodiscard]] time_point earliest_deadline() const {
    time_point earliest = time_point::max();
    for (const auto& [which, one] : records_) {
      earliest = one.status == timer_status::pending ? std::min(earliest, one.deadline) : earliest;
    }
    return earliest;
  }

  /// `count` times `unit`, or 1 ns to either side.
  [[nodiscard]] nanoseconds around(nanoseconds unit, std::uint64_t count) {
    return unit * static_cast<std::int64_t>(count) + nanoseconds(random_.below(3)) - nanoseconds(1);
  }

  [[nodiscard]] nanoseconds level_tick(std::uint64_t level) const {
    nanoseconds length = scenario_.options.tick;
    for (std::uint64_t i = 0; i < level; ++i) {
      length *= scenario_.options.wheel_size.value();
    }
    return length;
  }

  dice random_;
  service_scenario scenario_;
  live_captures captures_;
  std::map<id, record> records_;
  std::vector<task> queue_;  // of the executor
  manual_timer_on<Engine> timer_;

  id next_id_ = 0;
  std::optional<time_point> first_;  // what the rule that is being scheduled gives at first
  bool draining_ = false;
  bool stopped_ = false;
  bool advancing_ = false;
  bool running_now_ = false;   // in stop_run_now()
  bool running_down_ = false;  // in stop_drain()
  int depth_ = 0;              // callbacks in one another
  time_point latest_run_ = time_point::min();
  std::uint64_t scheduled_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t rejected_ = 0;
  std::uint64_t rearmed_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t executor_failures_ = 0;
  std::uint64_t errors_ = 0;
};

}  // namespace timing_wheel::test
