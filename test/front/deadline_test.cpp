/// \file
/// When a timer is due, and when it runs; also near the ends of 64-bit time.

#include <gmock/gmock.h>
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

// ---- Delays of nothing, and below ----

TEST(Deadline, NeverRunsInsideSchedule) {
  manual_timer timer({.tick = 1ms}, at(10ms));
  recorder record(timer);
  record.after(0ns, 0);
  record.after(-5ms, 1);
  timer.schedule_at(time_point::min(), [&] { record.ran.push_back(2); });
  EXPECT_TRUE(record.ran.empty());
  EXPECT_EQ(timer.pending(), 3U);
}

// ---- Deadlines by clock ----

TEST(Deadline, ASystemDeadlineIsNotEarlyHoweverFarItIsFromTheClock) {
  for (const nanoseconds start : {nanoseconds(-1h), nanoseconds(-hundred_years), nanoseconds::min()}) {
    manual_timer timer({}, at(start));
    const timer_handle handle = timer.schedule_at(std::chrono::sys_time<nanoseconds>::max() - 1ms, nothing);
    EXPECT_EQ(handle.deadline(), time_point::max() - 1ms);
    EXPECT_EQ(timer.advance_to(time_point::max() - 2ms), 0U) << start.count();
  }
}

// ---- Deadlines and clocks near the ends of 64-bit time ----

TEST(EndOfTime, TheLargestDelaysNeverFireAndCanBeCancelled) {
  manual_timer timer({.tick = 1ms}, at(1h));
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
      timer.schedule_at(std::chrono::sys_time<hours>::max(), push),
      timer.schedule_at(std::chrono::time_point<std::chrono::steady_clock, hours>::max(), push)};
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
  EXPECT_EQ(timer.pending(), handles.size());
  for (const timer_handle& handle : handles) {
    EXPECT_EQ(handle.deadline(), time_point::max());
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  }
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(EndOfTime, FiresAfterMoreThanHalfOfAllTime) {
  manual_timer timer({.tick = 1ns}, at(nanoseconds::min()));
  timer.schedule_at(time_point::max() - 1ns, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

}  // namespace
}  // namespace timing_wheel::test
