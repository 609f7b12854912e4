/// \file
/// Timers that may fire somewhat later than their deadline, on every engine.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <set>
#include <vector>

#include "support/engines.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

class Window : public on_every_engine {};
INSTANTIATE_TEST_SUITE_P(Engines, Window, every_engine, engine_name);

TEST_P(Window, OneOfAllTimeLeavesTheDeadline) {
  by_hand timer;
  const timer_handle far = timer.schedule_after(5ms, [] {}, {.window = std::chrono::nanoseconds::max()});
  EXPECT_EQ(far.deadline(), at(5ms));
  timer.advance_by(1h);
  if (GetParam() == engine_kind::hashed) {
    EXPECT_EQ(timer.pending(), 0U);
    return;
  }
  EXPECT_EQ(timer.pending(), 1U);
  EXPECT_EQ(timer.stop().front().deadline, at(5ms));
}

/// The times at which a hundred timers fire, one each millisecond from `first` on.
template <class Arm>
std::set<time_point> firings(manual_timer& timer, Arm arm) {
  std::set<time_point> times;
  for (int i = 0; i < 100; ++i) {
    arm(1s + i * 1ms, [&] { times.insert(timer.now()); });
  }
  for (int i = 0; i < 4'000; ++i) {
    timer.advance_by(1ms);
  }
  EXPECT_EQ(timer.pending(), 0U);
  return times;
}

std::size_t shared(engine_kind engine) { return engine == engine_kind::hashed ? 100 : 1; }  // it stops at each tick

TEST_P(Window, TimersWhoseWindowsMeetShareAWakeUp) {
  by_hand timer;
  EXPECT_EQ(firings(timer, [&](auto delay, auto f) { timer.schedule_after(delay, f, {.window = 2s}); }).size(),
            shared(GetParam()));
  EXPECT_EQ(firings(timer, [&](auto delay, auto f) { timer.schedule_after(delay, f); }).size(), 100U);
  const bool has_levels = GetParam() == engine_kind::hierarchical;
  EXPECT_EQ(timer.stats().wakeups_shared, has_levels ? 99U : 0U);
  EXPECT_EQ(timer.stats().moves_saved, has_levels ? 75U : 0U) << "those due after 1024 ms would move";
}

TEST_P(Window, TimersScheduledManyAtATimeShareAWakeUp) {
  by_hand timer;
  std::vector<pending_task> all;
  const auto collect = [&](auto delay, auto f) {
    all.push_back({timer.now() + delay, 0, task(f), 2s});
    if (all.size() == 100) {
      timer.schedule_many(all);
    }
  };
  EXPECT_EQ(firings(timer, collect).size(), shared(GetParam()));
}

TEST_P(Window, ARescheduledTimerKeepsIt) {
  by_hand timer;
  const auto arm_and_move = [&](auto delay, auto f) {
    timer.schedule_after(1h, f, {.window = 2s}).reschedule_after(delay);
  };
  EXPECT_EQ(firings(timer, arm_and_move).size(), shared(GetParam()));
}

TEST_P(Window, EachRunOfAPeriodicTimerHasItAndTheDeadlinesDoNotMove) {
  by_hand timer;
  std::vector<time_point> deadlines;
  int put_off = 0;
  timer.schedule_every(10ms,
                       [&](const timer_handle& self) {
                         deadlines.push_back(*self.deadline());
                         EXPECT_GE(timer.now(), *self.deadline());
                         EXPECT_LE(timer.now(), *self.deadline() + 7ms);
                         put_off += timer.now() > *self.deadline() ? 1 : 0;
                       },
                       {.policy = fixed_rate_catch_up, .window = 7ms});
  for (int i = 0; i < 1'007; ++i) {
    timer.advance_by(1ms);
  }
  ASSERT_EQ(deadlines.size(), 100U);
  EXPECT_EQ(put_off > 50, GetParam() != engine_kind::hashed) << "not the first run alone";
  for (std::size_t i = 0; i < deadlines.size(); ++i) {
    EXPECT_EQ(deadlines[i], at((i + 1) * 10ms));
  }
}

TEST_P(Window, ADrainTakesOutWhatItPutsOff) {
  by_hand timer;
  timer.schedule_after(1s, [] {}, {.window = 10s});
  const std::vector<pending_task> left = timer.stop_drain(at(1s + 1ns));
  EXPECT_EQ(left.size(), GetParam() == engine_kind::hashed ? 0U : 1U);
}

}  // namespace
}  // namespace timing_wheel::test
