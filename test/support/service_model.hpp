#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "service_audit.hpp"
#include "service_captures.hpp"
#include "service_random.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::test {

/// What one run of the model does. Everything follows from the seed.
struct service_scenario {
  timer_options options;
  time_point start;
  unsigned delay_bits;  // delays are below 2^delay_bits ns, of any order of magnitude
  int steps;
};

[[nodiscard]] inline service_scenario scenario_of(std::uint64_t seed) {
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
  dice random(seed);
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
  return made;
}

/// A `manual_timer`, and beside it the contract in its plainest form: a map of what should be. Random operations go to
/// both; every answer and every count must agree. Callbacks are checked when they begin, and do random things too.
class service_model {
 public:
  explicit service_model(std::uint64_t seed)
      : scenario_(scenario_of(seed)), random_(seed + 1), timer_(scenario_.options, manual_clock(scenario_.start)) {}

  void run() {
    for (int step = 0; step < scenario_.steps && !testing::Test::HasFailure(); ++step) {
      operate();
      check_counts();
    }
    stop();
    check_counts();
    advance();
    check_counts();
  }

 private:
  struct record {
    timer_status status = timer_status::pending;
    time_point deadline;
    time_point due;  // the later of the deadline and of when it was given
    timer_handle handle;
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
  struct large_callback : callback {
    std::array<char, 100> ballast{};
  };

  // ---- Operations ----

  void operate() {
    if (random_.one_in(500)) {
      return stop();
    }
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        return schedule();
      case 3:
        return cancel();
      case 4:
        return reschedule();
      case 5:
        return inspect();
      default:
        return running_ ? inspect() : advance();
    }
  }

  void schedule() {
    const id which = next_id_++;
    const nanoseconds delay = any_delay();
    const time_point deadline = saturating_add(timer_.now(), delay);
    const std::error_code expected = expected_refusal();
    std::error_code error;
    const timer_handle handle = start(which, delay, deadline, error);
    ASSERT_EQ(error, expected);
    ASSERT_EQ(static_cast<bool>(handle), !expected);
    if (expected) {
      ++rejected_;
    } else {
      records_[which] = {timer_status::pending, deadline, std::max(deadline, timer_.now()), handle};
      check(which);
    }
  }

  timer_handle start(id which, nanoseconds delay, time_point deadline, std::error_code& error) {
    callback small{this, which, captures_.make()};
    switch (random_.below(5)) {
      case 0:
        return timer_.schedule_at(deadline, std::move(small), which, error);
      case 1:
        return timer_.schedule_at(deadline, large_callback{std::move(small)}, which, error);
      case 2:
        return timer_.schedule_at(wall_time(deadline.time_since_epoch()), std::move(small), which, error);
      case 3:
        return timer_.schedule_after(delay, large_callback{std::move(small)}, which, error);
      default:
        return timer_.schedule_after(delay, std::move(small), which, error);
    }
  }

  void cancel() {
    if (records_.empty()) {
      return;
    }
    const auto [which, one] = any_record();
    ASSERT_EQ(one->handle.cancel(), expected_cancel(one->status)) << "timer " << which;
    if (one->status == timer_status::pending) {
      one->status = timer_status::finished;
      ++cancelled_;
    }
    check(which);
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
      one->deadline = deadline;
      one->due = std::max(deadline, timer_.now());
    }
    check(which);
  }

  void inspect() {
    if (!records_.empty()) {
      check(any_record().first);
    }
  }

  void advance() {
    const time_point before = timer_.now();
    const time_point target = any_target();
    const std::uint64_t fired = fired_;
    const std::size_t ran = timer_.advance_to(target);
    EXPECT_EQ(ran, fired_ - fired);
    EXPECT_EQ(timer_.now(), std::max(before, target));
    // A tick begins in every tick's length; only what was scheduled at this very moment may wait for the next step.
    const nanoseconds limit = std::max(scenario_.options.tick - nanoseconds(1), nanoseconds(1));
    for (const auto& [which, one] : records_) {
      EXPECT_FALSE(one.status == timer_status::pending && waits_for(one, limit)) << "timer " << which << " is late";
    }
  }

  void stop() {
    stopped_ = true;
    for (const pending_task& left : timer_.stop()) {
      record& one = records_.at(left.tag);
      EXPECT_EQ(one.status, timer_status::pending) << "timer " << left.tag;
      EXPECT_EQ(one.deadline, left.deadline) << "timer " << left.tag;
      EXPECT_TRUE(left.callback);
      one.status = timer_status::finished;
      ++returned_;
    }
    EXPECT_EQ(pending(), 0U);
  }

  // ---- Callbacks ----

  void begin(id which) {
    record& one = records_.at(which);
    EXPECT_EQ(one.status, timer_status::pending) << "timer " << which;
    EXPECT_GE(timer_.now(), one.deadline) << "timer " << which << " is early";
    EXPECT_FALSE(waits_for(one, scenario_.options.tick)) << "timer " << which << " is late";
    EXPECT_NE(one.deadline, time_point::max()) << "timer " << which << " fires at the end of time";
    EXPECT_GE(timer_.now(), latest_run_) << "timer " << which << " is out of order";
    latest_run_ = timer_.now();
    ++fired_;
    one.status = timer_status::running;
    running_ = true;
    act(which);
    running_ = false;
    one.status = timer_status::finished;
    if (random_.one_in(20)) {
      ++failed_;
      throw std::runtime_error("asked for");
    }
  }

  void act(id self) {
    check(self);
    for (std::uint64_t left = random_.below(3); left > 0; --left) {
      operate();
      check_counts();
    }
    check(self);
  }

  // ---- What should be ----

  [[nodiscard]] std::error_code expected_refusal() const {
    if (stopped_) {
      return timer_errc::stopped;
    }
    return pending() < scenario_.options.max_pending ? std::error_code() : timer_errc::too_many_pending;
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

  [[nodiscard]] std::size_t pending() const {
    return static_cast<std::size_t>(std::count_if(records_.begin(), records_.end(), [](const auto& entry) {
      return entry.second.status == timer_status::pending;
    }));
  }

  /// Whether `one` has been due for `limit`.
  [[nodiscard]] bool waits_for(const record& one, nanoseconds limit) const {
    return one.deadline != time_point::max() && timer_.now() >= saturating_add(one.due, limit) &&
           one.due <= time_point::max() - limit;
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
    EXPECT_EQ(counts.fired, fired_);
    EXPECT_EQ(counts.cancelled, cancelled_);
    EXPECT_EQ(counts.returned, returned_);
    EXPECT_EQ(counts.rejected, rejected_);
    EXPECT_EQ(counts.pending, pending());
    EXPECT_EQ(timer_.pending(), pending());
    EXPECT_EQ(counts.early, 0U);
    EXPECT_EQ(timer_.stopped(), stopped_);
    EXPECT_EQ(captures_.alive(), static_cast<std::int64_t>(pending() + (running_ ? 1 : 0)));
    if (!running_) {
      EXPECT_EQ(counts.failed, failed_);
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

  [[nodiscard]] time_point any_target() {
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
      length *= scenario_.options.wheel_size;
    }
    return length;
  }

  service_scenario scenario_;
  dice random_;
  live_captures captures_;
  manual_timer timer_;

  std::map<id, record> records_;
  id next_id_ = 0;
  bool stopped_ = false;
  bool running_ = false;
  time_point latest_run_ = time_point::min();
  std::uint64_t fired_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t rejected_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace timing_wheel::test
