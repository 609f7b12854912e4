#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/oracle.hpp"
#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::test {

/// `now + delay`, or `never`.
constexpr tick after(tick now, tick delay) { return delay > never - now ? never : now + delay; }

/// Advances to `now`, `budget` timers at a time, until nothing is left to do. \returns what was due, sorted.
template <timer_engine Engine>
std::vector<timer_number> drain(Engine& engine, tick now, std::size_t budget = no_limit) {
  std::vector<timer_number> due;
  std::size_t calls_left = 100 * (engine.size() + 1);
  for (advance_result result{.due = {}, .more = true}; result.more; --calls_left) {
    if (calls_left == 0) {
      ADD_FAILURE() << "advance to " << now << " never ends";
      break;
    }
    result = engine.advance(now, budget);
    due.insert(due.end(), result.due.begin(), result.due.end());
  }
  std::sort(due.begin(), due.end());
  return due;
}

/// Inserts a timer for each deadline, the numbers counting from 0. \returns what must come out when.
template <timer_engine Engine>
schedule insert_all(Engine& engine, const std::vector<tick>& deadlines) {
  schedule expected;
  timer_number next = 0;
  for (const tick deadline : deadlines) {
    EXPECT_TRUE(engine.insert(next, deadline)) << "deadline " << deadline << " at " << engine.now();
    expected[deadline].push_back(next++);
  }
  return expected;
}

/// Goes to each deadline and to the tick before it: each timer must come out in its own tick, once, and nothing else.
template <timer_engine Engine>
void expect_each_at_its_tick(Engine& engine, const schedule& expected, std::size_t budget = no_limit) {
  for (const auto& [deadline, numbers] : expected) {
    ASSERT_EQ(drain(engine, deadline - 1, budget), std::vector<timer_number>()) << "early, before " << deadline;
    ASSERT_EQ(drain(engine, deadline, budget), numbers) << "due at " << deadline;
  }
  ASSERT_EQ(engine.size(), 0U);
  ASSERT_TRUE(engine.invariants_hold());
}

/// Sleeps from expiration to expiration until nothing is pending. \returns when it woke.
template <timer_engine Engine>
std::vector<tick> wakeups(Engine& engine) {
  std::vector<tick> visited;
  while (const auto next = engine.next_expiration()) {
    if (visited.size() == 100'000) {
      ADD_FAILURE() << "still awake at " << *next;
      break;
    }
    visited.push_back(*next);
    drain(engine, *next);
  }
  return visited;
}

}  // namespace timing_wheel::test
