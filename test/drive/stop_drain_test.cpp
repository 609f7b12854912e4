/// \file
/// `stop_drain(until)`: it runs what is due by then, and returns the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
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
