/// \file
/// Periodic timers: the handle, and what ends them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_periodic.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

// ---- Its handle ----

TEST(PeriodicHandle, TheHandleStaysTheSameOverAllRuns) {
  manual_timer timer;
  std::vector<timer_handle> seen;
  const timer_handle handle = timer.schedule_every(10ms, [&](const timer_handle& self) { seen.push_back(self); },
                                                   {.policy = fixed_delay, .tag = 17});
  for (int run = 1; run <= 5; ++run) {
    EXPECT_EQ(handle.status(), timer_status::pending);
    EXPECT_EQ(handle.deadline(), at(run * 10ms));
    EXPECT_EQ(handle.remaining(), 10ms);
    EXPECT_EQ(handle.tag(), 17U);
    timer.advance_by(10ms);
  }
  EXPECT_THAT(seen, AllOf(SizeIs(5), Each(handle)));
}

TEST(PeriodicHandle, IsRunningInItsCallback) {
  manual_timer timer;
  timer_handle handle;
  int runs = 0;
  handle = timer.schedule_every(10ms, [&] {
    ++runs;
    EXPECT_EQ(handle.status(), timer_status::running);
    EXPECT_EQ(handle.deadline(), at(runs * 10ms));
    EXPECT_FALSE(handle.reschedule_after(1ms));
  });
  timer.advance_by(35ms);
  EXPECT_EQ(runs, 3);
}

TEST(PeriodicHandle, AHandleOfOneThatEndedDoesNothingToTheNextInItsPlace) {
  manual_timer timer;
  const timer_handle stale = timer.schedule_every(10ms, nothing);
  timer.advance_by(35ms);
  stale.cancel();
  const timer_handle live = timer.schedule_every(10ms, nothing);
  EXPECT_EQ(stale.cancel(), cancel_result::finished);
  EXPECT_FALSE(stale.reschedule_after(1h));
  EXPECT_EQ(live.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(10ms), 1U);
}

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

TEST(PeriodicEnd, InALaterRunEndsIt) {
  manual_timer timer;
  int runs = 0;
  timer.schedule_every(1ms, [&](const timer_handle& self) {
    if (++runs == 5) {
      self.cancel();
    }
  });
  EXPECT_EQ(timer.advance_by(1h), 5U);
}

TEST(PeriodicEnd, InItsOwnCallbackKeepsTheCapturesUntilTheRunEnds) {
  live_captures captures;
  manual_timer timer;
  std::int64_t alive_after_cancel = 0;
  timer.schedule_every(10ms, [&, token = captures.make()](const timer_handle& self) {
    self.cancel();
    alive_after_cancel = captures.alive();
  });
  timer.advance_by(10ms);
  EXPECT_EQ(alive_after_cancel, 1);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
}

TEST(PeriodicEnd, WhileAnotherThreadRunsItSaysRunningAndEndsIt) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::latch over(1);
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

TEST(PeriodicEnd, BetweenRunsDestroysTheCapturesAtOnce) {
  live_captures captures;
  manual_timer timer;
  const timer_handle handle = timer.schedule_every(10ms, [token = captures.make()] {});
  timer.advance_by(25ms);
  EXPECT_EQ(captures.alive(), 1);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(timer.stats().cancelled, 1U);
}

TEST(PeriodicEnd, ASiblingThatIsDueInTheSameTickCancelsIt) {
  live_captures captures;
  manual_timer timer;
  timer_handle victim;
  cancel_result answer{};
  std::int64_t alive = -1;
  timer.schedule_after(10ms, [&] { answer = victim.cancel(), alive = captures.alive(); });
  victim = timer.schedule_every(10ms, [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::cancelled);
  EXPECT_EQ(alive, 0);
}

TEST(PeriodicEnd, OfTwoThatCancelEachOtherOneGoesOn) {
  manual_timer timer;
  timer_handle first;
  timer_handle second;
  first = timer.schedule_every(10ms, [&] { second.cancel(); });
  second = timer.schedule_every(10ms, [&] { first.cancel(); });
  EXPECT_EQ(timer.advance_by(100ms), 10U);
  EXPECT_EQ(timer.pending(), 1U);
}

TEST(PeriodicEnd, CancelledAfterItWasHandedOverItNeverRuns) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_every(10ms, [token = captures.make()] {});
  timer.advance_by(10ms);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(captures.alive(), 0);
  tasks.run();
  EXPECT_EQ(timer.stats().fired, 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(PeriodicEnd, ACallbackMayDropItsOwnHandle) {
  live_captures captures;
  manual_timer timer;
  auto handle = std::make_unique<timer_handle>();
  *handle = timer.schedule_every(10ms, [&, token = captures.make()] { handle.reset(); });
  EXPECT_EQ(timer.advance_by(30ms), 3U);
  EXPECT_EQ(captures.alive(), 1);
}

// ---- Reschedule ----

TEST(PeriodicHandle, RescheduleMovesOnlyTheNextRunOfAFixedDelay) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing(), {.policy = fixed_delay});
  timer.advance_by(10ms);
  EXPECT_TRUE(handle.reschedule(at(27ms)));
  timer.advance_to(at(50ms));
  EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
}

TEST(PeriodicHandle, RescheduleMovesOnlyTheNextRunOfACatchUp) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing(), {.policy = fixed_rate_catch_up});
  timer.advance_by(10ms);
  EXPECT_TRUE(handle.reschedule(at(27ms)));
  timer.advance_to(at(50ms));
  // "One period after the deadline before", which the reschedule has moved.
  EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
}

TEST(PeriodicHandle, AfterARescheduleASkipGoesOnAtTheMultiplesOfThePeriodFromThereOn) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing(), {.policy = fixed_rate_skip});
  timer.advance_by(10ms);
  EXPECT_TRUE(handle.reschedule(at(27ms)));
  timer.advance_to(at(50ms));
  EXPECT_THAT(log.times, ElementsAre(10ms, 27ms, 37ms, 47ms));
}

TEST(PeriodicHandle, RescheduleToThePastRunsItAtTheNextStep) {
  manual_timer timer;
  run_log log(timer);
  const timer_handle handle = timer.schedule_every(10ms, log.writing());
  timer.advance_by(12ms);
  EXPECT_TRUE(handle.reschedule(at(1ms)));
  EXPECT_THAT(log.times, SizeIs(1));
  timer.advance_to(at(25ms));
  EXPECT_THAT(log.times, ElementsAre(10ms, testing::Le(13ms), testing::Le(23ms)));
}

TEST(PeriodicHandle, ATouchKeepsItFromRunning) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_every(10ms, nothing);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(timer.advance_by(9ms), 0U);
    EXPECT_TRUE(handle.reschedule_after(10ms));
  }
  EXPECT_EQ(timer.stats().scheduled, 1U);
  EXPECT_EQ(timer.advance_by(10ms), 1U);
}

// ---- Stop ----

TEST(PeriodicEnd, StopDuringARunDoesNotArmItAgain) {
  for (const period_policy policy : every_policy) {
    live_captures captures;
    manual_timer timer;
    std::size_t returned = 99;
    timer.schedule_every(10ms, [&, token = captures.make()] { returned = timer.stop().size(); }, {.policy = policy});
    EXPECT_EQ(timer.advance_by(1h), 1U);
    EXPECT_EQ(returned, 0U);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.pending(), 0U);
    EXPECT_TRUE(conserved(timer));
  }
}

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

TEST(PeriodicEnd, TheDestructorDropsIt) {
  live_captures captures;
  {
    manual_timer timer;
    timer.schedule_every(10ms, [token = captures.make()] {});
    timer.advance_by(35ms);
    EXPECT_EQ(captures.alive(), 1);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
}

}  // namespace
}  // namespace timing_wheel::test
