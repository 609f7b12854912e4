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
  manual_timer timer({.tick = 1ms}, starting_at(10ms));
  recorder record(timer);
  record.after(0ns, 0);
  record.after(-5ms, 1);
  timer.schedule_at(time_point::min(), [&] { record.ran.push_back(2); });
  EXPECT_TRUE(record.ran.empty());
  EXPECT_EQ(timer.pending(), 3U);
}

// ---- Within its tick ----

TEST(Deadline, FiresWithinTheTickAfterTheDeadline) {
  constexpr nanoseconds tick = 1ms;
  for (const nanoseconds start : {0ns, 1ns, 499'999ns, 999'999ns, -1ns, -5'000'001ns}) {
    for (const nanoseconds moved : {0ns, 1ns, 500'000ns, 999'999ns, 1'000'000ns, 7'300'001ns}) {
      for (const nanoseconds delay : {1ns, 2ns, 999'999ns, 1'000'000ns, 1'000'001ns, 1'999'999ns}) {
        expect_in_its_tick({.tick = tick}, {start, moved, delay});
      }
    }
  }
}

// ---- Deadlines by clock ----

TEST(Deadline, ScheduleAtTheLargestSystemDeadlineNeverFires) {
  manual_timer timer;
  timer.schedule_at(std::chrono::sys_time<hours>::max(), nothing);
  EXPECT_EQ(timer.advance_to(time_point::max()), 0U);
}

TEST(Deadline, ASystemDeadlineIsNotEarlyHoweverFarItIsFromTheClock) {
  for (const nanoseconds start : {nanoseconds(-1h), nanoseconds(-hundred_years), nanoseconds::min()}) {
    manual_timer timer({}, starting_at(start));
    const timer_handle handle = timer.schedule_at(std::chrono::sys_time<nanoseconds>::max() - 1ms, nothing);
    EXPECT_EQ(handle.deadline(), time_point::max() - 1ms);
    EXPECT_EQ(timer.advance_to(time_point::max() - 2ms), 0U) << start.count();
  }
}

TEST(Deadline, RoundsFractionsOfANanosecondUp) {
  manual_timer timer({.tick = 1ns});
  timer.schedule_after(std::chrono::duration<double, std::nano>(10.25), nothing);
  timer.schedule_after(std::chrono::duration<int, std::pico>(10'001), nothing);
  EXPECT_EQ(timer.advance_by(10ns), 0U);
  EXPECT_EQ(timer.advance_by(1ns), 2U);
}

// ---- Deadlines and clocks near the ends of 64-bit time ----

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

TEST(EndOfTime, FiresAfterMoreThanHalfOfAllTime) {
  manual_timer timer({.tick = 1ns}, starting_at(nanoseconds::min()));
  timer.schedule_at(time_point::max() - 1ns, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max() - 2ns), 0U);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
}

}  // namespace
}  // namespace timing_wheel::test
