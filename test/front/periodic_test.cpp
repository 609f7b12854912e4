/// \file
/// Periodic timers: when they run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_periodic.hpp"
#include "support/service_scale.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;
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

TEST(Periodic, RunsEveryPeriodUnderEveryPolicy) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    run_log log(timer);
    timer.schedule_every(10ms, log.writing(), {.policy = policy});
    EXPECT_EQ(timer.advance_by(45ms), 4U);
    EXPECT_THAT(log.times, ElementsAre(10ms, 20ms, 30ms, 40ms));
  }
}

TEST(Periodic, TheFirstRunIsOnePeriodFromNow) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({}, starting_at(7ms));
    run_log log(timer);
    const timer_handle handle = timer.schedule_every(10ms, log.writing(), {.policy = policy});
    EXPECT_EQ(handle.deadline(), at(17ms));
    EXPECT_EQ(timer.advance_to(at(17ms) - 1ns), 0U);
    EXPECT_EQ(timer.advance_to(at(17ms)), 1U);
  }
}

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

TEST(Periodic, SeveralKeepTheirOwnPeriods) {
  manual_timer timer;
  std::vector<int> ran;
  for (const int period : {2, 3, 7}) {
    timer.schedule_every(period * 1ms, [&ran, period] { ran.push_back(period); });
  }
  timer.advance_by(42ms);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), 2), 21);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), 3), 14);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), 7), 6);
}

TEST(Periodic, MaySchedulePeriodicTimersInItsCallback) {
  manual_timer timer;
  run_log log(timer);
  timer.schedule_after(5ms, [&] { timer.schedule_every(10ms, log.writing()); });
  timer.advance_by(30ms);
  EXPECT_THAT(log.times, ElementsAre(15ms, 25ms));
}

TEST(Periodic, RunsAMillionTimes) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({.wheel_size = 8});
    std::uint64_t runs = 0;
    timer.schedule_every(3ms, [&] { ++runs; }, {.policy = policy});
    timer.advance_by(3ms * scaled(1'000'000));
    EXPECT_EQ(runs, scaled(1'000'000));
    EXPECT_TRUE(conserved(timer));
  }
}

// ---- Runs that are late ----

/// The deadline after a first run, due at 10 ms, that begins at `begin` and ends at `end`; the period is 10 ms.
std::optional<time_point> deadline_after_run(period_policy policy, nanoseconds begin, nanoseconds end) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::latch over(1);
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

struct late_runs {
  std::size_t at_45ms;
  std::vector<nanoseconds> later;
};

/// Period 10 ms; the first run is kept back until 45 ms, from then on all are in time.
late_runs kept_back_until_45ms(period_policy policy) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  run_log log(timer);
  timer.schedule_every(10ms, log.writing(), {.policy = policy});
  timer.advance_by(45ms);
  EXPECT_EQ(tasks.size(), 1U) << "runs overlap";
  const std::size_t late = run_all(timer, tasks);
  log.times.clear();
  for (int step = 0; step < 25; ++step) {
    timer.advance_by(1ms);
    run_all(timer, tasks);
  }
  EXPECT_TRUE(conserved(timer));
  return {late, log.times};
}

TEST(Periodic, CatchUpRunsAllThatWasMissed) {
  const late_runs runs = kept_back_until_45ms(fixed_rate_catch_up);
  EXPECT_EQ(runs.at_45ms, 4U);
  EXPECT_THAT(runs.later, ElementsAre(50ms, 60ms, 70ms));
}

TEST(Periodic, SkipRunsOneOfThoseThatWereMissed) {
  const late_runs runs = kept_back_until_45ms(fixed_rate_skip);
  EXPECT_EQ(runs.at_45ms, 1U);
  EXPECT_THAT(runs.later, ElementsAre(50ms, 60ms, 70ms));
}

TEST(Periodic, FixedDelayStartsAnewAfterALateRun) {
  const late_runs runs = kept_back_until_45ms(fixed_delay);
  EXPECT_EQ(runs.at_45ms, 1U);
  EXPECT_THAT(runs.later, ElementsAre(55ms, 65ms));
}

TEST(Periodic, CatchUpSeesEachMissedDeadline) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<std::optional<time_point>> deadlines;
  timer.schedule_every(10ms, [&](const timer_handle& self) { deadlines.push_back(self.deadline()); },
                       {.policy = fixed_rate_catch_up});
  timer.advance_by(39ms);
  run_all(timer, tasks);
  EXPECT_THAT(deadlines, ElementsAre(at(10ms), at(20ms), at(30ms)));
}

TEST(Periodic, CatchUpDoesNotMissARunInAJumpOfHours) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_every(1s, nothing, {.policy = fixed_rate_catch_up});
  timer.advance_by(3h);
  EXPECT_EQ(run_all(timer, tasks), 3U * 3600U);
  EXPECT_EQ(timer.stats().fired, 3U * 3600U);
}

TEST(Periodic, ARunThatHasNotEndedIsNotHandedOverAgain) {
  for (const period_policy policy : every_policy) {
    kept_tasks tasks;
    manual_timer timer({.executor = tasks.taking()});
    std::size_t handed_over_meanwhile = 99;
    timer.schedule_every(10ms, [&] { handed_over_meanwhile = tasks.size(); }, {.policy = policy});
    timer.advance_by(10ms);
    timer.advance_by(1h);
    EXPECT_EQ(tasks.size(), 1U);
    tasks.run();
    EXPECT_EQ(handed_over_meanwhile, 0U);
  }
}

TEST(Periodic, WhileARunLastsNoOtherBegins) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::latch over(1);
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

TEST(Periodic, AHugePeriodNeverFires) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({}, starting_at(1h));
    const timer_handle handles[] = {
        timer.schedule_every(hours::max(), nothing, {.policy = policy}),
        timer.schedule_every(nanoseconds::max(), nothing, {.policy = policy}),
        timer.schedule_every(std::chrono::duration<double>::max(), nothing, {.policy = policy})};
    EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
    for (const timer_handle& handle : handles) {
      EXPECT_EQ(handle.deadline(), time_point::max());
      EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
    }
  }
}

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

TEST(Periodic, RunsFromAnyStartOfTime) {
  for (const nanoseconds start : {nanoseconds::min(), -1ns, nanoseconds(std::int64_t{1} << 40)}) {
    for (const period_policy policy : every_policy) {
      manual_timer timer({.tick = 1ns}, starting_at(start));
      timer.schedule_every(10ns, nothing, {.policy = policy});
      EXPECT_EQ(timer.advance_by(105ns), 10U);
    }
  }
}

}  // namespace
}  // namespace timing_wheel::test
