/// \file
/// What users of Kafka's port to Go rely on, and what docs/coming_from/peers.md tells them. The suite `…Parity` runs on every
/// engine.
///
/// What lies between `// snippet NAME` and `// end` stands in docs/coming_from/peers.md to the letter; the test `pages` sees to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <vector>

#include "support/engines.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::SizeIs;

// ---- The snippets of docs/coming_from/peers.md ----

// snippet go
std::vector<time_point> every_day_of_three() {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  const auto next = [](time_point previous) -> std::optional<time_point> {
    return previous < time_point(72h) ? std::optional(previous + 24h) : std::nullopt;
  };
  timer.schedule_with(next, [&] { ran.push_back(timer.now()); });
  const timer_handle after = timer.schedule_after(1h, [&] { ran.clear(); });
  const bool stopped = after.cancel() == cancel_result::cancelled;
  timer.advance_by(240h);
  return stopped ? ran : std::vector<time_point>();
}
// end

class GoParity : public on_every_engine {};

INSTANTIATE_TEST_SUITE_P(Engines, GoParity, every_engine, engine_name);

TEST(PeersPage, GoSnippetRunsOnThreeDays) { EXPECT_THAT(every_day_of_three(), ElementsAre(at(24h), at(48h), at(72h))); }

// ---- The port to Go ----

TEST_P(GoParity, AfterFuncRunsOnceAfterTheDelay) {
  by_hand timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  for (const milliseconds delay : {1ms, 5ms, 10ms, 50ms, 100ms, 500ms, 1000ms}) {
    timer.schedule_after(delay, [&] { ran.push_back(timer.now()); });
  }
  EXPECT_EQ(timer.advance_by(1h), 7U);
  EXPECT_THAT(ran, ElementsAre(at(1ms), at(5ms), at(10ms), at(50ms), at(100ms), at(500ms), at(1s)));
}

TEST_P(GoParity, WhatIsDueWithinTheTickIsNotRunAtOnce) {
  by_hand timer({.tick = 10ms}, at(3ms));
  std::vector<time_point> ran;
  timer.schedule_after(5ms, [&] { ran.push_back(timer.now()); });
  EXPECT_EQ(timer.advance_by(0ms), 0U);
  timer.advance_by(1s);
  ASSERT_THAT(ran, SizeIs(1));
  EXPECT_GE(ran[0], at(8ms));
  EXPECT_LT(ran[0], at(18ms));
}

TEST_P(GoParity, StopSaysWhetherItStoppedTheTimer) {
  by_hand timer;
  const timer_handle stopped = timer.schedule_after(5ms, nothing);
  const timer_handle fired = timer.schedule_after(5ms, nothing);
  EXPECT_EQ(stopped.cancel(), cancel_result::cancelled);
  EXPECT_EQ(stopped.cancel(), cancel_result::finished);
  EXPECT_EQ(timer.advance_by(5ms), 1U);
  EXPECT_EQ(fired.cancel(), cancel_result::finished);
}

TEST_P(GoParity, StopAfterEachMoveIsTrueAndFinal) {
  for (const milliseconds moved : {0ms, 1ms, 400ms, 440ms, 449ms}) {
    by_hand timer({.tick = 1ms, .wheel_size = 20});
    bool ran = false;
    const timer_handle handle = timer.schedule_after(450ms, [&] { ran = true; });
    timer.advance_by(moved);
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled) << moved.count();
    timer.advance_by(1h);
    EXPECT_FALSE(ran) << moved.count();
  }
}

TEST_P(GoParity, ScheduleFuncAsksWithThePresentFirstAndThenWithTheDeadlineBefore) {
  by_hand timer({.tick = 10ms}, at(3ms));
  std::vector<time_point> asked;
  std::vector<time_point> ran;
  const auto next = [&](time_point previous) -> std::optional<time_point> {
    asked.push_back(previous);
    return asked.size() <= 3 ? std::optional(previous + 25ms) : std::nullopt;
  };
  timer.schedule_with(next, [&] { ran.push_back(timer.now()); });
  EXPECT_EQ(timer.advance_by(1h), 3U);
  EXPECT_THAT(asked, ElementsAre(at(3ms), at(28ms), at(53ms), at(78ms)));
  EXPECT_THAT(ran, ElementsAre(at(33ms), at(53ms), at(83ms)));
  EXPECT_EQ(timer.pending(), 0U);
}

TEST_P(GoParity, ScheduleFuncWithNoFirstTimeSchedulesNothing) {
  by_hand timer;
  live_captures captures;
  const auto none = [](time_point) -> std::optional<time_point> { return std::nullopt; };
  const timer_handle handle = timer.schedule_with(none, [token = captures.make()] {});
  EXPECT_FALSE(handle);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST_P(GoParity, StopInItsOwnTaskEndsAScheduleFunc) {
  by_hand timer;
  int runs = 0;
  const auto every_second = [](time_point previous) { return previous + 1s; };
  const timer_handle handle = timer.schedule_with(every_second, [&runs](const timer_handle& self) {
    if (++runs == 3) {
      self.cancel();
    }
  });
  timer.advance_by(1h);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(handle.status(), timer_status::finished);
}

TEST_P(GoParity, StopBetweenTwoRunsEndsAScheduleFunc) {
  by_hand timer;
  int runs = 0;
  const auto every_second = [](time_point previous) { return previous + 1s; };
  const timer_handle handle = timer.schedule_with(every_second, [&runs] { ++runs; });
  timer.advance_by(2500ms);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled) << "there is no gap in which it is not scheduled";
  timer.advance_by(1h);
  EXPECT_EQ(runs, 2);
}

TEST_P(GoParity, ATaskThatThrowsDoesNotEndTheProcess) {
  std::size_t reported = 0;
  by_hand timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) { ++reported; }});
  timer.schedule_every(1s, [] { throw std::runtime_error("task"); });
  timer.advance_by(3s);
  EXPECT_EQ(reported, 3U);
  EXPECT_EQ(timer.pending(), 1U);
}

}  // namespace
}  // namespace timing_wheel::test
