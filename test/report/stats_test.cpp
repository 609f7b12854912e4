/// \file
/// What is counted.

#include <gtest/gtest.h>

#include <chrono>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- Counts ----

TEST(Stats, HoldsTheLockForFewTimersHoweverManyWereDueWhenTheyCame) {
  manual_timer timer({}, at(1h));
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

TEST(Stats, LatenessOfTheSmallestDeadlineDoesNotOverflow) {
  manual_timer timer({}, at(1h));
  timer.schedule_at(time_point::min(), nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stats().lateness.max(), nanoseconds::max());
  EXPECT_EQ(timer.stats().early, 0U);
}

}  // namespace
}  // namespace timing_wheel::test
