/// \file
/// Handles: what they tell, and what they outlive.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// ---- Handles that are stale ----

void expect_stale(const timer_handle& handle) {
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.deadline(), std::nullopt);
  EXPECT_EQ(handle.remaining(), std::nullopt);
  EXPECT_EQ(handle.tag(), std::nullopt);
  EXPECT_FALSE(handle.reschedule(time_point(1ns)));
  EXPECT_FALSE(handle.reschedule_after(1ns));
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TEST(TimerHandle, AStaleHandleDoesNothingToTheTimerInTheSamePlace) {
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

TEST(TimerHandle, OutlivesTheService) {
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

TEST(TimerHandle, AReturnedTaskOutlivesTheService) {
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

// ---- What a handle tells ----

TEST(TimerHandle, TellsTagDeadlineAndTimeLeft) {
  manual_timer timer({.tick = 10ms});
  const timer_handle handle = timer.schedule_after(25ms, nothing, {.tag = std::numeric_limits<std::uint64_t>::max()});
  timer.advance_by(5ms);
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(handle.tag(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(handle.deadline(), at(25ms)) << "as asked for, not rounded";
  EXPECT_EQ(handle.remaining(), 20ms);
}

static_assert(sizeof(timer_handle) <= 16);
static_assert(std::is_nothrow_default_constructible_v<timer_handle>);
static_assert(std::is_nothrow_copy_constructible_v<timer_handle>);
static_assert(std::is_nothrow_move_constructible_v<timer_handle>);
static_assert(std::is_nothrow_swappable_v<timer_handle>);
static_assert(!std::is_convertible_v<timer_handle, bool>);

std::string printed(const timer_handle& handle) {
  std::ostringstream out;
  out << handle;
  return out.str();
}

TEST(TimerHandle, DefaultOneAnswersAsThatOfAFinishedTimer) {
  const timer_handle handle;
  EXPECT_FALSE(handle);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_FALSE(handle.reschedule(time_point(1s)));
  EXPECT_FALSE(handle.reschedule_after(1s));
  EXPECT_EQ(handle.deadline(), std::nullopt);
  EXPECT_EQ(handle.remaining(), std::nullopt);
  EXPECT_EQ(handle.tag(), std::nullopt);
}

TEST(TimerHandle, CopyRefersToTheSameTimer) {
  manual_timer timer;
  const timer_handle original = timer.schedule_after(1s, nothing, {.tag = 7});
  const timer_handle copy = original;
  EXPECT_EQ(copy, original);
  EXPECT_EQ(copy.tag(), 7U);
  EXPECT_EQ(copy.cancel(), cancel_result::cancelled);
  EXPECT_EQ(original.status(), timer_status::finished);
}

TEST(TimerHandle, MovedFromOneRefersToNoTimer) {
  manual_timer timer;
  timer_handle original = timer.schedule_after(1s, nothing);
  const timer_handle moved = std::move(original);
  EXPECT_FALSE(original);  // NOLINT(bugprone-use-after-move): defined
  EXPECT_EQ(original, timer_handle());
  EXPECT_EQ(original.cancel(), cancel_result::finished);
  EXPECT_EQ(moved.status(), timer_status::pending);
}

TEST(TimerHandle, AssignmentForgetsTheOldTimerAndDoesNotCancelIt) {
  manual_timer timer;
  int runs = 0;
  timer_handle handle = timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 1});
  handle = timer.schedule_after(1h, nothing, {.tag = 2});
  EXPECT_EQ(handle.tag(), 2U);
  timer.advance_by(1ms);
  EXPECT_EQ(runs, 1);
}

TEST(TimerHandle, SurvivesAssignmentToItself) {
  manual_timer timer;
  timer_handle handle = timer.schedule_after(1s, nothing, {.tag = 7});
  timer_handle& same = handle;
  handle = same;
  EXPECT_EQ(handle.tag(), 7U);
  handle = std::move(same);
  EXPECT_EQ(handle.tag(), 7U);
}

TEST(TimerHandle, SwapExchangesTheTimers) {
  manual_timer timer;
  timer_handle first = timer.schedule_after(1s, nothing, {.tag = 1});
  timer_handle second = timer.schedule_after(1s, nothing, {.tag = 2});
  std::swap(first, second);
  EXPECT_EQ(first.tag(), 2U);
  EXPECT_EQ(second.tag(), 1U);
}

TEST(TimerHandle, OnesOfDifferentTimersDiffer) {
  manual_timer timer;
  manual_timer other;
  const timer_handle old = timer.schedule_after(1s, nothing);
  EXPECT_NE(timer.schedule_after(1s, nothing), old);
  EXPECT_NE(other.schedule_after(1s, nothing), old);
  EXPECT_NE(timer_handle(), old);
  old.cancel();
  EXPECT_NE(timer.schedule_after(1s, nothing), old) << "in the same memory";
}

TEST(TimerHandle, DroppingEveryCopyDoesNotCancel) {
  manual_timer timer;
  int runs = 0;
  {
    const timer_handle handle = timer.schedule_after(1ms, [&] { ++runs; });
    const std::vector<timer_handle> copies(100, handle);
  }
  timer.advance_by(1ms);
  EXPECT_EQ(runs, 1);
}

TEST(TimerHandle, PrintsStatusAndTimeLeft) {
  manual_timer timer;
  std::string seen;
  timer_handle handle;
  handle = timer.schedule_after(1500ms, [&] { seen = printed(handle); });
  EXPECT_THAT(printed(handle), AllOf(HasSubstr("pending"), HasSubstr("1500 ms")));
  timer.advance_by(1500ms);
  EXPECT_THAT(seen, HasSubstr("running"));
  EXPECT_THAT(printed(handle), HasSubstr("finished"));
  EXPECT_THAT(printed(timer.schedule_at(time_point::max(), nothing)), HasSubstr("pending"));
  EXPECT_FALSE(printed(timer_handle()).empty());
}

TEST(CancelResult, PrintsItsName) {
  std::ostringstream out;
  out << cancel_result::cancelled << ' ' << cancel_result::running << ' ' << cancel_result::finished;
  EXPECT_EQ(out.str(), "cancelled running finished");
  EXPECT_STREQ(to_string(cancel_result::running), "running");
}

TEST(TimerStatus, PrintsItsName) {
  std::ostringstream out;
  out << timer_status::pending << ' ' << timer_status::running << ' ' << timer_status::finished;
  EXPECT_EQ(out.str(), "pending running finished");
  EXPECT_STREQ(to_string(timer_status::pending), "pending");
}

}  // namespace
}  // namespace timing_wheel::test
