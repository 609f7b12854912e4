/// \file
/// A timer that is moved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include "support/allocation.hpp"
#include "support/service_record.hpp"
#include "support/service_scale.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// ---- reschedule ----

TEST(Reschedule, EarlierFiresEarlierAndOnce) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle handle = record.after(1h, 1);
  EXPECT_TRUE(handle.reschedule(at(5ms)));
  EXPECT_EQ(handle.deadline(), at(5ms));
  EXPECT_EQ(timer.advance_to(at(5ms) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(5ms)), 1U);
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TEST(Reschedule, LaterFiresLaterAndOnce) {
  manual_timer timer;
  recorder record(timer);
  const timer_handle handle = record.after(5ms, 1);
  EXPECT_TRUE(handle.reschedule_after(1h));
  EXPECT_EQ(handle.deadline(), at(1h));
  EXPECT_EQ(timer.advance_to(at(1h) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(1h)), 1U);
}

TEST(Reschedule, ToTheSameDeadlineChangesNothing) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(5ms, nothing);
  EXPECT_TRUE(handle.reschedule(at(5ms)));
  EXPECT_EQ(timer.advance_by(5ms), 1U);
}

TEST(Reschedule, AfterTheRunOrACancelReturnsFalse) {
  manual_timer timer;
  const timer_handle fired = timer.schedule_after(1ms, nothing);
  const timer_handle cancelled = timer.schedule_after(1h, nothing);
  timer.advance_by(1ms);
  cancelled.cancel();
  EXPECT_FALSE(fired.reschedule_after(1ms));
  EXPECT_FALSE(cancelled.reschedule_after(1ms));
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TEST(Reschedule, InsideTheOwnCallbackReturnsFalse) {
  manual_timer timer;
  bool moved = true;
  timer_handle self;
  self = timer.schedule_after(1ms, [&] { moved = self.reschedule_after(1ms); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_FALSE(moved);
}

TEST(Reschedule, ToThePastRunsAtTheNextStepAndNotInline) {
  manual_timer timer({}, starting_at(1h));
  recorder record(timer);
  const timer_handle handle = record.after(1h, 1);
  EXPECT_TRUE(handle.reschedule(at(1min)));
  EXPECT_TRUE(record.ran.empty());
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TEST(Reschedule, OfADueTimerMovesItAway) {
  manual_timer timer({}, starting_at(1h));
  recorder record(timer);
  const timer_handle handle = record.after(-1ms, 1);
  EXPECT_TRUE(handle.reschedule_after(1h));
  EXPECT_EQ(timer.advance_by(1h - 1ns), 0U);
  EXPECT_EQ(timer.advance_by(1ns), 1U);
}

// The first of so many due timers moves the last one to later.
void expect_a_sibling_moves(int timers) {
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

TEST(Reschedule, ASiblingMovesADueTimerToLater) { expect_a_sibling_moves(2); }

// More than the driver takes up at once.
TEST(Reschedule, TheFirstOfManyDueTimersMovesTheLastToLater) { expect_a_sibling_moves(100); }

TEST(Reschedule, ASiblingThatMovesADueTimerToThePastRunsItOnce) {
  manual_timer timer;
  recorder record(timer);
  timer_handle sibling;
  timer.schedule_after(1ms, [&] { EXPECT_TRUE(sibling.reschedule(at(0ms))); });
  sibling = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_THAT(record.ran, ElementsAre(1));
}

TEST(Reschedule, ADueTimerMovedByEverySiblingRunsOnce) {
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

TEST(Reschedule, CancelAfterARescheduleFromASiblingHolds) {
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

TEST(Reschedule, IsNoNewTimerInTheCounts) {
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

TEST(Reschedule, AMillionTouchesDoNotGrowTheMemory) {
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

// ---- reschedule ----

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
