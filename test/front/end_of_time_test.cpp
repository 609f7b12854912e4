/// \file
/// Deadlines and clocks near the ends of 64-bit time.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>
#include <vector>

#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::nanoseconds;

TEST(EndOfTime, TheLargestDelaysNeverFireAndCanBeCancelled) {
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

TEST(EndOfTime, AFarDeadlineBeforeTheEndOfTimeFires) {
  manual_timer timer({.tick = 1ns});
  recorder record(timer);
  timer.schedule_at(time_point::max() - 1ns, [&] { record.ran.push_back(1); });
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

TEST(EndOfTime, TheClockReachesTheEndOfTimeAndStaysThere) {
  manual_timer timer({.tick = 1ms});
  timer.advance_to(time_point::max());
  EXPECT_EQ(timer.now(), time_point::max());
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(timer.now(), time_point::max());
}

TEST(EndOfTime, ATimerScheduledAtTheEndOfTimeNeverFires) {
  manual_timer timer({.tick = 1ms});
  timer.advance_to(time_point::max());
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(EndOfTime, CountsFromAnyStartOfTime) {
  for (const unsigned bits : {31U, 32U, 36U, 40U, 53U, 62U}) {
    for (const nanoseconds offset : {-1ns, 0ns, 1ns}) {
      for (const nanoseconds delay : {1ns, 1'000'000ns, 3'600'000'000'001ns}) {
        expect_in_its_tick({.tick = 1ms}, {nanoseconds(std::int64_t{1} << bits) + offset, 777ns, delay});
      }
    }
  }
}

TEST(EndOfTime, CountsInMillisecondsAcrossThePowersOfTwo) {
  for (const unsigned bits : {31U, 32U, 36U, 40U}) {
    const nanoseconds start = std::chrono::milliseconds(std::int64_t{1} << bits) - 1ms;
    for (const nanoseconds delay : {1'000'000ns, 2'000'000ns, 600'000'000ns}) {
      expect_in_its_tick({.tick = 1ms}, {0ns, start, delay});
    }
  }
}

TEST(EndOfTime, FiresInTheLastHourOfTime) {
  const nanoseconds start = nanoseconds::max() - 1h;
  for (const nanoseconds delay : {1ns, 1'000'000ns, 1'800'000'000'000ns, 3'590'000'000'000ns}) {
    expect_in_its_tick({.tick = 1ms}, {start, 333ns, delay});
    expect_in_its_tick({.tick = 1ns, .wheel_size = 2}, {start, 333ns, delay});
  }
}

TEST(EndOfTime, ADelayPastTheEndOfTimeDoesNotWrapAround) {
  manual_timer timer({.tick = 1ms}, starting_at(nanoseconds::max() - 1h));
  const timer_handle handle = timer.schedule_after(2h, nothing);
  EXPECT_EQ(timer.advance_by(59min), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(EndOfTime, CountsFromTheBeginningOfTime) {
  for (const nanoseconds delay : {1ns, 1'000'000ns, nanoseconds(hundred_years)}) {
    expect_in_its_tick({.tick = 1ms}, {nanoseconds::min(), 0ns, delay});
    expect_in_its_tick({.tick = 1ns}, {nanoseconds::min(), 5ns, delay});
  }
}

TEST(EndOfTime, FiresAfterMoreThanHalfOfAllTime) {
  manual_timer timer({.tick = 1ns}, starting_at(nanoseconds::min()));
  timer.schedule_at(time_point::max() - 1ns, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

TEST(EndOfTime, RescheduleToTheEndOfTimeNeverFires) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  EXPECT_TRUE(handle.reschedule_after(hours::max()));
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

}  // namespace
}  // namespace timing_wheel::test
