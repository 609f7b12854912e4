#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_stderr.hpp"
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
using testing::UnorderedElementsAre;

constexpr hours hundred_years{876600};

void nothing() {}

constexpr time_point at(nanoseconds since_epoch) { return time_point(since_epoch); }

time_point starting_at(nanoseconds since_epoch) { return at(since_epoch); }

/// The code and the message of the `timer_error` that `action` throws.
struct refusal {
  std::error_code code;
  std::string message;
};

template <class Action>
refusal refusal_of(Action action) {
  try {
    action();
  } catch (const timer_error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

refusal refusal_of_options(const timer_options& options) {
  return refusal_of([&] { const manual_timer timer(options); });
}

/// Schedules numbers and keeps the order in which they ran.
struct recorder {
  explicit recorder(manual_timer& service) : timer(service) {}

  timer_handle after(nanoseconds delay, int number) {
    return timer.schedule_after(delay, [this, number] { ran.push_back(number); });
  }

  manual_timer& timer;
  std::vector<int> ran;
};

// ---- Scenario 1 ----

TEST(ManualTimer, Scenario01_RunsZeroAndNegativeDelaysAtTheNextStepOnce) {
  manual_timer timer({.tick = 1ms}, starting_at(10ms));
  std::vector<int> runs(6);
  for (int i = 0; i <= 5; ++i) {
    timer.schedule_after(std::chrono::milliseconds(-i), [&runs, i] { ++runs[static_cast<std::size_t>(i)]; });
  }
  EXPECT_EQ(timer.advance_by(1ms), 6U);
  EXPECT_THAT(runs, Each(1));
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(ManualTimer, Scenario01_NeverRunsInsideSchedule) {
  manual_timer timer({.tick = 1ms}, starting_at(10ms));
  recorder record(timer);
  record.after(0ns, 0);
  record.after(-5ms, 1);
  timer.schedule_at(time_point::min(), [&] { record.ran.push_back(2); });
  EXPECT_TRUE(record.ran.empty());
  EXPECT_EQ(timer.pending(), 3U);
}

TEST(ManualTimer, Scenario01_RunsWhatIsDueNowInAStepOfNoLength) {
  manual_timer timer({.tick = 1ms}, starting_at(10ms));
  recorder record(timer);
  record.after(0ns, 0);
  record.after(-5ms, 1);
  EXPECT_EQ(timer.advance_to(timer.now()), 2U);
  EXPECT_EQ(timer.now(), at(10ms));
}

TEST(ManualTimer, Scenario01_RunsTheSmallestDelaysFromAClockBetweenTwoTicks) {
  manual_timer timer({.tick = 1ms}, starting_at(10ms + 1ns));
  timer.advance_by(300us);
  recorder record(timer);
  record.after(-1ns, 1);
  record.after(nanoseconds::min(), 2);
  timer.schedule_after(hours::min(), [&] { record.ran.push_back(3); });
  timer.advance_by(1ms);
  EXPECT_THAT(record.ran, UnorderedElementsAre(1, 2, 3));
}

TEST(ManualTimer, Scenario01_RunsAZeroDelayOfACallbackAfterThatCallback) {
  manual_timer timer({.tick = 1ms});
  std::vector<std::string> trace;
  timer.schedule_after(1ms, [&] {
    timer.schedule_after(0ns, [&] { trace.push_back("inner"); });
    trace.push_back("outer ends");
  });
  timer.advance_by(3ms);
  EXPECT_THAT(trace, ElementsAre("outer ends", "inner"));
}

// ---- Scenarios 3 and 4 ----

struct moment {
  nanoseconds start;  // of the service
  nanoseconds moved;  // and then the clock, before the timer is scheduled
  nanoseconds delay;
};

/// A timer must begin in [deadline, deadline + tick): here it is looked for at the last moment before and the last
/// moment within.
void expect_in_its_tick(const timer_options& options, const moment& m) {
  SCOPED_TRACE(testing::Message() << "tick " << options.tick.count() << " start " << m.start.count() << " moved "
                                  << m.moved.count() << " delay " << m.delay.count());
  manual_timer timer(options, starting_at(m.start));
  timer.advance_by(m.moved);
  const time_point deadline = timer.now() + m.delay;
  std::vector<time_point> runs;
  timer.schedule_after(m.delay, [&] { runs.push_back(timer.now()); });
  timer.advance_to(deadline - 1ns);
  ASSERT_TRUE(runs.empty()) << "early";
  timer.advance_to(deadline + options.tick - 1ns);
  ASSERT_EQ(runs.size(), 1U) << "late";
  EXPECT_GE(runs[0], deadline);
  timer.advance_to(deadline + 100 * options.tick);
  EXPECT_EQ(runs.size(), 1U) << "twice";
}

TEST(ManualTimer, Scenario03_FiresWithinTheTickAfterTheDeadline) {
  constexpr nanoseconds tick = 1ms;
  for (const nanoseconds start : {0ns, 1ns, 499'999ns, 999'999ns, -1ns, -5'000'001ns}) {
    for (const nanoseconds moved : {0ns, 1ns, 500'000ns, 999'999ns, 1'000'000ns, 7'300'001ns}) {
      for (const nanoseconds delay : {1ns, 2ns, 999'999ns, 1'000'000ns, 1'000'001ns, 1'999'999ns}) {
        expect_in_its_tick({.tick = tick}, {start, moved, delay});
      }
    }
  }
}

TEST(ManualTimer, Scenario03_FiresInItsTickAroundEveryPowerOfTheWheelSize) {
  constexpr nanoseconds tick = 10us;
  for (const std::uint32_t size : {2U, 3U, 20U, 64U, 512U}) {
    nanoseconds interval = tick;
    for (int level = 0; level < 5; ++level, interval *= size) {
      for (const nanoseconds moved : {0ns, 10'000ns, 33'333ns}) {
        for (const nanoseconds delay : {interval - tick, interval - 1ns, interval, interval + 1ns, interval + tick}) {
          expect_in_its_tick({.tick = tick, .wheel_size = size}, {5ns, moved, delay + 1ns});
        }
      }
    }
  }
}

TEST(ManualTimer, Scenario03_FiresInItsTickOnWheelsOfSeveralSizes) {
  for (const auto& sizes : {std::vector<std::uint32_t>{60, 60, 24}, {2, 512}, {64, 3, 2}}) {
    for (const nanoseconds delay : {59s, 60s, 61s, 3599s, 3600s, 3601s, 86399s, 86400s, 86401s, 864000s}) {
      expect_in_its_tick({.tick = 1s, .wheel_sizes = sizes}, {0ns, 86399s + 1ns, delay});
    }
  }
}

TEST(ManualTimer, Scenario03_FiresInItsTickOfAnyLength) {
  for (const nanoseconds tick : std::vector<nanoseconds>{1ns, 2ns, 3ns, 7ms, 1s, 1h, hours(24 * 365)}) {
    for (const nanoseconds moved : {0ns, 1ns, 12'345'678'901ns}) {
      for (const nanoseconds delay : {1ns, 999'999'999ns, 1'000'000'001ns, 3'600'000'000'000ns}) {
        expect_in_its_tick({.tick = tick}, {17ns, moved, delay});
      }
    }
  }
}

TEST(ManualTimer, Scenario04_FiresWithinOneTickOfADeadlineThatIsNotAligned) {
  manual_timer timer({.tick = 10ms});
  timer.advance_to(at(3ms));
  std::optional<time_point> fired;
  timer.schedule_after(25ms, [&] { fired = timer.now(); });
  for (int step = 0; step < 60; ++step) {
    timer.advance_by(1ms);
  }
  ASSERT_TRUE(fired);
  EXPECT_GE(*fired, at(28ms));
  EXPECT_LT(*fired, at(38ms));
}

// ---- Scenario 5 ----

TEST(ManualTimer, Scenario05_TheLargestDelaysNeverFireAndCanBeCancelled) {
  manual_timer timer({.tick = 1ms}, starting_at(1h));
  recorder record(timer);
  const auto push = [&] { record.ran.push_back(0); };
  const std::vector<timer_handle> handles{
      timer.schedule_after(hours::max(), push),
      timer.schedule_after(nanoseconds::max(), push),
      timer.schedule_after(std::chrono::duration<double>::max(), push),
      timer.schedule_after(std::chrono::duration<double>(std::numeric_limits<double>::infinity()), push),
      timer.schedule_after(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN()), push),
      timer.schedule_after(std::chrono::duration<std::uint64_t, std::nano>::max(), push),
      timer.schedule_at(time_point::max(), push),
      timer.schedule_at(std::chrono::time_point<std::chrono::steady_clock, hours>::max(), push)};
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(timer.pending(), handles.size());
  for (const timer_handle& handle : handles) {
    EXPECT_EQ(handle.deadline(), time_point::max());
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  }
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(ManualTimer, Scenario05_AFarDeadlineBeforeTheEndOfTimeFires) {
  manual_timer timer({.tick = 1ns});
  recorder record(timer);
  timer.schedule_at(time_point::max() - 1ns, [&] { record.ran.push_back(1); });
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

TEST(ManualTimer, Scenario05_TheClockReachesTheEndOfTimeAndStaysThere) {
  manual_timer timer({.tick = 1ms});
  timer.advance_to(time_point::max());
  EXPECT_EQ(timer.now(), time_point::max());
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(timer.now(), time_point::max());
}

TEST(ManualTimer, Scenario05_ATimerScheduledAtTheEndOfTimeNeverFires) {
  manual_timer timer({.tick = 1ms});
  timer.advance_to(time_point::max());
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(ManualTimer, Scenario05_CountsFromAnyStartOfTime) {
  for (const unsigned bits : {31U, 32U, 36U, 40U, 53U, 62U}) {
    for (const nanoseconds offset : {-1ns, 0ns, 1ns}) {
      for (const nanoseconds delay : {1ns, 1'000'000ns, 3'600'000'000'001ns}) {
        expect_in_its_tick({.tick = 1ms}, {nanoseconds(std::int64_t{1} << bits) + offset, 777ns, delay});
      }
    }
  }
}

TEST(ManualTimer, Scenario05_CountsInMillisecondsAcrossThePowersOfTwo) {
  for (const unsigned bits : {31U, 32U, 36U, 40U}) {
    const nanoseconds start = std::chrono::milliseconds(std::int64_t{1} << bits) - 1ms;
    for (const nanoseconds delay : {1'000'000ns, 2'000'000ns, 600'000'000ns}) {
      expect_in_its_tick({.tick = 1ms}, {0ns, start, delay});
    }
  }
}

TEST(ManualTimer, Scenario05_FiresInTheLastHourOfTime) {
  const nanoseconds start = nanoseconds::max() - 1h;
  for (const nanoseconds delay : {1ns, 1'000'000ns, 1'800'000'000'000ns, 3'590'000'000'000ns}) {
    expect_in_its_tick({.tick = 1ms}, {start, 333ns, delay});
    expect_in_its_tick({.tick = 1ns, .wheel_size = 2}, {start, 333ns, delay});
  }
}

TEST(ManualTimer, Scenario05_ADelayPastTheEndOfTimeDoesNotWrapAround) {
  manual_timer timer({.tick = 1ms}, starting_at(nanoseconds::max() - 1h));
  const timer_handle handle = timer.schedule_after(2h, nothing);
  EXPECT_EQ(timer.advance_by(59min), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(ManualTimer, Scenario05_CountsFromTheBeginningOfTime) {
  for (const nanoseconds delay : {1ns, 1'000'000ns, nanoseconds(hundred_years)}) {
    expect_in_its_tick({.tick = 1ms}, {nanoseconds::min(), 0ns, delay});
    expect_in_its_tick({.tick = 1ns}, {nanoseconds::min(), 5ns, delay});
  }
}

TEST(ManualTimer, Scenario05_FiresAfterMoreThanHalfOfAllTime) {
  manual_timer timer({.tick = 1ns}, starting_at(nanoseconds::min()));
  timer.schedule_at(time_point::max() - 1ns, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

TEST(ManualTimer, Scenario05_RescheduleToTheEndOfTimeNeverFires) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  EXPECT_TRUE(handle.reschedule_after(hours::max()));
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

// ---- Scenario 6 ----

TEST(ManualTimer, Scenario06_IgnoresAStepBack) {
  manual_timer timer({}, starting_at(1h));
  recorder record(timer);
  record.after(5ms, 1);
  EXPECT_EQ(timer.advance_to(at(1min)), 0U);
  EXPECT_EQ(timer.advance_by(-1h), 0U);
  EXPECT_EQ(timer.advance_to(time_point::min()), 0U);
  EXPECT_EQ(timer.now(), at(1h));
  EXPECT_EQ(timer.advance_by(5ms), 1U);
}

TEST(ManualTimer, Scenario06_CountsDelaysFromTheSameClockAfterAStepBack) {
  manual_timer timer({}, starting_at(1h));
  timer.advance_to(at(0h));
  const timer_handle handle = timer.schedule_after(5ms, nothing);
  EXPECT_EQ(handle.deadline(), at(1h + 5ms));
  EXPECT_EQ(timer.advance_to(at(1h + 4ms)), 0U);
}

void expect_all_in_one_jump(nanoseconds jump) {
  constexpr nanoseconds tick = 1ms;
  manual_timer timer({.tick = tick}, starting_at(123ns));
  dice random(1);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    const nanoseconds delay = random.between(1ns, jump - tick);
    const time_point deadline = timer.now() + delay;
    timer.schedule_at(deadline, [&, deadline] { wrong += timer.now() < deadline || timer.now() >= deadline + tick; });
  }
  timer.schedule_after(jump + tick, nothing);
  EXPECT_EQ(timer.advance_by(jump), 1000U);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(timer.pending(), 1U);
}

TEST(ManualTimer, Scenario06_AJumpOfAnHourRunsEverythingDueOnceAtItsTick) { expect_all_in_one_jump(1h); }

TEST(ManualTimer, Scenario06_AJumpOfAHundredYearsRunsEverythingDueOnceAtItsTick) {
  expect_all_in_one_jump(hundred_years);
}

TEST(ManualTimer, Scenario06_AnEmptyServiceJumpsAHundredYears) {
  manual_timer timer({.tick = 1ns});
  EXPECT_EQ(timer.advance_by(hundred_years), 0U);
  EXPECT_EQ(timer.now(), at(hundred_years));
}

// ---- Scenario 7 ----

TEST(ManualTimer, Scenario07_AnIdleHourDoesNotPushAShortTimerUp) {
  manual_timer timer({.tick = 1ms, .wheel_size = 512});
  timer.advance_by(1h);
  timer.schedule_after(5ms, nothing);
  EXPECT_EQ(timer.advance_by(5ms), 1U);
  EXPECT_EQ(timer.stats().levels.size(), 1U);
  EXPECT_EQ(timer.stats().moves, 0U);
}

TEST(ManualTimer, Scenario07_AnIdleHourAfterUseDoesNotPushAShortTimerUp) {
  manual_timer timer({.tick = 1ms, .wheel_size = 8});
  for (int hour = 0; hour < 5; ++hour) {
    timer.schedule_after(5ms, nothing);
    timer.advance_by(1h);
  }
  EXPECT_EQ(timer.stats().fired, 5U);
  EXPECT_EQ(timer.stats().levels.size(), 1U);
  EXPECT_EQ(timer.stats().moves, 0U);
}

TEST(ManualTimer, Scenario07_AnHourWithOnlyAFarTimerDoesNotPushAShortOneUp) {
  manual_timer timer({.tick = 1ms, .wheel_size = 512});
  timer.schedule_after(hours(24), nothing);
  timer.advance_by(1h);
  timer.schedule_after(5ms, nothing);
  EXPECT_EQ(timer.advance_by(5ms), 1U);
  EXPECT_EQ(timer.stats().moves, 0U);
}

TEST(ManualTimer, Scenario07_AFarTimerMovesOncePerLevelAtMost) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  timer.schedule_after(234ms, nothing);
  timer.schedule_after(1000ms, nothing);
  timer.schedule_after(60ms, nothing);
  EXPECT_EQ(timer.advance_by(1s), 3U);
  EXPECT_EQ(timer.stats().moves, 2U);
}

// ---- Scenario 9 ----

TEST(ManualTimer, Scenario09_CancelOfAPendingTimerSaysCancelledAndItNeverRuns) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle handle = record.after(1ms, 1);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_TRUE(record.ran.empty());
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TEST(ManualTimer, Scenario09_CancelOfADueTimerBeforeTheStepSaysCancelled) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(-1ms, nothing);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(ManualTimer, Scenario09_CancelInsideTheOwnCallbackSaysRunningAndTheRunEndsNormally) {
  manual_timer timer;
  std::vector<cancel_result> answers;
  bool ended = false;
  timer_handle self;
  self = timer.schedule_after(1ms, [&] {
    answers = {self.cancel(), self.cancel()};
    ended = true;
  });
  timer.advance_by(1ms);
  EXPECT_THAT(answers, ElementsAre(cancel_result::running, cancel_result::running));
  EXPECT_TRUE(ended);
  EXPECT_EQ(timer.stats().fired, 1U);
  EXPECT_EQ(timer.stats().cancelled, 0U);
}

TEST(ManualTimer, Scenario09_CancelAfterTheRunSaysFinished) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_EQ(timer.stats().cancelled, 0U);
}

TEST(ManualTimer, Scenario09_ASiblingThatRunsFirstCancelsTheOther) {
  manual_timer timer;
  recorder record(timer);
  cancel_result answer{};
  timer_handle victim;
  timer.schedule_after(1ms, [&] { answer = victim.cancel(); });
  victim = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::cancelled);
  EXPECT_TRUE(record.ran.empty());
}

TEST(ManualTimer, Scenario09_ASiblingThatRunsSecondFindsTheOtherFinished) {
  manual_timer timer;
  recorder record(timer);
  cancel_result answer{};
  const timer_handle victim = record.after(1ms, 1);
  timer.schedule_after(1ms, [&] { answer = victim.cancel(); });
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_EQ(answer, cancel_result::finished);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(ManualTimer, Scenario09_OfTwoThatCancelEachOtherOneRuns) {
  manual_timer timer;
  timer_handle first;
  timer_handle second;
  int runs = 0;
  first = timer.schedule_after(1ms, [&] { ++runs, second.cancel(); });
  second = timer.schedule_after(1ms, [&] { ++runs, first.cancel(); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(runs, 1);
}

/// The first of `count` timers that are due at once cancels all others; of them, none may run.
void expect_that_the_first_cancels_all(int count, nanoseconds delay) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  int runs = 0;
  int cancelled = 0;
  for (int i = 0; i < count; ++i) {
    handles.push_back(timer.schedule_after(delay, [&] {
      ++runs;
      for (const timer_handle& handle : handles) {
        cancelled += handle.cancel() == cancel_result::cancelled;
      }
    }));
  }
  EXPECT_EQ(timer.advance_by(delay + 1h), 1U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(cancelled, count - 1);
  EXPECT_TRUE(conserved(timer));
}

TEST(ManualTimer, Scenario09_ACancelledSiblingNeverRunsHoweverManyAreDue) {
  for (const int count : {2, 64, 65, 255, 256, 257, 1000}) {
    expect_that_the_first_cancels_all(count, 1ms);
    expect_that_the_first_cancels_all(count, 700ms);
  }
}

TEST(ManualTimer, Scenario09_CancelOfATimerInAFlushedBucketKeepsItFromRunning) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  recorder record(timer);
  std::vector<timer_handle> far;
  timer.schedule_after(220ms, [&] {
    for (const timer_handle& handle : far) {
      EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    far.push_back(record.after(221ms + (i % 19) * 1ms, i));
  }
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_TRUE(record.ran.empty());
}

// ---- Scenario 11 ----

constexpr std::size_t many = scaled(1'000'000);

std::vector<timer_handle> schedule_far(manual_timer& timer, live_captures& captures, std::size_t count) {
  std::vector<timer_handle> handles;
  handles.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const nanoseconds delay = 1h + static_cast<int>(i % 100'000) * 1ms;
    handles.push_back(timer.schedule_after(delay, [token = captures.make()] {}));
  }
  return handles;
}

TEST(ManualTimer, Scenario11_CancelOfManyFarTimersDestroysTheirCapturesAtOnce) {
  live_captures captures;
  manual_timer timer;
  const std::vector<timer_handle> handles = schedule_far(timer, captures, many);
  ASSERT_EQ(captures.alive(), static_cast<std::int64_t>(many));
  for (std::size_t i = 0; i < many; ++i) {
    handles[i].cancel();
    ASSERT_EQ(captures.destroyed(), static_cast<std::int64_t>(i + 1));
  }
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().cancelled, many);
}

TEST(ManualTimer, Scenario11_TheMemoryOfCancelledTimersIsUsedAgain) {
  live_captures captures;
  manual_timer timer;
  std::vector<timer_handle> handles = schedule_far(timer, captures, many);
  const std::size_t bytes = timer.stats().bytes;
  for (int round = 0; round < 3; ++round) {
    for (const timer_handle& handle : handles) {
      handle.cancel();
    }
    handles = schedule_far(timer, captures, many);
    EXPECT_LE(timer.stats().bytes, bytes);
  }
}

TEST(ManualTimer, Scenario11_TheMemoryOfFiredTimersIsUsedAgain) {
  live_captures captures;
  manual_timer timer;
  schedule_far(timer, captures, 10'000);
  timer.advance_by(2h);
  const std::size_t bytes = timer.stats().bytes;
  for (int round = 0; round < 10; ++round) {
    schedule_far(timer, captures, 10'000);
    timer.advance_by(2h);
  }
  EXPECT_LE(timer.stats().bytes, bytes + bytes / 10);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, Scenario11_BytesCoverTheNodes) {
  live_captures captures;
  manual_timer timer;
  schedule_far(timer, captures, 10'000);
  EXPECT_GE(timer.stats().bytes, 10'000U * 64U);
}

// ---- Scenario 14 ----

TEST(ManualTimer, Scenario14_RescheduleEarlierFiresEarlierAndOnce) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle handle = record.after(1h, 1);
  EXPECT_TRUE(handle.reschedule(at(5ms)));
  EXPECT_EQ(handle.deadline(), at(5ms));
  EXPECT_EQ(timer.advance_to(at(5ms) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(5ms)), 1U);
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TEST(ManualTimer, Scenario14_RescheduleLaterFiresLaterAndOnce) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle handle = record.after(5ms, 1);
  EXPECT_TRUE(handle.reschedule_after(1h));
  EXPECT_EQ(handle.deadline(), at(1h));
  EXPECT_EQ(timer.advance_to(at(1h) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(1h)), 1U);
}

TEST(ManualTimer, Scenario14_RescheduleToTheSameDeadlineChangesNothing) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(5ms, nothing);
  EXPECT_TRUE(handle.reschedule(at(5ms)));
  EXPECT_EQ(timer.advance_by(5ms), 1U);
}

TEST(ManualTimer, Scenario14_RescheduleAfterTheRunOrACancelReturnsFalse) {
  manual_timer timer;
  const timer_handle fired = timer.schedule_after(1ms, nothing);
  const timer_handle cancelled = timer.schedule_after(1h, nothing);
  timer.advance_by(1ms);
  cancelled.cancel();
  EXPECT_FALSE(fired.reschedule_after(1ms));
  EXPECT_FALSE(cancelled.reschedule_after(1ms));
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TEST(ManualTimer, Scenario14_RescheduleInsideTheOwnCallbackReturnsFalse) {
  manual_timer timer;
  bool moved = true;
  timer_handle self;
  self = timer.schedule_after(1ms, [&] { moved = self.reschedule_after(1ms); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_FALSE(moved);
}

TEST(ManualTimer, Scenario14_RescheduleToThePastRunsAtTheNextStepAndNotInline) {
  manual_timer timer({}, starting_at(1h));
  recorder record(timer);
  const timer_handle handle = record.after(1h, 1);
  EXPECT_TRUE(handle.reschedule(at(1min)));
  EXPECT_TRUE(record.ran.empty());
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TEST(ManualTimer, Scenario14_RescheduleOfADueTimerMovesItAway) {
  manual_timer timer({}, starting_at(1h));
  recorder record(timer);
  const timer_handle handle = record.after(-1ms, 1);
  EXPECT_TRUE(handle.reschedule_after(1h));
  EXPECT_EQ(timer.advance_by(1h - 1ns), 0U);
  EXPECT_EQ(timer.advance_by(1ns), 1U);
}

TEST(ManualTimer, Scenario14_ASiblingMovesADueTimerToLater) {
  manual_timer timer;
  recorder record(timer);
  timer_handle sibling;
  bool moved = false;
  timer.schedule_after(1ms, [&] { moved = sibling.reschedule_after(1h); });
  sibling = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_TRUE(moved);
  EXPECT_EQ(sibling.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ManualTimer, Scenario14_ASiblingThatMovesADueTimerToThePastRunsItOnce) {
  manual_timer timer;
  recorder record(timer);
  timer_handle sibling;
  timer.schedule_after(1ms, [&] { EXPECT_TRUE(sibling.reschedule(at(0ms))); });
  sibling = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(ManualTimer, Scenario14_ADueTimerMovedByEverySiblingRunsOnce) {
  manual_timer timer;
  recorder record(timer);
  timer_handle last;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1ms, [&, i] { EXPECT_TRUE(last.reschedule_after((i % 3) * 1ms)); });
  }
  last = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(1h), 1001U);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(ManualTimer, Scenario14_CancelAfterARescheduleFromASiblingHolds) {
  manual_timer timer;
  recorder record(timer);
  timer_handle victim;
  timer.schedule_after(1ms, [&] {
    victim.reschedule_after(0ms);
    EXPECT_EQ(victim.cancel(), cancel_result::cancelled);
  });
  victim = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_TRUE(record.ran.empty());
}

TEST(ManualTimer, Scenario14_RescheduleIsNoNewTimerInTheCounts) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  for (int i = 0; i < 10; ++i) {
    handle.reschedule_after(i * 100ms);
  }
  const timer_stats counts = timer.stats();
  EXPECT_EQ(counts.scheduled, 1U);
  EXPECT_EQ(counts.pending, 1U);
  EXPECT_EQ(counts.cancelled, 0U);
}

TEST(ManualTimer, Scenario14_AMillionTouchesDoNotGrowTheMemory) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1min, nothing);
  for (int i = 0; i < 1000; ++i) {
    timer.advance_by(1ms);
    handle.reschedule_after(1min);
  }
  const std::size_t bytes = timer.stats().bytes;
  for (std::uint64_t i = 0; i < scaled(1'000'000); ++i) {
    timer.advance_by(1ms);
    handle.reschedule_after(1min);
  }
  EXPECT_EQ(timer.stats().fired, 0U);
  EXPECT_LE(timer.stats().bytes, bytes + 65536);
}

// ---- Scenario 15 ----

void expect_stale(const timer_handle& handle) {
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.deadline(), std::nullopt);
  EXPECT_EQ(handle.remaining(), std::nullopt);
  EXPECT_EQ(handle.tag(), std::nullopt);
  EXPECT_FALSE(handle.reschedule(time_point(1ns)));
  EXPECT_FALSE(handle.reschedule_after(1ns));
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TEST(ManualTimer, Scenario15_AStaleHandleDoesNothingToTheTimerInTheSamePlace) {
  manual_timer timer;
  std::vector<timer_handle> stale;
  for (int i = 0; i < 1000; ++i) {
    stale.push_back(timer.schedule_after(1h, nothing, {.tag = 1}));
    stale.back().cancel();
  }
  const timer_handle live = timer.schedule_after(1h, nothing, {.tag = 2});
  for (const timer_handle& handle : stale) {
    expect_stale(handle);
  }
  EXPECT_EQ(live.tag(), 2U);
  EXPECT_EQ(live.deadline(), at(1h));
  EXPECT_EQ(timer.advance_by(1h), 1U);
}

TEST(ManualTimer, Scenario15_AHandleOfAFiredTimerDoesNothingToTheNextOne) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle stale = record.after(1ms, 1);
  timer.advance_by(1ms);
  const timer_handle live = record.after(1h, 2);
  expect_stale(stale);
  EXPECT_EQ(live.status(), timer_status::pending);
  timer.advance_by(1h);
  EXPECT_THAT(record.ran, ElementsAre(1, 2));
}

TEST(ManualTimer, Scenario15_AHandleOfARunningTimerDoesNothingToOnesScheduledMeanwhile) {
  manual_timer timer;
  recorder record(timer);
  timer_handle self;
  self = timer.schedule_after(1ms, [&] {
    record.after(1ms, 1);
    EXPECT_EQ(self.status(), timer_status::running);
    EXPECT_EQ(self.cancel(), cancel_result::running);
    EXPECT_FALSE(self.reschedule_after(1h));
  });
  timer.advance_by(2ms);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(ManualTimer, Scenario15_AHandleOutlivesTheService) {
  timer_handle pending;
  timer_handle fired;
  {
    manual_timer timer;
    fired = timer.schedule_after(1ms, nothing);
    pending = timer.schedule_after(1h, nothing);
    timer.advance_by(1ms);
  }
  expect_stale(pending);
  expect_stale(fired);
  EXPECT_NE(pending, fired);
  EXPECT_THAT(testing::PrintToString(pending), HasSubstr("finished"));
  const timer_handle copy = pending;
  EXPECT_EQ(copy, pending);
}

TEST(ManualTimer, Scenario15_AHandleOutlivesAServiceThatWasStopped) {
  timer_handle handle;
  {
    manual_timer timer;
    handle = timer.schedule_after(1h, nothing);
    timer.stop();
  }
  expect_stale(handle);
}

TEST(ManualTimer, Scenario15_AReturnedTaskOutlivesTheService) {
  int runs = 0;
  std::vector<pending_task> left;
  {
    manual_timer timer;
    timer.schedule_after(1h, [&] { ++runs; });
    left = timer.stop();
  }
  left.at(0).callback();
  EXPECT_EQ(runs, 1);
}

// ---- Scenario 18 ----

TEST(ManualTimer, Scenario18_StopReturnsThePendingOnesWithDeadlineTagAndCallable) {
  manual_timer timer;
  recorder record(timer);
  timer.schedule_after(5ms, [&] { record.ran.push_back(5); }, {.tag = 50});
  timer.schedule_after(7h, [&] { record.ran.push_back(7); }, {.tag = 70});
  timer.schedule_at(time_point::max(), [&] { record.ran.push_back(9); }, {.tag = 90});
  std::vector<std::pair<time_point, std::uint64_t>> left;
  for (pending_task& task : timer.stop()) {
    left.emplace_back(task.deadline, task.tag);
    task.callback();
  }
  EXPECT_THAT(left,
              UnorderedElementsAre(std::pair(at(5ms), 50U), std::pair(at(7h), 70U), std::pair(time_point::max(), 90U)));
  EXPECT_THAT(record.ran, UnorderedElementsAre(5, 7, 9));
}

TEST(ManualTimer, Scenario18_NothingRunsAfterStop) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle handle = record.after(1ms, 1);
  record.after(-1ms, 2);
  EXPECT_EQ(timer.stop().size(), 2U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_FALSE(handle.reschedule_after(1ms));
}

TEST(ManualTimer, Scenario18_StopTwiceReturnsNothingTheSecondTime) {
  manual_timer timer;
  timer.schedule_after(1ms, nothing);
  EXPECT_FALSE(timer.stopped());
  EXPECT_EQ(timer.stop().size(), 1U);
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.stop().size(), 0U);
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.stats().returned, 1U);
}

TEST(ManualTimer, Scenario18_StopFromACallbackReturnsTheSiblingsThatHaveNotBegun) {
  manual_timer timer;
  std::vector<std::uint64_t> tags;
  std::vector<std::uint64_t> ran;
  for (std::uint64_t i = 0; i < 10; ++i) {
    timer.schedule_after(1ms,
                         [&, i] {
                           ran.push_back(i);
                           for (const pending_task& task : timer.stop()) {
                             tags.push_back(task.tag);
                           }
                         },
                         {.tag = i});
  }
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_THAT(ran, ElementsAre(0));
  EXPECT_THAT(tags, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_TRUE(conserved(timer));
}

/// Stops from the callback of the `stopper`-th of `count` timers, and checks that each has had one outcome.
void expect_each_once_when_stopped_by(int stopper, int count, nanoseconds spread) {
  manual_timer timer({.wheel_size = 20});
  std::vector<int> outcomes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    timer.schedule_after(
        400ms + (static_cast<int>(i) % 7) * spread,
        [&, i] {
          ++outcomes[i];
          for (const pending_task& task : static_cast<int>(i) == stopper ? timer.stop() : std::vector<pending_task>()) {
            ++outcomes[task.tag];
          }
        },
        {.tag = i});
  }
  timer.advance_by(1h);
  EXPECT_THAT(outcomes, Each(1));
  EXPECT_EQ(timer.stats().fired + timer.stats().returned, static_cast<std::uint64_t>(count));
  EXPECT_TRUE(conserved(timer));
}

TEST(ManualTimer, Scenario18_StopInEachStepOfAFlushLosesNothing) {
  for (const int stopper : {0, 1, 2, 63, 64, 255, 256, 257, 511, 700, 998, 999}) {
    expect_each_once_when_stopped_by(stopper, 1000, 0ms);
    expect_each_once_when_stopped_by(stopper, 1000, 3ms);
    expect_each_once_when_stopped_by(stopper, 1000, 30ms);
  }
}

TEST(ManualTimer, Scenario18_StopReturnsManyOfThem) {
  live_captures captures;
  manual_timer timer;
  schedule_far(timer, captures, 100'000);
  {
    const std::vector<pending_task> left = timer.stop();
    EXPECT_EQ(left.size(), 100'000U);
    EXPECT_EQ(captures.alive(), 100'000);
  }
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, Scenario18_EveryOutcomeIsCountedOnce) {
  manual_timer timer({.max_pending = 4});
  timer.schedule_after(1ms, nothing);
  timer.schedule_after(1h, nothing).cancel();
  timer.advance_by(1ms);
  for (int i = 0; i < 5; ++i) {
    std::error_code error;
    timer.schedule_after(1h, nothing, error);
  }
  timer.stop();
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
  const timer_stats counts = timer.stats();
  EXPECT_EQ(counts.scheduled, 6U);
  EXPECT_EQ(counts.fired, 1U);
  EXPECT_EQ(counts.cancelled, 1U);
  EXPECT_EQ(counts.returned, 4U);
  EXPECT_EQ(counts.pending, 0U);
  EXPECT_EQ(counts.rejected, 2U);
}

TEST(ManualTimer, Scenario18_ScheduleAfterStopThrowsStopped) {
  manual_timer timer;
  timer.stop();
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, nothing); }).code, timer_errc::stopped);
  EXPECT_EQ(refusal_of([&] { timer.schedule_at(at(1ms), nothing); }).code, timer_errc::stopped);
  EXPECT_EQ(refusal_of([&] { timer.schedule_at(std::chrono::system_clock::now(), nothing); }).code,
            timer_errc::stopped);
  EXPECT_EQ(timer.stats().rejected, 3U);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

TEST(ManualTimer, Scenario18_ScheduleAfterStopReportsAnErrorCode) {
  live_captures captures;
  manual_timer timer;
  timer.stop();
  std::error_code error;
  const timer_handle handle = timer.schedule_after(
      1ms, [token = captures.make()] {}, {.tag = 7}, error);
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_FALSE(handle);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, Scenario18_ScheduleInACallbackAfterStopIsRefused) {
  manual_timer timer;
  std::error_code code;
  timer.schedule_after(1ms, [&] {
    timer.stop();
    code = refusal_of([&] { timer.schedule_after(1ms, nothing); }).code;
  });
  timer.advance_by(1h);
  EXPECT_EQ(code, timer_errc::stopped);
}

TEST(ManualTimer, Scenario18_TheDestructorDropsWhatIsPending) {
  live_captures captures;
  int runs = 0;
  {
    manual_timer timer;
    timer.schedule_after(1ms, [&runs, token = captures.make()] { ++runs; });
    timer.schedule_after(-1ms, [&runs, token = captures.make()] { ++runs; });
    timer.schedule_at(time_point::max(), [&runs, token = captures.make()] { ++runs; });
  }
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(captures.alive(), 0);
}

// ---- Scenario 19 ----

TEST(ManualTimer, Scenario19_RefusesTheThirdOfTwoAndSaysTheNumbers) {
  manual_timer timer({.max_pending = 2});
  timer.schedule_after(1h, nothing);
  timer.schedule_after(1h, nothing);
  const refusal third = refusal_of([&] { timer.schedule_after(1h, nothing); });
  EXPECT_EQ(third.code, timer_errc::too_many_pending);
  EXPECT_THAT(third.message, HasSubstr("2"));
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(timer.stats().scheduled, 2U);
  EXPECT_EQ(timer.stats().rejected, 1U);
}

TEST(ManualTimer, Scenario19_TheMessageCarriesTheCountAndTheLimit) {
  manual_timer timer({.max_pending = 1234});
  for (int i = 0; i < 1234; ++i) {
    timer.schedule_after(1h, nothing);
  }
  const std::string message = refusal_of([&] { timer.schedule_after(1h, nothing); }).message;
  const std::size_t first = message.find("1234");
  ASSERT_NE(first, std::string::npos) << message;
  EXPECT_NE(message.find("1234", first + 1), std::string::npos) << message;
}

TEST(ManualTimer, Scenario19_TheErrorCodeOverloadsDoNotThrow) {
  live_captures captures;
  manual_timer timer({.max_pending = 0});
  std::error_code error;
  EXPECT_FALSE(timer.schedule_after(
      1h, [token = captures.make()] {}, error));
  EXPECT_EQ(error, timer_errc::too_many_pending);
  error.clear();
  EXPECT_FALSE(timer.schedule_at(
      at(1h), [token = captures.make()] {}, error));
  EXPECT_EQ(error, timer_errc::too_many_pending);
  error.clear();
  EXPECT_FALSE(timer.schedule_at(
      at(1h), [token = captures.make()] {}, {.tag = 3}, error));
  EXPECT_EQ(error, timer_errc::too_many_pending);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().rejected, 3U);
}

TEST(ManualTimer, Scenario19_TheErrorCodeIsClearedOnSuccess) {
  manual_timer timer;
  std::error_code error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_after(1h, nothing, error));
  EXPECT_FALSE(error);
}

TEST(ManualTimer, Scenario19_AfterACancelOneMoreIsAccepted) {
  manual_timer timer({.max_pending = 2});
  const timer_handle first = timer.schedule_after(1h, nothing);
  timer.schedule_after(1h, nothing);
  first.cancel();
  first.cancel();
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
}

TEST(ManualTimer, Scenario19_AfterAFireOneMoreIsAccepted) {
  manual_timer timer({.max_pending = 2});
  timer.schedule_after(1ms, nothing);
  timer.schedule_after(1h, nothing);
  timer.advance_by(1ms);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
}

TEST(ManualTimer, Scenario19_ACallbackMayTakeItsOwnPlace) {
  manual_timer timer({.max_pending = 1});
  timer.schedule_after(1ms, [&] { timer.schedule_after(1ms, nothing); });
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_EQ(timer.stats().rejected, 0U);
}

TEST(ManualTimer, Scenario19_RefusalsDoNotUseUpPlaces) {
  manual_timer timer({.max_pending = 1});
  const timer_handle handle = timer.schedule_after(1h, nothing);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
  }
  handle.cancel();
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
}

TEST(ManualTimer, Scenario19_RescheduleWorksAtTheLimit) {
  manual_timer timer({.max_pending = 1});
  const timer_handle handle = timer.schedule_after(1h, nothing);
  EXPECT_TRUE(handle.reschedule_after(1ms));
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ManualTimer, Scenario19_AFailedCallableUsesUpNoPlace) {
  manual_timer timer({.max_pending = 1});
  EXPECT_THROW(timer.schedule_after(1h, std::function<void()>()), timer_error);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
}

TEST(ManualTimer, Scenario19_TheLimitIsThatOfTheServiceNotOfAShard) {
  manual_timer timer({.shards = 8, .max_pending = 10});
  std::vector<std::jthread> adders;
  for (int i = 0; i < 8; ++i) {
    adders.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        std::error_code error;
        timer.schedule_after(1h, nothing, error);
      }
    });
  }
  adders.clear();
  EXPECT_EQ(timer.pending(), 10U);
  EXPECT_EQ(timer.stats().rejected, 70U);
}

// ---- Scenario 20 ----

TEST(ManualTimer, Scenario20_OfMCallbacksTheNthThrowsAndTheOthersRun) {
  for (int thrower = 0; thrower < 5; ++thrower) {
    const captured_stderr silence;
    manual_timer timer;
    std::vector<int> ran;
    for (int i = 0; i < 5; ++i) {
      timer.schedule_after(1ms, [&ran, i, thrower] {
        ran.push_back(i);
        if (i == thrower) {
          throw std::runtime_error("refused");
        }
      });
    }
    EXPECT_EQ(timer.advance_by(1ms), 5U);
    EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(timer.stats().failed, 1U);
    EXPECT_EQ(timer.stats().fired, 5U);
  }
}

TEST(ManualTimer, Scenario20_WritesWhatACallbackThrewToStandardError) {
  manual_timer timer;
  timer.schedule_after(1ms, [] { throw std::runtime_error("the warehouse is closed"); });
  captured_stderr output;
  timer.advance_by(1ms);
  EXPECT_THAT(output.text(), HasSubstr("the warehouse is closed"));
}

TEST(ManualTimer, Scenario20_WritesWhatEachOfTwoCallbacksThrew) {
  manual_timer timer;
  timer.schedule_after(1ms, [] { throw std::runtime_error("the warehouse is closed"); });
  timer.schedule_after(2ms, [] { throw std::runtime_error("the order is unknown"); });
  captured_stderr output;
  timer.advance_by(2ms);
  EXPECT_THAT(output.text(), AllOf(HasSubstr("the warehouse is closed"), HasSubstr("the order is unknown")));
}

TEST(ManualTimer, Scenario20_SurvivesAThrowOfSomethingThatIsNoException) {
  captured_stderr output;
  manual_timer timer;
  timer.schedule_after(1ms, [] { throw 42; });
  timer.schedule_after(2ms, nothing);
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_EQ(timer.stats().failed, 1U);
  EXPECT_FALSE(output.text().empty());
}

TEST(ManualTimer, Scenario20_AThrowFinishesTheTimerAndDestroysItsCaptures) {
  const captured_stderr silence;
  live_captures captures;
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, [token = captures.make()] { throw 42; });
  timer.advance_by(1ms);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_TRUE(conserved(timer));
}

TEST(ManualTimer, Scenario20_ACallbackSchedulesAHundredThousandMore) {
  manual_timer timer;
  std::uint64_t runs = 0;
  timer.schedule_after(1ms, [&] {
    dice random(20);
    for (int i = 0; i < 100'000; ++i) {
      timer.schedule_after(random.between(-10ms, 10s), [&] { ++runs; });
    }
  });
  EXPECT_EQ(timer.advance_by(11s), 100'001U);
  EXPECT_EQ(runs, 100'000U);
  EXPECT_TRUE(conserved(timer));
}

TEST(ManualTimer, Scenario20_CallbacksThatScheduleIntoTheirOwnTickDoNotNest) {
  manual_timer timer;
  int depth = 0;
  int deepest = 0;
  int left = 10'000;
  std::function<void()> again = [&] {
    deepest = std::max(deepest, ++depth);
    if (--left > 0) {
      timer.schedule_after(0ns, again);
    }
    --depth;
  };
  timer.schedule_after(1ms, again);
  EXPECT_EQ(timer.advance_by(1h), 10'000U);
  EXPECT_EQ(deepest, 1);
}

TEST(ManualTimer, Scenario20_ACallbackDropsItsOwnHandle) {
  manual_timer timer;
  live_captures captures;
  auto handle = std::make_shared<timer_handle>();
  bool alive = false;
  *handle = timer.schedule_after(1ms, [&alive, &captures, handle, token = captures.make()]() mutable {
    handle.reset();
    alive = captures.alive() == 1;
  });
  handle.reset();
  timer.advance_by(1ms);
  EXPECT_TRUE(alive);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, Scenario20_ACallbackOverwritesItsOwnHandle) {
  manual_timer timer;
  recorder record(timer);
  timer_handle self;
  self = timer.schedule_after(1ms, [&] {
    self = {};
    self = record.after(1ms, 1);
  });
  timer.advance_by(2ms);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(ManualTimer, Scenario20_CancelInACallbackDestroysTheCapturesOfTheOther) {
  manual_timer timer;
  live_captures captures;
  std::int64_t alive = -1;
  timer_handle victim;
  timer.schedule_after(1ms, [&] {
    victim.cancel();
    alive = captures.alive();
  });
  victim = timer.schedule_after(1ms, [token = captures.make()] {});
  timer.advance_by(1ms);
  EXPECT_EQ(alive, 0);
}

TEST(ManualTimer, Scenario20_CancelInTheOwnCallbackLeavesItsCapturesAliveUntilItEnds) {
  manual_timer timer;
  live_captures captures;
  std::int64_t alive = -1;
  timer_handle self;
  self = timer.schedule_after(1ms, [&, token = captures.make()] {
    self.cancel();
    alive = captures.alive();
  });
  timer.advance_by(1ms);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, Scenario20_CapturesAreDestroyedBeforeTheNextCallbackBegins) {
  manual_timer timer;
  live_captures captures;
  std::int64_t alive = -1;
  timer.schedule_after(1ms, [token = captures.make()] {});
  timer.schedule_after(2ms, [&] { alive = captures.alive(); });
  timer.advance_by(2ms);
  EXPECT_EQ(alive, 0);
}

// ---- Scenario 22 ----

struct self_arming {
  manual_timer* timer;
  std::uint64_t* left;
  void operator()() const {
    if (--*left > 0) {
      timer->schedule_after(1ms, *this);
    }
  }
};

TEST(ManualTimer, Scenario22_ATimerArmsItselfTenMillionTimes) {
  constexpr std::uint64_t times = scaled(10'000'000);
  manual_timer timer;
  std::uint64_t left = times;
  timer.schedule_after(1ms, self_arming{&timer, &left});
  EXPECT_EQ(timer.advance_by(times * 1ms - 1ns), times - 1);
  EXPECT_EQ(timer.advance_by(1ns), 1U);
  EXPECT_EQ(left, 0U);
  EXPECT_EQ(timer.stats().fired, times);
  EXPECT_LT(timer.stats().bytes, 1U << 20U);
}

TEST(ManualTimer, Scenario22_ATimerArmsItselfThroughSingleSteps) {
  constexpr std::uint64_t times = scaled(1'000'000);
  manual_timer timer;
  std::uint64_t left = times;
  timer.schedule_after(1ms, self_arming{&timer, &left});
  for (std::uint64_t i = 0; i < times; ++i) {
    ASSERT_EQ(timer.advance_by(1ms), 1U);
  }
  EXPECT_EQ(left, 0U);
}

// ---- Counts ----

TEST(ManualTimer, CountsAgreeInsideCallbacks) {
  manual_timer timer;
  dice random(3);
  std::vector<timer_handle> handles;
  std::uint64_t begun = 0;
  for (int i = 0; i < 1000; ++i) {
    handles.push_back(timer.schedule_after(random.between(0ms, 2s), [&] {
      handles[random.below(handles.size())].cancel();
      const timer_stats counts = timer.stats();
      EXPECT_TRUE(conserved(counts));
      EXPECT_EQ(counts.fired, ++begun);
      EXPECT_EQ(counts.pending, timer.pending());
    }));
  }
  timer.advance_by(2s);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(ManualTimer, ATimerIsNoLongerPendingOnceItsCallbackHasBegun) {
  manual_timer timer;
  std::size_t seen = 99;
  timer.schedule_after(1ms, [&] { seen = timer.pending(); });
  timer.advance_by(1ms);
  EXPECT_EQ(seen, 0U);
}

TEST(ManualTimer, TheCountDoesNotDipDuringACascade) {
  manual_timer timer({.wheel_size = 8});
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(513ms, nothing);
  }
  for (int step = 0; step < 512; ++step) {
    timer.advance_by(1ms);
    ASSERT_EQ(timer.pending(), 1000U);
    ASSERT_EQ(timer.stats().pending, 1000U);
  }
  EXPECT_EQ(timer.advance_by(1ms), 1000U);
}

TEST(ManualTimer, HoldsTheLockForFewTimersHoweverManyAreDue) {
  manual_timer timer({.wheel_size = 20});
  for (int i = 0; i < 10'000; ++i) {
    timer.schedule_after(1s, nothing);
    timer.schedule_after(1h, nothing);
  }
  timer.advance_by(1s);
  timer.stop();
  EXPECT_GT(timer.stats().largest_hold, 0U);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

TEST(ManualTimer, HoldsTheLockForFewTimersHoweverManyWereDueWhenTheyCame) {
  manual_timer timer({}, starting_at(1h));
  for (int i = 0; i < 10'000; ++i) {
    timer.schedule_after(-1ms, nothing);
  }
  EXPECT_EQ(timer.advance_by(0ms), 10'000U);
  EXPECT_GT(timer.stats().largest_hold, 0U);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

TEST(ManualTimer, TheLargestHoldCountsStopToo) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  timer.stop();
  EXPECT_GT(timer.stats().largest_hold, 0U);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

TEST(ManualTimer, LatenessIsCountedFromTheDeadline) {
  manual_timer timer({.tick = 10ms});
  timer.schedule_after(25ms, nothing);
  timer.schedule_after(30ms, nothing);
  timer.advance_by(1h);
  const timer_stats counts = timer.stats();
  EXPECT_EQ(counts.lateness.count(), 2U);
  EXPECT_EQ(counts.lateness.max(), 5ms);
  EXPECT_EQ(counts.early, 0U);
}

TEST(ManualTimer, LatenessOfADelayBelowZeroCountsFromItsDeadline) {
  manual_timer timer({.tick = 1ms}, starting_at(1h));
  timer.schedule_at(at(1h - 5ms), nothing);
  timer.advance_to(at(1h));
  EXPECT_EQ(timer.stats().lateness.max(), 5ms);
}

TEST(ManualTimer, LatenessOfTheSmallestDeadlineDoesNotOverflow) {
  manual_timer timer({}, starting_at(1h));
  timer.schedule_at(time_point::min(), nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stats().lateness.max(), nanoseconds::max());
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(ManualTimer, LevelsAreThoseOfTheWheelSizes) {
  manual_timer timer({.tick = 1s, .wheel_sizes = {60, 60, 24}});
  timer.schedule_after(hours(23), nothing);
  const timer_stats counts = timer.stats();
  ASSERT_EQ(counts.levels.size(), 3U);
  EXPECT_EQ(counts.levels[0].tick_length, 1U);
  EXPECT_EQ(counts.levels[1].tick_length, 60U);
  EXPECT_EQ(counts.levels[2].tick_length, 3600U);
  EXPECT_EQ(counts.levels[2].interval, 86400U);
}

// ---- Options ----

TEST(ManualTimer, RefusesATickThatIsNotPositive) {
  const refusal zero = refusal_of_options({.tick = 0ns});
  EXPECT_EQ(zero.code, timer_errc::invalid_option);
  EXPECT_THAT(zero.message, HasSubstr("0"));
  EXPECT_THAT(zero.message, HasSubstr("tick"));
  const refusal negative = refusal_of_options({.tick = -17ns});
  EXPECT_EQ(negative.code, timer_errc::invalid_option);
  EXPECT_THAT(negative.message, HasSubstr("-17"));
}

TEST(ManualTimer, RefusesAWheelSizeOutOfRange) {
  for (const std::uint32_t size : {0U, 1U, (1U << 24U) + 1}) {
    const refusal error = refusal_of_options({.wheel_size = size});
    EXPECT_EQ(error.code, timer_errc::invalid_option);
    EXPECT_THAT(error.message, HasSubstr(std::to_string(size)));
    EXPECT_THAT(error.message, HasSubstr("[2, 16777216]"));
  }
}

TEST(ManualTimer, RefusesAWheelSizeOfALevelOutOfRange) {
  const refusal error = refusal_of_options({.wheel_sizes = {60, 60, 1}});
  EXPECT_EQ(error.code, timer_errc::invalid_option);
  EXPECT_THAT(error.message, HasSubstr("1"));
}

TEST(ManualTimer, RefusesTooManyShards) {
  const refusal error = refusal_of_options({.shards = 1025});
  EXPECT_EQ(error.code, timer_errc::invalid_option);
  EXPECT_THAT(error.message, HasSubstr("1025"));
  EXPECT_THAT(error.message, HasSubstr("1024"));
}

TEST(ManualTimer, AcceptsTheLimitsOfTheOptions) {
  EXPECT_NO_THROW(const manual_timer timer({.tick = 1ns, .wheel_size = 2, .shards = 1}));
  EXPECT_NO_THROW(const manual_timer timer({.tick = nanoseconds::max(), .wheel_size = 2}));
  EXPECT_NO_THROW(const manual_timer timer({.wheel_size = 2, .shards = 1024}));
}

// ---- Order and the clock ----

TEST(ManualTimer, RunsTheTimersOfOneTickInTheOrderInWhichTheyWereScheduled) {
  for (const nanoseconds delay : {0ns, 1'000'000ns, 511'000'000ns, 600'000'000ns, 3'600'000'000'000ns}) {
    manual_timer timer;
    recorder record(timer);
    std::vector<int> expected;
    for (int i = 0; i < 1000; ++i) {
      expected.push_back(i);
      record.after(delay, i);
    }
    timer.advance_by(delay + 1ms);
    EXPECT_EQ(record.ran, expected) << delay.count();
  }
}

TEST(ManualTimer, RunsInTheOrderOfTheTicks) {
  manual_timer timer({.wheel_size = 8});
  dice random(4);
  std::vector<time_point> ran;
  for (int i = 0; i < 10'000; ++i) {
    const time_point deadline = timer.now() + random.between(1ms, 20s);
    timer.schedule_at(deadline,
                      [&ran, deadline] { ran.push_back(std::chrono::ceil<std::chrono::milliseconds>(deadline)); });
  }
  EXPECT_EQ(timer.advance_by(20s), 10'000U);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(ManualTimer, RunsInTheOrderOfTheTicksOverAllShards) {
  manual_timer timer({.wheel_size = 8, .shards = 4});
  std::vector<time_point> ran;
  std::vector<std::thread> adders;
  for (int i = 0; i < 4; ++i) {
    adders.emplace_back([&, i] {
      for (int k = 0; k < 250; ++k) {
        timer.schedule_after((k * 4 + i) * 1ms, [&] { ran.push_back(timer.now()); });
      }
    });
    adders.back().join();
  }
  EXPECT_EQ(timer.advance_by(1s), 1000U);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  EXPECT_EQ(ran.back(), at(999ms));
}

TEST(ManualTimer, ACallbackSeesTheClockAtItsOwnTick) {
  manual_timer timer({.tick = 10ms});
  std::vector<time_point> seen;
  for (const nanoseconds delay : {1ns, 10'000'000ns, 10'000'001ns, 7'000'000'000ns}) {
    timer.schedule_after(delay, [&] { seen.push_back(timer.now()); });
  }
  timer.advance_by(1h);
  EXPECT_THAT(seen, ElementsAre(at(10ms), at(10ms), at(20ms), at(7s)));
  EXPECT_EQ(timer.now(), at(1h));
}

TEST(ManualTimer, RunsWhatACallbackSchedulesBeforeTheEndOfTheStep) {
  manual_timer timer;
  std::vector<time_point> seen;
  timer.schedule_after(10ms, [&] {
    timer.schedule_after(5ms, [&] { seen.push_back(timer.now()); });
    timer.schedule_after(90ms, [&] { seen.push_back(timer.now()); });
    timer.schedule_after(91ms, [&] { seen.push_back(timer.now()); });
  });
  EXPECT_EQ(timer.advance_by(100ms), 3U);
  EXPECT_THAT(seen, ElementsAre(at(15ms), at(100ms)));
}

TEST(ManualTimer, RunsANearTimerOfACallbackBeforeAFarOneThatWasThereFirst) {
  manual_timer timer({.wheel_size = 8});
  recorder record(timer);
  record.after(1s, 2);
  timer.schedule_after(500ms, [&] { record.after(1ms, 1); });
  timer.advance_by(2s);
  EXPECT_THAT(record.ran, ElementsAre(1, 2));
}

TEST(ManualTimer, RefusesToAdvanceInsideACallback) {
  manual_timer timer;
  recorder record(timer);
  refusal error;
  timer.schedule_after(1ms, [&] { error = refusal_of([&] { timer.advance_by(1s); }); });
  record.after(2ms, 1);
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_EQ(error.code, timer_errc::nested_advance);
  EXPECT_EQ(timer.now(), at(2ms));
  EXPECT_EQ(timer.advance_by(1ms), 0U) << "usable again";
}

TEST(ManualTimer, RefusesToAdvanceFromTwoThreadsAtOnce) {
  manual_timer timer;
  refusal error;
  timer.schedule_after(1ms, [&] { std::thread([&] { error = refusal_of([&] { timer.advance_by(1s); }); }).join(); });
  timer.advance_by(1ms);
  EXPECT_EQ(error.code, timer_errc::nested_advance);
}

TEST(ManualTimer, ServicesAdvanceEachOther) {
  manual_timer outer;
  manual_timer inner;
  recorder record(inner);
  record.after(1ms, 1);
  outer.schedule_after(1ms, [&] { inner.advance_by(1ms); });
  outer.advance_by(1ms);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(ManualTimer, StartsAtTheTimeOfTheClockThatItIsGiven) {
  const manual_timer timer({}, starting_at(42h));
  EXPECT_EQ(timer.now(), at(42h));
}

// ---- Deadlines by clock ----

TEST(ManualTimer, ScheduleAtFiresAtASteadyDeadline) {
  manual_timer timer({}, starting_at(1h));
  const std::chrono::time_point<std::chrono::steady_clock, std::chrono::seconds> deadline(3605s);
  const timer_handle handle = timer.schedule_at(deadline, nothing);
  EXPECT_EQ(handle.deadline(), at(1h + 5s));
  EXPECT_EQ(timer.advance_to(at(1h + 5s) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(1h + 5s)), 1U);
}

TEST(ManualTimer, ScheduleAtFiresAtASystemDeadlineOfTheSameNumber) {
  manual_timer timer({}, starting_at(1h));
  const std::chrono::sys_seconds deadline(3605s);
  timer.schedule_at(deadline, nothing);
  EXPECT_EQ(timer.advance_to(at(1h + 5s) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(1h + 5s)), 1U);
}

TEST(ManualTimer, ScheduleAtASystemDeadlineInThePastRunsAtTheNextStep) {
  manual_timer timer({}, starting_at(1h));
  timer.schedule_at(std::chrono::sys_seconds(5s), nothing);
  timer.schedule_at(std::chrono::sys_time<nanoseconds>::min(), nothing);
  EXPECT_EQ(timer.advance_by(1ms), 2U);
}

TEST(ManualTimer, ScheduleAtTheLargestSystemDeadlineNeverFires) {
  manual_timer timer;
  timer.schedule_at(std::chrono::sys_time<hours>::max(), nothing);
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
}

TEST(ManualTimer, ASystemDeadlineIsNotEarlyHoweverFarItIsFromTheClock) {
  for (const nanoseconds start : {nanoseconds(-1h), nanoseconds(-hundred_years), nanoseconds::min()}) {
    manual_timer timer({}, starting_at(start));
    const timer_handle handle = timer.schedule_at(std::chrono::sys_time<nanoseconds>::max() - 1ms, nothing);
    EXPECT_EQ(handle.deadline(), time_point::max() - 1ms);
    EXPECT_EQ(timer.advance_to(time_point::max() - 2ms), 0U) << start.count();
  }
}

TEST(ManualTimer, RoundsFractionsOfANanosecondUp) {
  manual_timer timer({.tick = 1ns});
  timer.schedule_after(std::chrono::duration<double, std::nano>(10.25), nothing);
  timer.schedule_after(std::chrono::duration<int, std::pico>(10'001), nothing);
  EXPECT_EQ(timer.advance_by(10ns), 0U);
  EXPECT_EQ(timer.advance_by(1ns), 2U);
}

// ---- What a handle tells ----

TEST(ManualTimer, AHandleTellsTagDeadlineAndTimeLeft) {
  manual_timer timer({.tick = 10ms});
  const timer_handle handle = timer.schedule_after(25ms, nothing, {.tag = std::numeric_limits<std::uint64_t>::max()});
  timer.advance_by(5ms);
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(handle.tag(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(handle.deadline(), at(25ms)) << "as asked for, not rounded";
  EXPECT_EQ(handle.remaining(), 20ms);
}

TEST(ManualTimer, RemainingIsZeroBetweenTheDeadlineAndTheRun) {
  manual_timer timer({.tick = 10ms});
  const timer_handle handle = timer.schedule_after(25ms, nothing);
  timer.advance_to(at(28ms));
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(handle.remaining(), 0ns);
}

TEST(ManualTimer, RemainingOfAVeryFarDeadlineDoesNotOverflow) {
  manual_timer timer({}, starting_at(nanoseconds::min()));
  const timer_handle handle = timer.schedule_at(time_point::max(), nothing);
  EXPECT_EQ(handle.remaining(), nanoseconds::max());
}

TEST(ManualTimer, ADueTimerWhoseSiblingRunsIsStillPending) {
  manual_timer timer;
  timer_handle sibling;
  std::optional<timer_status> seen;
  timer.schedule_after(1ms, [&] { seen = sibling.status(); });
  sibling = timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(seen, timer_status::pending);
}

TEST(ManualTimer, ARunningTimerStillHasItsTagAndDeadline) {
  manual_timer timer({.tick = 10ms});
  timer_handle self;
  timer_status status{};
  std::optional<std::uint64_t> tag;
  std::optional<time_point> deadline;
  std::optional<nanoseconds> remaining;
  self = timer.schedule_after(25ms,
                              [&] {
                                status = self.status();
                                tag = self.tag();
                                deadline = self.deadline();
                                remaining = self.remaining();
                              },
                              {.tag = 7});
  timer.advance_by(1s);
  EXPECT_EQ(status, timer_status::running);
  EXPECT_EQ(tag, 7U);
  EXPECT_EQ(deadline, at(25ms));
  EXPECT_EQ(remaining, 0ns);
}

TEST(ManualTimer, AFiredTimerTellsNothingAnyMore) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing, {.tag = 7});
  timer.advance_by(1ms);
  expect_stale(handle);
}

TEST(ManualTimer, ATagIsZeroUnlessGiven) {
  manual_timer timer;
  EXPECT_EQ(timer.schedule_after(1ms, nothing).tag(), 0U);
}

// ---- Callables ----

int answer() { return 42; }

TEST(ManualTimer, RunsAnyCallableThatCanBeMoved) {
  manual_timer timer;
  int runs = 0;
  timer.schedule_after(1ms, [&runs, box = std::make_unique<int>(1)] { runs += *box; });
  timer.schedule_after(1ms, [&runs, count = 0]() mutable { return runs += ++count; });
  timer.schedule_after(1ms, std::function<void()>([&runs] { ++runs; }));
  timer.schedule_after(1ms, &answer);
  timer.schedule_after(1ms, answer);
  EXPECT_EQ(timer.advance_by(1ms), 5U);
  EXPECT_EQ(runs, 3);
}

template <std::size_t Size>
void expect_captures_intact() {
  manual_timer timer;
  live_captures captures;
  std::array<unsigned char, Size> content{};
  content.front() = 17;
  content.back() = 71;
  int sum = 0;
  const auto callback = [&](auto& out) {
    return [&out, content, token = captures.make()] { out += content.front() + content.back(); };
  };
  timer.schedule_after(1ms, callback(sum));
  timer.schedule_after(600ms, callback(sum));
  timer.schedule_after(1h, callback(sum)).cancel();
  EXPECT_EQ(captures.alive(), 2);
  timer.advance_by(1h);
  EXPECT_EQ(sum, 2 * (17 + 71));
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, KeepsCapturesOfAnySizeIntact) {
  expect_captures_intact<2>();
  expect_captures_intact<8>();
  expect_captures_intact<9>();
  expect_captures_intact<100>();
  expect_captures_intact<4096>();
}

TEST(ManualTimer, KeepsCapturesOfAStricterAlignment) {
  struct alignas(64) aligned {
    int value;
  };
  manual_timer timer;
  bool right = false;
  timer.schedule_after(1ms, [&right, a = aligned{7}] {
    right = reinterpret_cast<std::uintptr_t>(&a) % 64 == 0 && a.value == 7;  // NOLINT
  });
  timer.advance_by(1ms);
  EXPECT_TRUE(right);
}

TEST(ManualTimer, StopReturnsBoxedCallables) {
  manual_timer timer;
  int sum = 0;
  std::array<int, 25> content{};
  content.back() = 71;
  timer.schedule_after(1h, [&sum, content] { sum += content.back(); });
  std::vector<pending_task> left = timer.stop();
  left.at(0).callback();
  EXPECT_EQ(sum, 71);
}

TEST(ManualTimer, AReturnedTaskCanBeScheduledElsewhere) {
  manual_timer one;
  manual_timer other;
  int runs = 0;
  one.schedule_after(1h, [&] { ++runs; });
  for (pending_task& left : one.stop()) {
    other.schedule_at(left.deadline, std::move(left.callback), {.tag = left.tag});
  }
  other.advance_by(1h);
  EXPECT_EQ(runs, 1);
}

TEST(ManualTimer, RefusesAnEmptyCallback) {
  manual_timer timer;
  void (*null)() = nullptr;
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, std::function<void()>()); }).code, timer_errc::empty_callback);
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, null); }).code, timer_errc::empty_callback);
  EXPECT_EQ(refusal_of([&] { timer.schedule_at(at(1ms), task()); }).code, timer_errc::empty_callback);
  std::error_code error;
  EXPECT_FALSE(timer.schedule_after(1ms, null, error));
  EXPECT_EQ(error, timer_errc::empty_callback);
}

TEST(ManualTimer, AnEmptyCallbackLeavesTheCountsUnchanged) {
  manual_timer timer;
  std::error_code error;
  timer.schedule_after(1ms, std::function<void()>(), error);
  const timer_stats counts = timer.stats();
  EXPECT_EQ(counts.scheduled, 0U);
  EXPECT_EQ(counts.pending, 0U);
  EXPECT_EQ(counts.rejected, 0U);
}

// Throws when it is copied or moved for the `moves`-th time, counted from 0.
class awkward {
 public:
  awkward(live_captures& captures, int moves) : token_(captures.make()), captures_(&captures), moves_(moves) {}
  awkward(awkward&& other) : token_(other.captures_->make()), captures_(other.captures_), moves_(other.moves_ - 1) {
    if (other.moves_ == 0) {
      throw std::runtime_error("cannot be moved");
    }
  }
  void operator()() const {}

 private:
  live_captures::token token_;
  live_captures* captures_;
  int moves_;
};

TEST(ManualTimer, AMoveThatThrowsSchedulesNothing) {
  for (int moves = 0; moves < 4; ++moves) {
    live_captures captures;
    manual_timer timer({.max_pending = 1});
    bool threw = false;
    try {
      timer.schedule_after(1ms, awkward(captures, moves));
    } catch (const std::runtime_error&) {
      threw = true;
    }
    EXPECT_EQ(timer.stats().scheduled, threw ? 0U : 1U);
    EXPECT_EQ(timer.pending(), threw ? 0U : 1U);
    EXPECT_EQ(captures.alive(), threw ? 0 : 1);
    EXPECT_EQ(timer.advance_by(1ms), threw ? 0U : 1U);
    EXPECT_TRUE(moves > 0 || threw);
  }
}

// ---- Memory ----

TEST(ManualTimer, AllocatesNothingAfterWarmUp) {
  manual_timer timer;
  const auto round = [&] {
    for (int i = 0; i < 1000; ++i) {
      const timer_handle handle = timer.schedule_after(i * 3ms, nothing);
      if (i % 3 == 0) {
        handle.reschedule_after(i * 1ms);
      } else if (i % 3 == 1) {
        handle.cancel();
      }
    }
    timer.advance_by(4s);
  };
  for (int warm_up = 0; warm_up < 10; ++warm_up) {
    round();
  }
  EXPECT_EQ(count_allocations(round), 0U);
}

/// Schedules with memory for `left` allocations. \returns whether it worked; if not, nothing may have changed.
bool schedules_or_changes_nothing(std::uint64_t left, nanoseconds delay) {
  live_captures captures;
  manual_timer timer({.max_pending = 1});
  const auto schedule = [&] { timer.schedule_after(delay, [token = captures.make()] {}); };
  const bool done = succeeds_with(left, schedule);
  EXPECT_EQ(captures.alive(), done ? 1 : 0);
  EXPECT_EQ(timer.pending(), done ? 1U : 0U);
  EXPECT_EQ(timer.stats().scheduled, done ? 1U : 0U);
  if (!done) {
    schedule();
  }
  EXPECT_EQ(timer.advance_by(delay - 1ns), 0U);
  EXPECT_EQ(timer.advance_by(1ns), 1U);
  return done;
}

TEST(ManualTimer, ScheduleWithoutMemoryChangesNothing) {
  for (const nanoseconds delay : std::vector<nanoseconds>{5ms, 700ms, 1h, hundred_years}) {
    std::uint64_t left = 0;
    while (!schedules_or_changes_nothing(left, delay)) {
      ++left;
    }
    EXPECT_GT(left, 0U) << "memory was needed";
  }
}

/// Reschedules with memory for `left` allocations. \returns whether it worked; if not, nothing may have changed.
bool reschedules_or_changes_nothing(std::uint64_t left, nanoseconds delay) {
  manual_timer timer;
  timer.schedule_after(5ms, nothing).cancel();
  const timer_handle handle = timer.schedule_after(5ms, nothing);
  const bool done = succeeds_with(left, [&] { handle.reschedule_after(delay); });
  const nanoseconds expected = done ? delay : 5ms;
  EXPECT_EQ(handle.deadline(), at(expected));
  EXPECT_EQ(timer.pending(), 1U);
  EXPECT_EQ(timer.advance_to(at(expected) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(expected)), 1U);
  return done;
}

TEST(ManualTimer, RescheduleWithoutMemoryChangesNothing) {
  for (const nanoseconds delay : std::vector<nanoseconds>{700ms, 1h, hundred_years}) {
    std::uint64_t left = 0;
    while (!reschedules_or_changes_nothing(left, delay)) {
      ++left;
    }
    EXPECT_GT(left, 0U) << "memory was needed";
  }
}

TEST(ManualTimer, StopWithoutMemoryReturnsTheRestWhenCalledAgain) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  EXPECT_FALSE(succeeds_with(0, [&] { timer.stop(); }));
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stop().size(), 1000U);
}

TEST(ManualTimer, AStepThatFailsForLackOfMemoryLosesNothing) {
  for (std::uint64_t left = 0; left < 30; ++left) {
    int runs = 0;
    manual_timer timer({.wheel_size = 20});
    for (int i = 0; i < 1000; ++i) {
      timer.schedule_after(400ms + (i % 400) * 1ms, [&runs] { ++runs; });
    }
    succeeds_with(left, [&] { timer.advance_by(1s); });
    EXPECT_TRUE(conserved(timer));
    timer.advance_by(1s);
    EXPECT_EQ(runs, 1000);
  }
}

TEST(ManualTimer, TimersCancelledAfterAStepThatFoundNoMemoryLeaveNothingBehind) {
  for (std::uint64_t left = 0; left < 30; ++left) {
    int runs = 0;
    manual_timer timer({.wheel_size = 20});
    std::vector<timer_handle> handles;
    for (int i = 0; i < 1000; ++i) {
      handles.push_back(timer.schedule_after(400ms + (i % 400) * 1ms, [&runs] { ++runs; }));
    }
    succeeds_with(left, [&] { timer.advance_by(400ms); });
    for (const timer_handle& handle : handles) {
      handle.cancel();
      timer.schedule_after(1h, [&runs] { runs += 1'000'000; });
    }
    timer.advance_by(1s);
    EXPECT_LT(runs, 1'000'000);
    EXPECT_EQ(timer.stats().early, 0U);
    EXPECT_EQ(timer.pending(), 1000U);
  }
}

TEST(ManualTimer, ConstructionWithoutMemoryLeavesNothingBehind) {
  const std::size_t before = allocations.live_bytes;
  std::uint64_t left = 0;
  for (bool enough = false; !enough; ++left) {
    enough = succeeds_with(left, [] { const manual_timer timer({.wheel_sizes = {60, 24}, .shards = 2}); });
    EXPECT_EQ(allocations.live_bytes, before) << left;
  }
  EXPECT_GT(left, 10U) << "memory was needed";
}

TEST(ManualTimer, Scenario18_TheDestructorNeedsNoMemory) {
  live_captures captures;
  auto timer = std::make_unique<manual_timer>();
  for (int i = 0; i < 1000; ++i) {
    timer->schedule_after(1h, [token = captures.make()] {});
  }
  EXPECT_TRUE(succeeds_with(0, [&] { timer.reset(); }));
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ManualTimer, TheErrorCodeOverloadsReportThatThereIsNoMemory) {
  manual_timer timer;
  std::error_code error;
  EXPECT_TRUE(succeeds_with(0, [&] { timer.schedule_after(1h, nothing, error); }));
  EXPECT_EQ(error, std::errc::not_enough_memory);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

TEST(ManualTimer, ACallableThatComparesWithAStringIsNotEmpty) {
  struct named {
    named(const char* text) : name(text == nullptr ? "" : text) {}  // NOLINT(google-explicit-constructor)
    bool operator==(const named&) const = default;
    void operator()() const {}
    std::string name;
  };
  manual_timer timer;
  timer.schedule_after(1ms, named(""));
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

// ---- Captured objects that call back ----

/// What such an object does: all that takes a lock.
void use(manual_timer& timer) {
  std::error_code error;
  const timer_handle handle = timer.schedule_after(1h, nothing, error);
  handle.reschedule_after(2h);
  handle.cancel();
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.pending(), timer.stats().pending);
}

TEST(ManualTimer, ACapturedObjectUsesTheServiceWhenItsTimerIsCancelled) {
  manual_timer timer;
  int uses = 0;
  const auto callback = [&] { ++uses, use(timer); };
  const timer_handle handle = timer.schedule_after(1h, [captured = on_destruction(callback)] {});
  handle.cancel();
  EXPECT_EQ(uses, 1);
}

TEST(ManualTimer, ACapturedObjectUsesTheServiceWhenItsTimerHasFired) {
  manual_timer timer;
  int uses = 0;
  const auto callback = [&] { ++uses, use(timer); };
  timer.schedule_after(1ms, [captured = on_destruction(callback)] {});
  timer.advance_by(1ms);
  EXPECT_EQ(uses, 1);
}

TEST(ManualTimer, ACapturedObjectUsesTheServiceWhenItsCallbackThrew) {
  const captured_stderr silence;
  manual_timer timer;
  int uses = 0;
  const auto callback = [&] { ++uses, use(timer); };
  timer.schedule_after(1ms, [captured = on_destruction(callback)] { throw 42; });
  timer.advance_by(1ms);
  EXPECT_EQ(uses, 1);
}

TEST(ManualTimer, ACapturedObjectUsesTheServiceWhenItsTimerIsRefused) {
  manual_timer timer({.max_pending = 0});
  int uses = 0;
  const auto callback = [&] { ++uses, use(timer); };
  EXPECT_THROW(timer.schedule_after(1h, [captured = on_destruction(callback)] {}), timer_error);
  EXPECT_EQ(uses, 1);
}

TEST(ManualTimer, ACapturedObjectUsesTheServiceWhenTheReturnedOnesAreDropped) {
  manual_timer timer;
  int uses = 0;
  const auto callback = [&] { ++uses, use(timer); };
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1h, [captured = on_destruction(callback)] {});
  }
  timer.stop();
  EXPECT_EQ(uses, 1000);
}

TEST(ManualTimer, ACapturedObjectUsesTheHandlesOfADyingService) {
  std::vector<timer_handle> handles;
  int uses = 0;
  {
    manual_timer timer;
    const auto callback = [&] {
      ++uses;
      for (const timer_handle& handle : handles) {
        EXPECT_EQ(handle.cancel(), cancel_result::finished);
      }
    };
    for (int i = 0; i < 10; ++i) {
      handles.push_back(timer.schedule_after(1h, [captured = on_destruction(callback)] {}));
    }
  }
  EXPECT_EQ(uses, 10);
}

TEST(ManualTimer, ACapturedObjectCancelsASiblingThatIsDue) {
  manual_timer timer;
  recorder record(timer);
  timer_handle sibling;
  const auto callback = [&] { EXPECT_EQ(sibling.cancel(), cancel_result::cancelled); };
  timer.schedule_after(1ms, [captured = on_destruction(callback)] {});
  sibling = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_TRUE(record.ran.empty());
}

TEST(ManualTimer, AChainOfCapturedHandlesIsCancelledFromOneEnd) {
  manual_timer timer;
  timer_handle head;
  for (int i = 0; i < 100; ++i) {
    const auto callback = [next = head] { next.cancel(); };
    head = timer.schedule_after(1h, [captured = on_destruction(callback)] {});
  }
  head.cancel();
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().cancelled, 100U);
}

}  // namespace
}  // namespace timing_wheel::test
