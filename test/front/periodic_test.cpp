/// \file
/// Periodic timers: when they run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "support/meeting.hpp"
#include "support/service_periodic.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;

/// Runs what is kept, and what is due again because of that, until nothing is.
std::size_t run_all(manual_timer& timer, kept_tasks& tasks) {
  std::size_t ran = 0;
  do {
    ran += tasks.run();
    timer.advance_to(timer.now());
  } while (tasks.size() != 0);
  return ran;
}

// ---- When it runs ----

TEST(Periodic, EachRunWaitsForItsWholePeriod) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    timer.schedule_every(10ms, nothing, {.policy = policy});
    for (int run = 1; run <= 100; ++run) {
      ASSERT_EQ(timer.advance_to(at(run * 10ms) - 1ns), 0U);
      ASSERT_EQ(timer.advance_to(at(run * 10ms)), 1U);
    }
  }
}

TEST(Periodic, AFixedDelayIsCountedFromTheRunAndAFixedRateFromTheDeadline) {
  manual_timer timer({.tick = 10ms});
  run_log delay(timer);
  run_log rate(timer);
  timer.schedule_every(25ms, delay.writing(), {.policy = fixed_delay});
  timer.schedule_every(25ms, rate.writing(), {.policy = fixed_rate_catch_up});
  timer.advance_by(150ms);
  EXPECT_THAT(delay.times, ElementsAre(30ms, 60ms, 90ms, 120ms, 150ms));
  EXPECT_THAT(rate.times, ElementsAre(30ms, 50ms, 80ms, 100ms, 130ms, 150ms));
}

TEST(Periodic, APeriodShorterThanATickRunsOncePerTickUnlessItCatchesUp) {
  manual_timer timer({.tick = 10ms});
  std::array<int, 3> runs{};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    timer.schedule_every(1ms, [&runs, i] { ++runs[i]; }, {.policy = every_policy[i]});
  }
  timer.advance_by(100ms);
  EXPECT_THAT(runs, ElementsAre(10, 100, 10));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(Periodic, ThePolicyIsAFixedDelayUnlessGiven) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_every(10ms, nothing);
  timer.advance_by(37ms);
  tasks.run();
  EXPECT_EQ(handle.deadline(), at(47ms));
}

// ---- Runs that are late ----

/// The deadline after a first run, due at 10 ms, that begins at `begin` and ends at `end`; the period is 10 ms.
std::optional<time_point> deadline_after_run(period_policy policy, nanoseconds begin, nanoseconds end) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  latch begun(1);
  latch over(1);
  const timer_handle handle = timer.schedule_every(10ms, [&] { begun.count_down(), over.wait(); }, {.policy = policy});
  timer.advance_to(at(begin));
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  timer.advance_to(at(end));
  over.count_down();
  thread.join();
  return handle.deadline();
}

TEST(Periodic, FixedDelayCountsFromTheEndOfTheRun) {
  EXPECT_EQ(deadline_after_run(fixed_delay, 10ms, 35ms), at(45ms));
  EXPECT_EQ(deadline_after_run(fixed_delay, 30ms, 35ms), at(45ms));
  EXPECT_EQ(deadline_after_run(fixed_delay, 12ms, 12ms), at(22ms));
}

TEST(Periodic, CatchUpCountsFromTheDeadlineBefore) {
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 10ms, 35ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 35ms, 35ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 12ms, 12ms), at(20ms));
}

TEST(Periodic, SkipTakesTheNextMultipleAfterTheEndOfTheRun) {
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 35ms), at(40ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 12ms, 12ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 40ms), at(50ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 40ms - 1ns), at(40ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 40ms + 1ns), at(50ms));
}

TEST(Periodic, CatchUpDoesNotMissARunInAJumpOfHours) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_every(1s, nothing, {.policy = fixed_rate_catch_up});
  timer.advance_by(3h);
  EXPECT_EQ(run_all(timer, tasks), 3U * 3600U);
  EXPECT_EQ(timer.stats().fired, 3U * 3600U);
}

TEST(Periodic, WhileARunLastsNoOtherBegins) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  latch begun(1);
  latch over(1);
  timer.schedule_every(10ms, [&] { begun.count_down(), over.wait(); }, {.policy = fixed_rate_catch_up});
  timer.advance_by(10ms);
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(timer.stats().running, 1U);
  EXPECT_EQ(timer.stats().due, 0U);
  over.count_down();
  thread.join();
  EXPECT_EQ(timer.advance_to(timer.now()), 1U);
}

TEST(Periodic, ATaskOfAnEarlierRunDoesNotRunTheTimerAgain) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_every(10ms, [&] { ++runs; });
  timer.advance_by(10ms);
  std::vector<task> first = tasks.take();
  first.at(0)();
  first.at(0)();
  EXPECT_EQ(runs, 1);
  timer.advance_by(10ms);
  first.at(0)();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(tasks.run(), 1U);
  EXPECT_EQ(runs, 2);
}

// ---- The ends of time ----

TEST(Periodic, TheLastRunsBeforeTheEndOfTimeAreNotEarly) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({}, starting_at(nanoseconds::max() - 25ms));
    const timer_handle handle = timer.schedule_every(10ms, nothing, {.policy = policy});
    EXPECT_EQ(timer.advance_to(time_point::max()), 2U);
    EXPECT_EQ(handle.deadline(), time_point::max());
    EXPECT_EQ(timer.stats().early, 0U);
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  }
}

TEST(Periodic, ASkipOverMoreThanHalfOfAllTimeIsToALaterDeadline) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()}, starting_at(nanoseconds::min()));
  const timer_handle handle = timer.schedule_every(1h, nothing, {.policy = fixed_rate_skip});
  timer.advance_to(time_point::max() - 90min);
  tasks.run();
  // "At the next multiple of the period that is later than now."
  ASSERT_TRUE(handle.deadline());
  EXPECT_GT(*handle.deadline(), timer.now());
}

}  // namespace
}  // namespace timing_wheel::test
