#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_scale.hpp"
#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::array every_policy{fixed_delay, fixed_rate_catch_up, fixed_rate_skip};

/// When a callback ran, on the clock of its service.
struct run_log {
  explicit run_log(const manual_timer& service) : timer(service) {}

  [[nodiscard]] auto writing() {
    return [this] { times.push_back(timer.now().time_since_epoch()); };
  }

  const manual_timer& timer;
  std::vector<nanoseconds> times;
};

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
    timer.schedule_every(10ms, log.writing(), policy);
    EXPECT_EQ(timer.advance_by(45ms), 4U);
    EXPECT_THAT(log.times, ElementsAre(10ms, 20ms, 30ms, 40ms));
  }
}

TEST(Periodic, TheFirstRunIsOnePeriodFromNow) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({}, starting_at(7ms));
    run_log log(timer);
    const timer_handle handle = timer.schedule_every(10ms, log.writing(), policy);
    EXPECT_EQ(handle.deadline(), at(17ms));
    EXPECT_EQ(timer.advance_to(at(17ms) - 1ns), 0U);
    EXPECT_EQ(timer.advance_to(at(17ms)), 1U);
  }
}

TEST(Periodic, EachRunWaitsForItsWholePeriod) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    timer.schedule_every(10ms, nothing, policy);
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
  timer.schedule_every(25ms, delay.writing(), fixed_delay);
  timer.schedule_every(25ms, rate.writing(), fixed_rate_catch_up);
  timer.advance_by(150ms);
  EXPECT_THAT(delay.times, ElementsAre(30ms, 60ms, 90ms, 120ms, 150ms));
  EXPECT_THAT(rate.times, ElementsAre(30ms, 50ms, 80ms, 100ms, 130ms, 150ms));
}

TEST(Periodic, APeriodShorterThanATickRunsOncePerTickUnlessItCatchesUp) {
  manual_timer timer({.tick = 10ms});
  std::array<int, 3> runs{};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    timer.schedule_every(
        1ms, [&runs, i] { ++runs[i]; }, every_policy[i]);
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

TEST(Periodic, Scenario22_RunsAMillionTimes) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({.wheel_size = 8});
    std::uint64_t runs = 0;
    timer.schedule_every(
        3ms, [&] { ++runs; }, policy);
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
  const timer_handle handle = timer.schedule_every(
      10ms, [&] { begun.count_down(), over.wait(); }, policy);
  timer.advance_to(at(begin));
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  timer.advance_to(at(end));
  over.count_down();
  thread.join();
  return handle.deadline();
}

TEST(Periodic, Scenario21_FixedDelayCountsFromTheEndOfTheRun) {
  EXPECT_EQ(deadline_after_run(fixed_delay, 10ms, 35ms), at(45ms));
  EXPECT_EQ(deadline_after_run(fixed_delay, 30ms, 35ms), at(45ms));
  EXPECT_EQ(deadline_after_run(fixed_delay, 12ms, 12ms), at(22ms));
}

TEST(Periodic, Scenario21_CatchUpCountsFromTheDeadlineBefore) {
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 10ms, 35ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 35ms, 35ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 12ms, 12ms), at(20ms));
}

TEST(Periodic, Scenario21_SkipTakesTheNextMultipleAfterTheEndOfTheRun) {
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
  timer.schedule_every(10ms, log.writing(), policy);
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

TEST(Periodic, Scenario21_CatchUpRunsAllThatWasMissed) {
  const late_runs runs = kept_back_until_45ms(fixed_rate_catch_up);
  EXPECT_EQ(runs.at_45ms, 4U);
  EXPECT_THAT(runs.later, ElementsAre(50ms, 60ms, 70ms));
}

TEST(Periodic, Scenario21_SkipRunsOneOfThoseThatWereMissed) {
  const late_runs runs = kept_back_until_45ms(fixed_rate_skip);
  EXPECT_EQ(runs.at_45ms, 1U);
  EXPECT_THAT(runs.later, ElementsAre(50ms, 60ms, 70ms));
}

TEST(Periodic, Scenario21_FixedDelayStartsAnewAfterALateRun) {
  const late_runs runs = kept_back_until_45ms(fixed_delay);
  EXPECT_EQ(runs.at_45ms, 1U);
  EXPECT_THAT(runs.later, ElementsAre(55ms, 65ms));
}

TEST(Periodic, Scenario21_CatchUpSeesEachMissedDeadline) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<std::optional<time_point>> deadlines;
  timer.schedule_every(
      10ms, [&](const timer_handle& self) { deadlines.push_back(self.deadline()); }, fixed_rate_catch_up);
  timer.advance_by(39ms);
  run_all(timer, tasks);
  EXPECT_THAT(deadlines, ElementsAre(at(10ms), at(20ms), at(30ms)));
}

TEST(Periodic, Scenario21_CatchUpDoesNotMissARunInAJumpOfHours) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_every(1s, nothing, fixed_rate_catch_up);
  timer.advance_by(3h);
  EXPECT_EQ(run_all(timer, tasks), 3U * 3600U);
  EXPECT_EQ(timer.stats().fired, 3U * 3600U);
}

TEST(Periodic, Scenario21_ARunThatHasNotEndedIsNotHandedOverAgain) {
  for (const period_policy policy : every_policy) {
    kept_tasks tasks;
    manual_timer timer({.executor = tasks.taking()});
    std::size_t handed_over_meanwhile = 99;
    timer.schedule_every(
        10ms, [&] { handed_over_meanwhile = tasks.size(); }, policy);
    timer.advance_by(10ms);
    timer.advance_by(1h);
    EXPECT_EQ(tasks.size(), 1U);
    tasks.run();
    EXPECT_EQ(handed_over_meanwhile, 0U);
  }
}

TEST(Periodic, Scenario21_WhileARunLastsNoOtherBegins) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::latch over(1);
  timer.schedule_every(
      10ms, [&] { begun.count_down(), over.wait(); }, fixed_rate_catch_up);
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

TEST(Periodic, Scenario21_ATaskOfAnEarlierRunDoesNotRunTheTimerAgain) {
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

// ---- Refusals ----

TEST(Periodic, RefusesAPeriodThatIsNotPositiveAndNamesIt) {
  manual_timer timer;
  for (const auto& [period, number] : {std::pair<nanoseconds, const char*>(0ns, "0"), {-5ns, "-5"}, {-7h, "-252"}}) {
    for (const period_policy policy : every_policy) {
      const refusal answer = refusal_of([&, p = period] { timer.schedule_every(p, nothing, policy); });
      EXPECT_EQ(answer.code, timer_errc::invalid_period);
      EXPECT_THAT(answer.message, HasSubstr(number));
    }
  }
}

TEST(Periodic, ReportsAPeriodThatIsNotPositiveAsAnErrorCode) {
  live_captures captures;
  manual_timer timer;
  for (const nanoseconds period : {0ns, -1ns, nanoseconds::min()}) {
    std::error_code error;
    const timer_handle handle = timer.schedule_every(
        period, [token = captures.make()] {}, fixed_delay, {.tag = 7}, error);
    EXPECT_EQ(error, timer_errc::invalid_period);
    EXPECT_FALSE(handle);
  }
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Periodic, ARefusedPeriodSchedulesNothing) {
  manual_timer timer;
  EXPECT_THROW(timer.schedule_every(0ms, nothing), timer_error);
  EXPECT_THROW(timer.schedule_every(std::chrono::duration<double>(-0.5), nothing), timer_error);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(Periodic, ARefusedPeriodLeavesTheCallableToTheCaller) {
  live_captures captures;
  manual_timer timer;
  {
    auto callback = [token = captures.make()] {};
    EXPECT_THROW(timer.schedule_every(0ms, std::move(callback)), timer_error);
    EXPECT_EQ(captures.alive(), 1);
  }
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Periodic, AcceptsTheSmallestPeriod) {
  manual_timer timer({.tick = 1ns});
  EXPECT_TRUE(timer.schedule_every(1ns, nothing));
  EXPECT_TRUE(timer.schedule_every(std::chrono::duration<double, std::nano>(0.25), nothing));
  EXPECT_EQ(timer.advance_by(10ns), 20U);
}

TEST(Periodic, IsRefusedByAStoppedService) {
  live_captures captures;
  manual_timer timer;
  timer.stop();
  EXPECT_EQ(refusal_of([&] { timer.schedule_every(1ms, [token = captures.make()] {}); }).code, timer_errc::stopped);
  std::error_code error;
  const auto always = [](time_point previous) { return std::optional(previous + 1ms); };
  EXPECT_FALSE(timer.schedule_with(
      always, [token = captures.make()] {}, error));
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().rejected, 2U);
}

TEST(Periodic, TheErrorCodeIsClearedOnSuccess) {
  manual_timer timer;
  std::error_code error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_every(1ms, nothing, fixed_delay, error));
  EXPECT_FALSE(error);
  error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_with([](time_point now) { return now + 1ms; }, nothing, error));
  EXPECT_FALSE(error);
}

// ---- Its handle ----

TEST(Periodic, TheHandleStaysTheSameOverAllRuns) {
  manual_timer timer;
  std::vector<timer_handle> seen;
  const timer_handle handle =
      timer.schedule_every(10ms, [&](const timer_handle& self) { seen.push_back(self); }, fixed_delay, {.tag = 17});
  for (int run = 1; run <= 5; ++run) {
    EXPECT_EQ(handle.status(), timer_status::pending);
    EXPECT_EQ(handle.deadline(), at(run * 10ms));
    EXPECT_EQ(handle.remaining(), 10ms);
    EXPECT_EQ(handle.tag(), 17U);
    timer.advance_by(10ms);
  }
  EXPECT_THAT(seen, AllOf(SizeIs(5), Each(handle)));
}

TEST(Periodic, IsRunningInItsCallback) {
  manual_timer timer;
  timer_handle handle;
  int runs = 0;
  handle = timer.schedule_every(10ms, [&] {
    ++runs;
    EXPECT_EQ(handle.status(), timer_status::running);
    EXPECT_EQ(handle.deadline(), at(runs * 10ms));
    EXPECT_FALSE(handle.reschedule_after(1ms));
  });
  timer.advance_by(35ms);
  EXPECT_EQ(runs, 3);
}

TEST(Periodic, Scenario15_AHandleOfOneThatEndedDoesNothingToTheNextInItsPlace) {
  manual_timer timer;
  const timer_handle stale = timer.schedule_every(10ms, nothing);
  timer.advance_by(35ms);
  stale.cancel();
  const timer_handle live = timer.schedule_every(10ms, nothing);
  EXPECT_EQ(stale.cancel(), cancel_result::finished);
  EXPECT_FALSE(stale.reschedule_after(1h));
  EXPECT_EQ(live.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(10ms), 1U);
}

// ---- Cancel ----

TEST(Periodic, Scenario13_CancelInItsOwnCallbackEndsIt) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    std::vector<cancel_result> answers;
    const timer_handle handle = timer.schedule_every(
        10ms,
        [&](const timer_handle& self) {
          answers = {self.cancel(), self.cancel()};
        },
        policy);
    EXPECT_EQ(timer.advance_by(1h), 1U);
    EXPECT_THAT(answers, ElementsAre(cancel_result::running, cancel_result::running));
    EXPECT_EQ(handle.cancel(), cancel_result::finished);
    EXPECT_EQ(timer.stats().cancelled, 0U);
    EXPECT_EQ(timer.pending(), 0U);
  }
}

TEST(Periodic, Scenario13_CancelAndWaitInItsOwnCallbackEndsIt) {
  manual_timer timer;
  cancel_result answer{};
  timer.schedule_every(10ms, [&](const timer_handle& self) { answer = self.cancel_and_wait(); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::running);
}

TEST(Periodic, Scenario13_CancelInALaterRunEndsIt) {
  manual_timer timer;
  int runs = 0;
  timer.schedule_every(1ms, [&](const timer_handle& self) {
    if (++runs == 5) {
      self.cancel();
    }
  });
  EXPECT_EQ(timer.advance_by(1h), 5U);
}

TEST(Periodic, Scenario13_CancelInItsOwnCallbackKeepsTheCapturesUntilTheRunEnds) {
  live_captures captures;
  manual_timer timer;
  std::int64_t alive_after_cancel = 0;
  timer.schedule_every(10ms, [&, token = captures.make()](const timer_handle& self) {
    self.cancel();
    alive_after_cancel = captures.alive();
  });
  timer.advance_by(10ms);
  EXPECT_EQ(alive_after_cancel, 1);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
}

TEST(Periodic, Scenario13_CancelWhileAnotherThreadRunsItSaysRunningAndEndsIt) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::latch over(1);
  const timer_handle handle = timer.schedule_every(10ms, [&, token = captures.make()] {
    begun.count_down();
    over.wait();
  });
  timer.advance_by(10ms);
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  EXPECT_EQ(handle.cancel(), cancel_result::running);
  over.count_down();
  thread.join();
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(Periodic, Scenario13_CancelBetweenRunsDestroysTheCapturesAtOnce) {
  live_captures captures;
  manual_timer timer;
  const timer_handle handle = timer.schedule_every(10ms, [token = captures.make()] {});
  timer.advance_by(25ms);
  EXPECT_EQ(captures.alive(), 1);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(timer.stats().cancelled, 1U);
}

TEST(Periodic, Scenario09_ASiblingThatIsDueInTheSameTickCancelsIt) {
  live_captures captures;
  manual_timer timer;
  timer_handle victim;
  cancel_result answer{};
  std::int64_t alive = -1;
  timer.schedule_after(10ms, [&] { answer = victim.cancel(), alive = captures.alive(); });
  victim = timer.schedule_every(10ms, [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::cancelled);
  EXPECT_EQ(alive, 0);
}

TEST(Periodic, Scenario09_OfTwoThatCancelEachOtherOneGoesOn) {
  manual_timer timer;
  timer_handle first;
  timer_handle second;
  first = timer.schedule_every(10ms, [&] { second.cancel(); });
  second = timer.schedule_every(10ms, [&] { first.cancel(); });
  EXPECT_EQ(timer.advance_by(100ms), 10U);
  EXPECT_EQ(timer.pending(), 1U);
}

TEST(Periodic, CancelledAfterItWasHandedOverItNeverRuns) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_every(10ms, [token = captures.make()] {});
  timer.advance_by(10ms);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(captures.alive(), 0);
  tasks.run();
  EXPECT_EQ(timer.stats().fired, 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(Periodic, ACallbackMayDropItsOwnHandle) {
  live_captures captures;
  manual_timer timer;
  auto handle = std::make_unique<timer_handle>();
  *handle = timer.schedule_every(10ms, [&, token = captures.make()] { handle.reset(); });
  EXPECT_EQ(timer.advance_by(30ms), 3U);
  EXPECT_EQ(captures.alive(), 1);
}

// ---- Reschedule ----

TEST(Periodic, RescheduleMovesOnlyTheNextRunOfAFixedDelay) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing(), fixed_delay);
  timer.advance_by(10ms);
  EXPECT_TRUE(handle.reschedule(at(27ms)));
  timer.advance_to(at(50ms));
  EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
}

TEST(Periodic, RescheduleMovesOnlyTheNextRunOfACatchUp) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing(), fixed_rate_catch_up);
  timer.advance_by(10ms);
  EXPECT_TRUE(handle.reschedule(at(27ms)));
  timer.advance_to(at(50ms));
  // "One period after the deadline before", which the reschedule has moved.
  EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
}

TEST(Periodic, AfterARescheduleASkipGoesOnAtTheMultiplesOfThePeriodFromThereOn) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing(), fixed_rate_skip);
  timer.advance_by(10ms);
  EXPECT_TRUE(handle.reschedule(at(27ms)));
  timer.advance_to(at(50ms));
  EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
}

TEST(Periodic, RescheduleToThePastRunsItAtTheNextStep) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing());
  timer.advance_by(12ms);
  EXPECT_TRUE(handle.reschedule(at(1ms)));
  EXPECT_THAT(log.times, SizeIs(1));
  timer.advance_to(at(25ms));
  EXPECT_THAT(log.times, ElementsAre(10ms, testing::Le(13ms), testing::Le(23ms)));
}

TEST(Periodic, ATouchKeepsItFromRunning) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_every(10ms, nothing);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(timer.advance_by(9ms), 0U);
    EXPECT_TRUE(handle.reschedule_after(10ms));
  }
  EXPECT_EQ(timer.stats().scheduled, 1U);
  EXPECT_EQ(timer.advance_by(10ms), 1U);
}

// ---- Stop ----

TEST(Periodic, Scenario18_StopDuringARunDoesNotArmItAgain) {
  for (const period_policy policy : every_policy) {
    live_captures captures;
    manual_timer timer;
    std::size_t returned = 99;
    timer.schedule_every(
        10ms, [&, token = captures.make()] { returned = timer.stop().size(); }, policy);
    EXPECT_EQ(timer.advance_by(1h), 1U);
    EXPECT_EQ(returned, 0U);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.pending(), 0U);
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(Periodic, Scenario18_StopReturnsItsCallableWhichCanBeCalled) {
  live_captures captures;
  manual_timer timer;
  int runs = 0;
  timer.schedule_every(10ms, [&, token = captures.make()] { ++runs; }, fixed_rate_skip, {.tag = 17});
  timer.advance_by(25ms);
  std::vector<pending_task> left = timer.stop();
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].deadline, at(30ms));
  EXPECT_EQ(left[0].tag, 17U);
  left[0].callback();
  left[0].callback();
  EXPECT_EQ(runs, 4);
  left.clear();
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Periodic, AReturnedCallableThatTakesItsHandleGetsAnEmptyOne) {
  manual_timer timer;
  std::vector<bool> known;
  timer.schedule_every(10ms, [&](const timer_handle& self) { known.push_back(static_cast<bool>(self)); });
  timer.advance_by(10ms);
  for (pending_task& left : timer.stop()) {
    left.callback();
  }
  EXPECT_THAT(known, ElementsAre(true, false));
}

TEST(Periodic, AReturnedCallableScheduledElsewhereRunsOnce) {
  int runs = 0;
  manual_timer first;
  first.schedule_every(10ms, [&] { ++runs; });
  std::vector<pending_task> left = first.stop();
  manual_timer second;
  second.schedule_after(1ms, std::move(left.at(0).callback));  // "Runs `callback` once"
  EXPECT_EQ(second.advance_by(1s), 1U);
  EXPECT_EQ(runs, 1);
}

TEST(Periodic, AReturnedCallableScheduledEveryPeriodElsewhereKeepsThatPeriod) {
  manual_timer first;
  first.schedule_every(10ms, nothing);
  std::vector<pending_task> left = first.stop();
  manual_timer second;
  second.schedule_every(100ms, std::move(left.at(0).callback));
  EXPECT_EQ(second.advance_by(1s), 10U);
}

TEST(Periodic, TheDestructorDropsIt) {
  live_captures captures;
  {
    manual_timer timer;
    timer.schedule_every(10ms, [token = captures.make()] {});
    timer.advance_by(35ms);
    EXPECT_EQ(captures.alive(), 1);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
}

// ---- Throws ----

TEST(Periodic, Scenario20_ACallbackThatThrowsGoesOn) {
  for (const period_policy policy : every_policy) {
    std::vector<std::uint64_t> tags;
    manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
    timer.schedule_every(10ms, [] { throw std::runtime_error("asked for"); }, policy, {.tag = 17});
    EXPECT_EQ(timer.advance_by(35ms), 3U);
    EXPECT_THAT(tags, ElementsAre(17U, 17U, 17U));
    EXPECT_EQ(timer.stats().failed, 3U);
    EXPECT_EQ(timer.pending(), 1U);
  }
}

TEST(Periodic, Scenario20_OneThatCancelsItselfAndThrowsEnds) {
  manual_timer timer({.on_error = [](const std::exception_ptr&, std::uint64_t) {}});
  timer.schedule_every(10ms, [](const timer_handle& self) {
    self.cancel();
    throw std::runtime_error("asked for");
  });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(timer.pending(), 0U);
}

/// A rule that gives `previous + 10 ms` `times` times, and then does `last`.
template <class Last>
auto ten_ms(int times, Last last) {
  return [times, last](time_point previous) mutable -> std::optional<time_point> {
    return times-- > 0 ? previous + 10ms : last();
  };
}

std::optional<time_point> none() { return std::nullopt; }
std::optional<time_point> failing() { throw std::runtime_error("no more deadlines"); }

TEST(Periodic, Scenario20_ARuleThatThrowsEndsItsTimerAndIsReported) {
  live_captures captures;
  std::vector<std::uint64_t> tags;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  const timer_handle handle = timer.schedule_with(ten_ms(3, failing), [token = captures.make()] {}, {.tag = 17});
  EXPECT_EQ(timer.advance_by(1h), 3U);
  EXPECT_THAT(tags, ElementsAre(17U));
  EXPECT_EQ(timer.stats().failed, 1U);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_TRUE(conserved(timer));
}

TEST(Periodic, Scenario20_ARuleThatThrowsIsWrittenToStandardErrorIfNobodyAsked) {
  captured_stderr output;
  manual_timer timer;
  timer.schedule_with(ten_ms(1, failing), nothing);
  timer.advance_by(1h);
  EXPECT_THAT(output.text(), HasSubstr("no more deadlines"));
}

TEST(Periodic, Scenario20_ACallbackAndItsRuleThatBothThrowAreBothReported) {
  int reports = 0;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) { ++reports; }});
  timer.schedule_with(ten_ms(1, failing), [] { throw std::logic_error("asked for"); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(timer.stats().failed, 2U);
}

TEST(Periodic, ARuleThatThrowsWhenScheduledThrowsToTheCaller) {
  live_captures captures;
  manual_timer timer;
  EXPECT_THROW(timer.schedule_with(ten_ms(0, failing), [token = captures.make()] {}), std::runtime_error);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().failed, 0U);
}

// ---- The user's own rule ----

TEST(Periodic, ARuleIsGivenThePresentAndThenEachDeadline) {
  manual_timer timer({}, starting_at(3ms));
  std::vector<time_point> asked;
  timer.schedule_with(
      [&](time_point previous) {
        asked.push_back(previous);
        return previous + 10ms;
      },
      nothing);
  EXPECT_THAT(asked, ElementsAre(at(3ms)));
  timer.advance_by(30ms);
  EXPECT_THAT(asked, ElementsAre(at(3ms), at(13ms), at(23ms), at(33ms)));
}

TEST(Periodic, ARuleIsGivenTheDeadlineAndNotTheTimeOfALateRun) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_with(ten_ms(9, none), nothing);
  timer.advance_by(35ms);
  tasks.run();
  EXPECT_EQ(handle.deadline(), at(20ms));
}

TEST(Periodic, RunsAtExactlyTheDeadlinesOfItsRule) {
  manual_timer timer;
  run_log log(timer);
  timer.schedule_with([](time_point previous) { return previous + previous.time_since_epoch() + 1ms; }, log.writing());
  timer.advance_to(at(40ms));
  EXPECT_THAT(log.times, ElementsAre(1ms, 3ms, 7ms, 15ms, 31ms));
}

TEST(Periodic, ARuleThatGivesNoneAtFirstSchedulesNothing) {
  live_captures captures;
  manual_timer timer;
  EXPECT_FALSE(timer.schedule_with(ten_ms(0, none), [token = captures.make()] {}));
  std::error_code error = timer_errc::stopped;
  EXPECT_FALSE(timer.schedule_with(
      ten_ms(0, none), [token = captures.make()] {}, error));
  EXPECT_FALSE(error);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.stats().rejected, 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(Periodic, ARuleThatGivesNoneLaterEndsTheTimer) {
  live_captures captures;
  manual_timer timer;
  const timer_handle handle = timer.schedule_with(ten_ms(3, none), [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 3U);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().failed, 0U);
}

TEST(Periodic, ADeadlineInThePastRunsAtOnceAndNotInline) {
  manual_timer timer({}, starting_at(1h));
  std::vector<int> trace;
  int left = 3;
  timer.schedule_with([&](time_point) { return left-- > 0 ? std::optional(at(1min)) : std::nullopt; },
                      [&] {
                        trace.push_back(1);
                        EXPECT_EQ(timer.stats().running, 1U);
                      });
  EXPECT_THAT(trace, IsEmpty());
  EXPECT_EQ(timer.advance_by(1ms), 3U);
  EXPECT_THAT(trace, SizeIs(3));
}

TEST(Periodic, ADeadlineAtTheEndOfTimeNeverComes) {
  manual_timer timer;
  int left = 1;
  const timer_handle handle = timer.schedule_with(
      [&](time_point previous) { return left-- > 0 ? previous + 10ms : time_point::max(); }, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
  EXPECT_EQ(handle.deadline(), time_point::max());
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(Periodic, ARuleMayUseTheService) {
  manual_timer timer;
  int others = 0;
  timer.schedule_with(
      [&](time_point previous) {
        timer.schedule_after(1ms, [&] { ++others; });
        EXPECT_TRUE(conserved(timer));
        return previous + 10ms;
      },
      nothing);
  timer.advance_by(35ms);
  EXPECT_EQ(others, 4);
}

TEST(Periodic, ARuleMayCancelItsTimer) {
  live_captures captures;
  manual_timer timer;
  timer_handle handle;
  cancel_result answer{};
  handle = timer.schedule_with(
      [&](time_point previous) {
        answer = handle.cancel();
        return previous + 10ms;
      },
      [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::running);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Periodic, ARuleMayStopTheService) {
  manual_timer timer;
  int asked = 0;
  timer.schedule_with(
      [&](time_point previous) {
        if (++asked == 3) {
          EXPECT_THAT(timer.stop(), IsEmpty());
        }
        return previous + 10ms;
      },
      nothing);
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(Periodic, ARuleMayOwnWhatCannotBeCopied) {
  live_captures captures;
  manual_timer timer;
  timer.schedule_with([step = std::make_unique<nanoseconds>(10ms),
                       token = captures.make()](time_point previous) { return std::optional(previous + *step); },
                      [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(35ms), 3U);
  EXPECT_EQ(captures.alive(), 2);
  timer.stop();
  EXPECT_EQ(captures.alive(), 0);
}

// ---- The ends of time ----

TEST(Periodic, Scenario05_AHugePeriodNeverFires) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({}, starting_at(1h));
    const timer_handle handles[] = {timer.schedule_every(hours::max(), nothing, policy),
                                    timer.schedule_every(nanoseconds::max(), nothing, policy),
                                    timer.schedule_every(std::chrono::duration<double>::max(), nothing, policy)};
    EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
    for (const timer_handle& handle : handles) {
      EXPECT_EQ(handle.deadline(), time_point::max());
      EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
    }
  }
}

TEST(Periodic, Scenario05_TheLastRunsBeforeTheEndOfTimeAreNotEarly) {
  for (const period_policy policy : every_policy) {
    manual_timer timer({}, starting_at(nanoseconds::max() - 25ms));
    const timer_handle handle = timer.schedule_every(10ms, nothing, policy);
    EXPECT_EQ(timer.advance_to(time_point::max()), 2U);
    EXPECT_EQ(handle.deadline(), time_point::max());
    EXPECT_EQ(timer.stats().early, 0U);
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  }
}

TEST(Periodic, Scenario05_ASkipOverMoreThanHalfOfAllTimeIsToALaterDeadline) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()}, starting_at(nanoseconds::min()));
  const timer_handle handle = timer.schedule_every(1h, nothing, fixed_rate_skip);
  timer.advance_to(time_point::max() - 90min);
  tasks.run();
  // "At the next multiple of the period that is later than now."
  ASSERT_TRUE(handle.deadline());
  EXPECT_GT(*handle.deadline(), timer.now());
}

TEST(Periodic, Scenario05_RunsFromAnyStartOfTime) {
  for (const nanoseconds start : {nanoseconds::min(), -1ns, nanoseconds(std::int64_t{1} << 40)}) {
    for (const period_policy policy : every_policy) {
      manual_timer timer({.tick = 1ns}, starting_at(start));
      timer.schedule_every(10ns, nothing, policy);
      EXPECT_EQ(timer.advance_by(105ns), 10U);
    }
  }
}

// ---- max_pending ----

TEST(Periodic, Scenario19_KeepsItsPlaceWhileItRuns) {
  manual_timer timer({.max_pending = 1});
  std::vector<std::error_code> answers;
  timer.schedule_every(10ms, [&] {
    std::error_code error;
    timer.schedule_after(1ms, nothing, error);
    answers.push_back(error);
  });
  EXPECT_EQ(timer.advance_by(35ms), 3U);
  EXPECT_THAT(answers, AllOf(SizeIs(3), Each(std::error_code(timer_errc::too_many_pending))));
  EXPECT_EQ(timer.stats().rejected, 3U);
}

TEST(Periodic, Scenario19_IsRefusedAboveTheLimit) {
  live_captures captures;
  manual_timer timer({.max_pending = 2});
  timer.schedule_every(10ms, nothing);
  timer.schedule_every(10ms, nothing);
  EXPECT_EQ(refusal_of([&] { timer.schedule_every(10ms, [token = captures.make()] {}); }).code,
            timer_errc::too_many_pending);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(timer.advance_by(10ms), 2U);
}

/// After a periodic timer has ended in each way, its place is free again, once.
template <class Next, class Callback>
void expect_its_place_back(Next next, Callback callback) {
  manual_timer timer({.max_pending = 1, .on_error = [](const std::exception_ptr&, std::uint64_t) {}});
  timer.schedule_with(next, callback);
  timer.advance_by(1s);
  std::error_code error;
  timer.schedule_after(1ms, nothing, error);
  EXPECT_FALSE(error);
  timer.schedule_after(1ms, nothing, error);
  EXPECT_EQ(error, timer_errc::too_many_pending);
}

TEST(Periodic, Scenario19_GivesItsPlaceBackWhenItEnds) {
  expect_its_place_back(ten_ms(3, none), nothing);
  expect_its_place_back(ten_ms(3, failing), nothing);
  expect_its_place_back(ten_ms(3, none), [](const timer_handle& self) { self.cancel(); });
  expect_its_place_back(ten_ms(0, none), nothing);
}

TEST(Periodic, Scenario19_ARefusedPeriodUsesUpNoPlace) {
  manual_timer timer({.max_pending = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(timer.schedule_every(0ms, nothing), timer_error);
    EXPECT_THROW(timer.schedule_with(ten_ms(0, failing), nothing), std::runtime_error);
  }
  EXPECT_TRUE(timer.schedule_every(1ms, nothing));
}

// ---- Counts ----

TEST(Periodic, EachRunCountsAsScheduledAndFiredOnce) {
  manual_timer timer;
  timer.schedule_every(10ms, nothing);
  for (std::uint64_t run = 0; run < 20; ++run) {
    const timer_stats counts = timer.stats();
    EXPECT_EQ(counts.scheduled, run + 1);
    EXPECT_EQ(counts.rearmed, run);
    EXPECT_EQ(counts.fired, run);
    EXPECT_EQ(counts.pending, 1U);
    EXPECT_EQ(counts.running, 0U);
    timer.advance_by(10ms);
  }
}

TEST(Periodic, CountsAgreeInItsCallback) {
  manual_timer timer;
  std::uint64_t runs = 0;
  timer.schedule_every(10ms, [&] {
    const timer_stats counts = timer.stats();
    EXPECT_TRUE(conserved(counts));
    EXPECT_EQ(counts.fired, ++runs);
    EXPECT_EQ(counts.scheduled, runs);
    EXPECT_EQ(counts.rearmed, runs - 1);
    EXPECT_EQ(counts.pending, 0U);
    EXPECT_EQ(counts.running, 1U);
    EXPECT_EQ(timer.pending(), 0U);
  });
  timer.advance_by(100ms);
  EXPECT_EQ(runs, 10U);
}

TEST(Periodic, CountsAgreeInItsRule) {
  manual_timer timer;
  timer.schedule_with(
      [&](time_point previous) {
        EXPECT_TRUE(conserved(timer));
        EXPECT_EQ(timer.pending(), 0U);
        return previous + 10ms;
      },
      nothing);
  timer.advance_by(100ms);
  EXPECT_TRUE(conserved(timer));
}

TEST(Periodic, AnEndedOneLeavesNothingInTheCounts) {
  manual_timer timer;
  timer.schedule_with(ten_ms(3, none), nothing);
  timer.schedule_every(10ms, [](const timer_handle& self) { self.cancel(); });
  timer.schedule_every(10ms, nothing).cancel();
  timer.advance_by(1h);
  const timer_stats counts = timer.stats();
  EXPECT_TRUE(conserved(counts));
  EXPECT_EQ(counts.scheduled, 5U);
  EXPECT_EQ(counts.rearmed, 2U);
  EXPECT_EQ(counts.fired, 4U);
  EXPECT_EQ(counts.cancelled, 1U);
  EXPECT_EQ(counts.pending, 0U);
  EXPECT_EQ(counts.running, 0U);
}

TEST(Periodic, LatenessIsThatOfEachRun) {
  manual_timer timer({.tick = 10ms});
  timer.schedule_every(25ms, nothing, fixed_rate_catch_up);
  timer.advance_by(100ms);
  EXPECT_EQ(timer.stats().lateness.count(), 4U);
}

// ---- Captures ----

TEST(Periodic, KeepsCapturesThatCannotBeCopied) {
  manual_timer timer;
  std::vector<int> seen;
  timer.schedule_every(10ms, [&, number = std::make_unique<int>(0)] { seen.push_back(++*number); });
  timer.advance_by(45ms);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
}

TEST(Periodic, KeepsCapturesOfAHundredBytesIntact) {
  std::array<std::uint8_t, 100> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7);
  }
  manual_timer timer({.wheel_size = 4});
  int intact = 0;
  for (const period_policy policy : every_policy) {
    timer.schedule_every(
        3ms, [&intact, bytes, expected = bytes] { intact += bytes == expected; }, policy);
  }
  timer.advance_by(3s);
  EXPECT_EQ(intact, 3000);
}

TEST(Periodic, KeepsOneCallableOverAllRuns) {
  live_captures captures;
  manual_timer timer;
  std::vector<int> seen;
  timer.schedule_every(10ms, [&seen, n = 0, token = captures.make()]() mutable { seen.push_back(++n); });
  timer.advance_by(35ms);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_EQ(captures.alive(), 1);
  EXPECT_EQ(captures.destroyed(), 0);
}

// ---- Memory ----

TEST(Periodic, ArmsAgainWithoutAllocating) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    std::array<char, 100> large{};
    timer.schedule_every(3ms, nothing, policy);
    timer.schedule_every(
        7ms, [large] { static_cast<void>(large); }, policy);
    timer.schedule_with([](time_point previous) { return previous + 5ms; }, nothing);
    timer.advance_by(10s);
    EXPECT_EQ(count_allocations([&] { timer.advance_by(10s); }), 0U);
  }
}

TEST(Periodic, ArmsAgainWithoutGrowing) {
  manual_timer timer({.wheel_size = 16});
  for (int i = 0; i < 100; ++i) {
    timer.schedule_every((i + 1) * 1ms, nothing);
  }
  timer.advance_by(10s);
  const std::size_t bytes = timer.stats().bytes;
  timer.advance_by(100s);
  EXPECT_LE(timer.stats().bytes, bytes + bytes / 10);
}

/// Schedules with memory for `left` allocations. \returns whether there was enough.
template <class Schedule>
bool schedules_with(std::uint64_t left, Schedule schedule) {
  live_captures captures;
  manual_timer timer;
  std::array<char, 100> large{};
  const bool enough =
      succeeds_with(left, [&] { schedule(timer, [large, token = captures.make()] { static_cast<void>(large); }); });
  EXPECT_EQ(timer.stats().scheduled, enough ? 1U : 0U);
  EXPECT_EQ(timer.pending(), enough ? 1U : 0U);
  EXPECT_EQ(captures.alive(), enough ? 1 : 0);
  timer.schedule_every(10ms, nothing);
  EXPECT_EQ(timer.advance_by(10ms), enough ? 2U : 1U);
  EXPECT_TRUE(conserved(timer));
  return enough;
}

TEST(Periodic, SchedulingWithoutMemoryChangesNothing) {
  std::uint64_t left = 0;
  while (!schedules_with(left, [](manual_timer& timer, auto&& callback) {
    timer.schedule_every(10ms, std::forward<decltype(callback)>(callback));
  })) {
    ASSERT_LT(++left, 100U);
  }
  EXPECT_GT(left, 0U);
  left = 0;
  while (!schedules_with(left, [](manual_timer& timer, auto&& callback) {
    timer.schedule_with(ten_ms(9, none), std::forward<decltype(callback)>(callback));
  })) {
    ASSERT_LT(++left, 100U);
  }
}

TEST(Periodic, TheErrorCodeOverloadsReportThatThereIsNoMemory) {
  live_captures captures;
  manual_timer timer;
  std::array<char, 100> large{};
  std::error_code every;
  std::error_code with;
  {
    const scarce_memory limit(0);
    timer.schedule_every(
        10ms, [large, token = captures.make()] { static_cast<void>(large); }, fixed_delay, every);
    timer.schedule_with(
        ten_ms(9, none), [large, token = captures.make()] { static_cast<void>(large); }, with);
  }
  EXPECT_EQ(every, std::errc::not_enough_memory);
  EXPECT_EQ(with, std::errc::not_enough_memory);
  EXPECT_EQ(captures.alive(), 0);
}

/// A timer whose periods grow, so that to arm it again may need another wheel, with memory for `left` allocations until
/// it has run `scarce_runs` times. \returns whether that was enough.
bool arms_again_with(std::uint64_t left, int scarce_runs) {
  manual_timer timer({.tick = 1ms, .wheel_size = 4});
  int runs = 0;
  int early = 0;
  const timer_handle handle =
      timer.schedule_with([](time_point previous) { return previous + (previous.time_since_epoch() + 1ms) * 6; },
                          [&](const timer_handle& self) {
                            ++runs;
                            early += timer.now() < self.deadline().value();
                          });
  const auto run_until = [&](int wanted) {
    while (runs < wanted) {
      timer.advance_to(handle.deadline().value_or(timer.now()));
    }
  };
  const bool enough = succeeds_with(left, [&] { run_until(scarce_runs); });
  EXPECT_EQ(handle.status(), timer_status::pending) << "lost, with memory for " << left << " allocations";
  const int before = runs;
  for (int step = 0; step < 3 && handle.deadline(); ++step) {
    timer.advance_to(*handle.deadline() + 1ms);
  }
  EXPECT_GE(runs, before + 3) << "left " << left;
  EXPECT_EQ(early, 0);
  EXPECT_EQ(timer.stats().early, 0U);
  EXPECT_TRUE(conserved(timer));
  return enough;
}

TEST(Periodic, ArmingAgainWithoutMemoryLosesNoTimer) {
  std::uint64_t left = 0;
  while (!arms_again_with(left, 6)) {
    ASSERT_LT(++left, 1000U);
  }
  EXPECT_GT(left, 0U) << "nothing was tried";
}

/// Many periodic timers run with memory for `left` allocations only. \returns whether that was enough.
bool all_arm_again_with(std::uint64_t left, period_policy policy) {
  constexpr int count = 300;
  manual_timer timer({.tick = 1ms, .wheel_size = 4});
  std::vector<int> runs(count);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    timer.schedule_every(
        1ms * (1 + static_cast<int>(i) % 50), [&runs, i] { ++runs[i]; }, policy);
  }
  const bool enough = succeeds_with(left, [&] { timer.advance_by(200ms); });
  EXPECT_EQ(timer.pending(), runs.size()) << "left " << left;
  EXPECT_TRUE(conserved(timer));
  timer.advance_to(at(200ms));
  const std::vector<int> before = runs;
  timer.advance_by(60ms);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_GT(runs[i], before[i]) << "timer " << i << ", left " << left;
  }
  EXPECT_EQ(timer.stats().early, 0U);
  return enough;
}

TEST(Periodic, ManyArmAgainWithoutMemory) {
  for (const period_policy policy : every_policy) {
    for (std::uint64_t left = 0; !all_arm_again_with(left, policy) && left < 200 && !HasFailure(); ++left) {
    }
  }
}

}  // namespace
}  // namespace timing_wheel::test
