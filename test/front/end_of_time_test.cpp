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

TEST(EndOfTime, ADelayPastTheEndOfTimeDoesNotWrapAround) {
  manual_timer timer({.tick = 1ms}, starting_at(nanoseconds::max() - 1h));
  const timer_handle handle = timer.schedule_after(2h, nothing);
  EXPECT_EQ(timer.advance_by(59min), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(EndOfTime, FiresAfterMoreThanHalfOfAllTime) {
  manual_timer timer({.tick = 1ns}, starting_at(nanoseconds::min()));
  timer.schedule_at(time_point::max() - 1ns, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

}  // namespace
}  // namespace timing_wheel::test
