/// \file
/// What is counted.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_random.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::nanoseconds;

// ---- The end ----

TEST(Stats, EveryOutcomeIsCountedOnce) {
  manual_timer timer({.max_pending = 4});
  timer.schedule_after(1ms, nothing);
  timer.schedule_after(1h, nothing).cancel();
  timer.advance_by(1ms);
  for (int i = 0; i < 5; ++i) {
    std::error_code error;
    timer.schedule_after(1h, nothing, {}, error);
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

// ---- Counts ----

TEST(Stats, CountsAgreeInsideCallbacks) {
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

TEST(Stats, ATimerIsNoLongerPendingOnceItsCallbackHasBegun) {
  manual_timer timer;
  std::size_t seen = 99;
  timer.schedule_after(1ms, [&] { seen = timer.pending(); });
  timer.advance_by(1ms);
  EXPECT_EQ(seen, 0U);
}

TEST(Stats, TheCountDoesNotDipDuringACascade) {
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

TEST(Stats, HoldsTheLockForFewTimersHoweverManyAreDue) {
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

TEST(Stats, HoldsTheLockForFewTimersHoweverManyWereDueWhenTheyCame) {
  manual_timer timer({}, starting_at(1h));
  for (int i = 0; i < 10'000; ++i) {
    timer.schedule_after(-1ms, nothing);
  }
  EXPECT_EQ(timer.advance_by(0ms), 10'000U);
  EXPECT_GT(timer.stats().largest_hold, 0U);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

TEST(Stats, TheLargestHoldCountsStopToo) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  timer.stop();
  EXPECT_GT(timer.stats().largest_hold, 0U);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

TEST(Stats, LatenessIsCountedFromTheDeadline) {
  manual_timer timer({.tick = 10ms});
  timer.schedule_after(25ms, nothing);
  timer.schedule_after(30ms, nothing);
  timer.advance_by(1h);
  const timer_stats counts = timer.stats();
  EXPECT_EQ(counts.lateness.count(), 2U);
  EXPECT_EQ(counts.lateness.max(), 5ms);
  EXPECT_EQ(counts.early, 0U);
}

TEST(Stats, LatenessOfADelayBelowZeroCountsFromItsDeadline) {
  manual_timer timer({.tick = 1ms}, starting_at(1h));
  timer.schedule_at(at(1h - 5ms), nothing);
  timer.advance_to(at(1h));
  EXPECT_EQ(timer.stats().lateness.max(), 5ms);
}

TEST(Stats, LatenessOfTheSmallestDeadlineDoesNotOverflow) {
  manual_timer timer({}, starting_at(1h));
  timer.schedule_at(time_point::min(), nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stats().lateness.max(), nanoseconds::max());
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(Stats, LevelsAreThoseOfTheWheelSizes) {
  manual_timer timer({.tick = 1s, .wheel_sizes = {60, 60, 24}});
  timer.schedule_after(hours(23), nothing);
  const timer_stats counts = timer.stats();
  ASSERT_EQ(counts.levels.size(), 3U);
  EXPECT_EQ(counts.levels[0].tick_length, 1U);
  EXPECT_EQ(counts.levels[1].tick_length, 60U);
  EXPECT_EQ(counts.levels[2].tick_length, 3600U);
  EXPECT_EQ(counts.levels[2].interval, 86400U);
}

}  // namespace
}  // namespace timing_wheel::test
