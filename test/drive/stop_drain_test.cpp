/// \file
/// `stop_drain(until)`: it runs what is due by then, and returns the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_stop.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

TEST(StopDrain, RunsWhatIsDueBeforeAndReturnsTheRest) {
  manual_timer timer;
  std::vector<nanoseconds> ran;
  for (const int delay : {1, 50, 99, 101, 500}) {
    timer.schedule_after(delay * 1ms, [&] { ran.push_back(timer.now().time_since_epoch()); },
                         {.tag = static_cast<std::uint64_t>(delay)});
  }
  const std::vector<pending_task> left = timer.stop_drain(at(100ms));
  EXPECT_THAT(ran, ElementsAre(1ms, 50ms, 99ms));
  ASSERT_THAT(left, SizeIs(2));
  EXPECT_EQ(left[0].tag + left[1].tag, 601U);
  EXPECT_EQ(std::min(left[0].deadline, left[1].deadline), at(101ms));
  EXPECT_EQ(timer.now(), at(100ms));
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopDrain, ReturnsCallablesThatCanBeCalled) {
  manual_timer timer;
  int runs = 0;
  timer.schedule_after(1h, [&] { ++runs; });
  timer.schedule_every(1h, [&] { ++runs; });
  for (pending_task& left : timer.stop_drain(at(1ms))) {
    left.callback();
  }
  EXPECT_EQ(runs, 2);
}

TEST(StopDrain, EndsWhenNothingIsLeft) {
  manual_timer timer;
  timer.schedule_after(5ms, nothing);
  EXPECT_THAT(timer.stop_drain(at(1h)), IsEmpty());
  EXPECT_THAT(timer.now(), AllOf(Ge(at(5ms)), Le(at(1h))));
  EXPECT_EQ(timer.stats().fired, 1U);
}

TEST(StopDrain, DoesNotArmPeriodicTimersAgain) {
  for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
    live_captures captures;
    manual_timer timer;
    int runs = 0;
    timer.schedule_every(10ms, [&runs, token = captures.make()] { ++runs; }, {.policy = policy});
    EXPECT_THAT(timer.stop_drain(at(1s)), IsEmpty());
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.stats().rearmed, 0U);
  }
}

TEST(StopDrain, ToTheEndOfTimeRunsAllButWhatNeverFires) {
  manual_timer timer;
  int runs = 0;
  for (const nanoseconds delay : {nanoseconds(1ms), nanoseconds(1h), nanoseconds(876600h)}) {
    timer.schedule_after(delay, [&] { ++runs; });
  }
  timer.schedule_at(time_point::max(), [&] { ++runs; }, {.tag = 9});
  const std::vector<pending_task> left = timer.stop_drain(time_point::max());
  EXPECT_EQ(runs, 3);
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].tag, 9U);
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopDrain, UntilAPastTimeRunsNothingOfTheFutureAndLeavesTheClock) {
  for (const time_point until : {time_point::min(), at(1min), at(1h)}) {
    manual_timer timer({}, starting_at(1h));
    ends once(3);
    timer.schedule_after(1ms, once.running(0), {.tag = 0});
    timer.schedule_after(1h, once.running(1), {.tag = 1});
    timer.schedule_after(-1ms, once.running(2), {.tag = 2});
    const std::vector<pending_task> left = timer.stop_drain(until);
    EXPECT_EQ(once.counts()[0] + once.counts()[1], 0);
    once.add(left);
    EXPECT_THAT(once.counts(), Each(1));
    EXPECT_EQ(timer.now(), at(1h));
    EXPECT_TRUE(timer.stopped());
  }
}

TEST(StopDrain, ATimerDueExactlyThenRunsOrIsReturned) {
  manual_timer timer;
  ends once(1);
  timer.schedule_after(10ms, once.running(0), {.tag = 0});
  once.add(timer.stop_drain(at(10ms)));
  EXPECT_THAT(once.counts(), ElementsAre(1));
}

TEST(StopDrain, RefusesWhatItsCallbacksSchedule) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  timer.schedule_after(1ms, [&] {
    codes.push_back(refusal_of([&] { timer.schedule_after(0ms, nothing); }).code);
    codes.push_back(refusal_of([&] { timer.schedule_every(1ms, nothing); }).code);
  });
  timer.schedule_after(1h, nothing);
  timer.stop_drain(at(10ms));
  EXPECT_THAT(codes, AllOf(SizeIs(2), Each(std::error_code(timer_errc::stopped))));
}

TEST(StopDrain, LetsItsCallbacksCancelAndReschedule) {
  manual_timer timer;
  ends once(4);
  std::vector<timer_handle> handles;
  timer.schedule_after(1ms,
                       [&] {
                         once.add(0U);
                         EXPECT_EQ(handles[0].cancel(), cancel_result::cancelled);
                         once.add(1U);
                         EXPECT_TRUE(handles[1].reschedule(at(1h)));
                         EXPECT_TRUE(handles[2].reschedule(at(5ms)));
                       },
                       {.tag = 0});
  handles = {timer.schedule_after(2ms, once.running(1), {.tag = 1}),
             timer.schedule_after(2ms, once.running(2), {.tag = 2}),
             timer.schedule_after(1h, once.running(3), {.tag = 3})};
  const std::vector<pending_task> left = timer.stop_drain(at(10ms));
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].tag, 2U);
  once.add(left);
  EXPECT_THAT(once.counts(), Each(1));
}

TEST(StopDrain, GoesOnAfterACallbackThatThrows) {
  manual_timer timer({.on_error = ignore});
  int runs = 0;
  timer.schedule_after(1ms, [] { throw std::runtime_error("asked for"); });
  timer.schedule_after(2ms, [&] { ++runs; });
  EXPECT_THAT(timer.stop_drain(at(10ms)), IsEmpty());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().failed, 1U);
}

/// A callback of a drain stops again in another way; each timer must have one outcome.
void expect_each_once_when_stopped_during_a_drain(how way) {
  manual_timer timer;
  ends once(100);
  for (std::size_t i = 0; i < once.size(); ++i) {
    timer.schedule_after(static_cast<int>(i / 5) * 1ms,
                         [&, i] {
                           once.add(i);
                           i % 10 == 3 ? once.add(stop_by(timer, way)) : void();
                         },
                         {.tag = i});
  }
  once.add(timer.stop_drain(at(10ms)));
  EXPECT_THAT(once.counts(), Each(1)) << "way " << static_cast<int>(way);
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(StopDrain, LetsItsCallbacksStopAgain) {
  for (const how way : every_how) {
    expect_each_once_when_stopped_during_a_drain(way);
  }
}

TEST(StopDrain, FromACallbackDoesNotThrow) {
  manual_timer timer;
  ends once(5);
  for (std::size_t i = 1; i < once.size(); ++i) {
    timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
  }
  bool threw = false;
  timer.schedule_after(1ms, [&] {
    once.add(0U);
    try {
      once.add(timer.stop_drain(at(3ms)));
    } catch (const std::exception&) {
      threw = true;
    }
  });
  timer.advance_by(1h);
  EXPECT_FALSE(threw);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_TRUE(timer.stopped());
}

TEST(StopDrain, WithoutMemoryLosesNothing) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 200; ++left) {
    manual_timer timer({.wheel_size = 4});
    ends once(500);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
    }
    enough = succeeds_with(left, [&] { once.add(timer.stop_drain(at(250ms))); });
    EXPECT_TRUE(conserved(timer));
    once.add(timer.stop());
    EXPECT_THAT(once.counts(), Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

}  // namespace
}  // namespace timing_wheel::test
