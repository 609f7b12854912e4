/// \file
/// Periodic timers: the handle, and what ends them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "support/meeting.hpp"
#include "support/service_captures.hpp"
#include "support/service_periodic.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::SizeIs;

// ---- Cancel ----

TEST(PeriodicEnd, InItsOwnCallbackEndsIt) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    std::vector<cancel_result> answers;
    const timer_handle handle = timer.schedule_every(10ms,
                                                     [&](const timer_handle& self) {
                                                       answers = {self.cancel(), self.cancel()};
                                                     },
                                                     {.policy = policy});
    EXPECT_EQ(timer.advance_by(1h), 1U);
    EXPECT_THAT(answers, ElementsAre(cancel_result::running, cancel_result::running));
    EXPECT_EQ(handle.cancel(), cancel_result::finished);
    EXPECT_EQ(timer.stats().cancelled, 0U);
    EXPECT_EQ(timer.pending(), 0U);
  }
}

TEST(PeriodicEnd, AndWaitInItsOwnCallbackEndsIt) {
  manual_timer timer;
  cancel_result answer{};
  timer.schedule_every(10ms, [&](const timer_handle& self) { answer = self.cancel_and_wait(); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::running);
}

TEST(PeriodicEnd, WhileAnotherThreadRunsItSaysRunningAndEndsIt) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  latch begun(1);
  latch over(1);
  const timer_handle handle = timer.schedule_every(10ms, [&, token = captures.make()] {
    begun.count_down();
    over.wait();
  });
  timer.advance_by(10ms);
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  EXPECT_EQ(handle.cancel(), cancel_result::running);
  over.count_down();
  thread.join();
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

// ---- Reschedule ----

// "One period after the deadline before", and "the multiples of the period": both from where the reschedule has moved
// it.
TEST(PeriodicHandle, RescheduleMovesOnlyTheNextRunAndTheGridWithIt) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    run_log log(timer);
    const timer_handle handle = timer.schedule_every(10ms, log.writing(), {.policy = policy});
    timer.advance_by(10ms);
    EXPECT_TRUE(handle.reschedule(at(27ms)));
    timer.advance_to(at(50ms));
    EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
  }
}

// ---- Stop ----

TEST(PeriodicEnd, StopReturnsItsCallableWhichCanBeCalled) {
  live_captures captures;
  manual_timer timer;
  int runs = 0;
  timer.schedule_every(10ms, [&, token = captures.make()] { ++runs; }, {.policy = fixed_rate_skip, .tag = 17});
  timer.advance_by(25ms);
  std::vector<pending_task> left = timer.stop();
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].deadline, at(30ms));
  EXPECT_EQ(left[0].tag, 17U);
  left[0].callback();
  left[0].callback();
  EXPECT_EQ(runs, 4);
  left.clear();
  EXPECT_EQ(captures.alive(), 0);
}

TEST(PeriodicEnd, AReturnedCallableThatTakesItsHandleGetsAnEmptyOne) {
  manual_timer timer;
  std::vector<bool> known;
  timer.schedule_every(10ms, [&](const timer_handle& self) { known.push_back(static_cast<bool>(self)); });
  timer.advance_by(10ms);
  for (pending_task& left : timer.stop()) {
    left.callback();
  }
  EXPECT_THAT(known, ElementsAre(true, false));
}

TEST(PeriodicEnd, AReturnedCallableScheduledElsewhereRunsOnce) {
  int runs = 0;
  manual_timer first;
  first.schedule_every(10ms, [&] { ++runs; });
  std::vector<pending_task> left = first.stop();
  manual_timer second;
  second.schedule_after(1ms, std::move(left.at(0).callback));  // "Runs `callback` once"
  EXPECT_EQ(second.advance_by(1s), 1U);
  EXPECT_EQ(runs, 1);
}

TEST(PeriodicEnd, AReturnedCallableScheduledEveryPeriodElsewhereKeepsThatPeriod) {
  manual_timer first;
  first.schedule_every(10ms, nothing);
  std::vector<pending_task> left = first.stop();
  manual_timer second;
  second.schedule_every(100ms, std::move(left.at(0).callback));
  EXPECT_EQ(second.advance_by(1s), 10U);
}

}  // namespace
}  // namespace timing_wheel::test
