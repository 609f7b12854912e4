/// \file
/// The service in virtual time: the clock, and the order of what it runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- An idle hour ----

TEST(ManualTimer, AnIdleHourDoesNotPushAShortTimerUp) {
  manual_timer timer({.tick = 1ms, .wheel_size = 512});
  timer.advance_by(1h);
  timer.schedule_after(5ms, nothing);
  EXPECT_EQ(timer.advance_by(5ms), 1U);
  EXPECT_EQ(timer.stats().levels.size(), 1U);
  EXPECT_EQ(timer.stats().moves, 0U);
}

// ---- Order and the clock ----

TEST(ManualTimer, RunsTheTimersOfOneTickInTheOrderInWhichTheyWereScheduled) {
  for (const nanoseconds delay : {0ns, 1'000'000ns, 511'000'000ns, 600'000'000ns, 3'600'000'000'000ns}) {
    manual_timer timer;
    recorder record(timer);
    std::vector<int> expected;
    for (int i = 0; i < 1000; ++i) {
      expected.push_back(i);
      record.after(delay, i);
    }
    timer.advance_by(delay + 1ms);
    EXPECT_EQ(record.ran, expected) << delay.count();
  }
}

TEST(ManualTimer, RunsInTheOrderOfTheTicksOverAllShards) {
  manual_timer timer({.wheel_size = 8, .shards = 4});
  std::vector<time_point> ran;
  std::vector<std::thread> adders;
  for (int i = 0; i < 4; ++i) {
    adders.emplace_back([&, i] {
      for (int k = 0; k < 250; ++k) {
        timer.schedule_after((k * 4 + i) * 1ms, [&] { ran.push_back(timer.now()); });
      }
    });
    adders.back().join();
  }
  EXPECT_EQ(timer.advance_by(1s), 1000U);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  EXPECT_EQ(ran.back(), at(999ms));
}

TEST(ManualTimer, RefusesToAdvanceFromTwoThreadsAtOnce) {
  manual_timer timer;
  refusal error;
  timer.schedule_after(1ms, [&] { std::thread([&] { error = refusal_of([&] { timer.advance_by(1s); }); }).join(); });
  timer.advance_by(1ms);
  EXPECT_EQ(error.code, timer_errc::nested_advance);
}

// ---- One type ----

TEST(ManualTimer, TellsItsNextEvent) {
  manual_timer timer({.tick = 10ms});
  EXPECT_EQ(timer.next_event(), std::nullopt);
  const timer_handle far = timer.schedule_after(25ms, nothing);
  EXPECT_EQ(timer.next_event(), at(30ms));
  timer.schedule_after(-1ms, nothing);
  EXPECT_EQ(timer.next_event(), at(0ms));
  timer.advance_to(at(7ms));
  EXPECT_EQ(timer.next_event(), at(30ms));
  far.cancel();
  EXPECT_EQ(timer.next_event(), std::nullopt);
}

}  // namespace
}  // namespace timing_wheel::test
