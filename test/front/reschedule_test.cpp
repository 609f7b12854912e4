/// \file
/// A timer that is moved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <system_error>

#include "support/allocation.hpp"
#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

TEST(Reschedule, TheFirstOfManyDueTimersMovesTheLastToLater) {
  for (const int timers : {2, 100}) {  // the driver takes up fewer than a hundred at once
    manual_timer timer;
    recorder record(timer);
    timer_handle last;
    bool moved = false;
    timer.schedule_after(1ms, [&] { moved = last.reschedule_after(1h); });
    for (int i = 1; i < timers; ++i) {
      last = record.after(1ms, i);
    }
    EXPECT_EQ(timer.advance_by(1h), static_cast<std::size_t>(timers) - 1);
    EXPECT_TRUE(moved);
    EXPECT_EQ(last.status(), timer_status::pending);
    EXPECT_EQ(timer.advance_by(1ms), 1U);
  }
}

TEST(Reschedule, TakesDeadlinesOfTheWallClock) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1h, nothing);
  EXPECT_TRUE(handle.reschedule(std::chrono::system_clock::time_point(2h)));
  EXPECT_EQ(handle.deadline(), at(2h));
}

TEST(Reschedule, ByErrorCodeReportsWantOfMemoryAndMovesNothing) {
  manual_timer timer({.wheel_size = 2});
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  std::error_code error = std::make_error_code(std::errc::interrupted);
  {
    const scarce_memory limit(0);
    EXPECT_FALSE(handle.reschedule_after(100h, error));
  }
  EXPECT_EQ(error, std::errc::not_enough_memory);
  EXPECT_EQ(handle.deadline(), at(1ms));
  EXPECT_TRUE(handle.reschedule(at(100h), error));
  EXPECT_FALSE(error);
  handle.cancel();
  EXPECT_FALSE(handle.reschedule(at(1h), error));
  EXPECT_FALSE(error) << "not pending is an answer, no error";
}

}  // namespace
}  // namespace timing_wheel::test
