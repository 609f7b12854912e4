#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "service_audit.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::test {

/// How often each timer of a test was fired, cancelled or given back: once each, or something is wrong.
class outcomes {
 public:
  explicit outcomes(std::size_t timers) : counts_(timers) {}

  // Memory order: relaxed; read when the threads have been joined.
  void add(std::uint64_t timer) noexcept { counts_[timer].fetch_add(1, std::memory_order_relaxed); }

  void add(std::uint64_t timer, cancel_result answer) noexcept {
    if (answer == cancel_result::cancelled) {
      add(timer);
    }
  }

  void add(const std::vector<pending_task>& returned) noexcept {
    for (const pending_task& one : returned) {
      add(one.tag);
    }
  }

  /// Of the first `timers`, how many had not exactly one outcome.
  [[nodiscard]] std::size_t wrong(std::size_t timers) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < timers; ++i) {
      sum += counts_[i].load(std::memory_order_relaxed) != 1;
    }
    return sum;
  }

 private:
  std::vector<std::atomic<std::uint8_t>> counts_;
};

/// Reads a service's counts all the time, on a thread of its own: they must add up, and none but `pending` may fall.
template <class Service>
class auditor {
 public:
  explicit auditor(const Service& service)
      : thread_([&service](const std::stop_token& stop) { audit(service, stop); }) {}

 private:
  static void audit(const Service& service, const std::stop_token& stop) {
    timer_stats before;
    while (!stop.stop_requested() && !testing::Test::HasFailure()) {
      const timer_stats now = service.stats();
      EXPECT_TRUE(conserved(now));
      EXPECT_GE(now.scheduled, before.scheduled);
      EXPECT_GE(now.fired, before.fired);
      EXPECT_GE(now.cancelled, before.cancelled);
      EXPECT_GE(now.returned, before.returned);
      EXPECT_EQ(now.early, 0U);
      EXPECT_LE(now.largest_hold, max_timers_per_lock);
      before = now;
    }
  }

  std::jthread thread_;
};

/// Threads that begin each round together. `actions` are called with the number of the round, each on its own thread;
/// between two rounds, when all stand still, `prepare` is called.
template <class Prepare, class... Actions>
void race(std::uint64_t rounds, Prepare prepare, Actions... actions) {
  std::uint64_t round = 0;
  std::barrier start(static_cast<std::ptrdiff_t>(sizeof...(Actions)), [&]() noexcept { prepare(round++); });
  const auto repeat = [&](auto& action) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      start.arrive_and_wait();
      action(i);
    }
  };
  const std::vector<std::jthread> threads = [&] {
    std::vector<std::jthread> made;
    (made.emplace_back([&repeat, &actions] { repeat(actions); }), ...);
    return made;
  }();
}

}  // namespace timing_wheel::test
