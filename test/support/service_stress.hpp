#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "meeting.hpp"
#include "service_audit.hpp"
#include "timing_wheel/timing_wheel.hpp"

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
      std::this_thread::yield();
    }
  }

  std::jthread thread_;
};

/// Spins for a while, without a system call; the longer, the greater `length`.
inline void spin(std::uint64_t length) noexcept {
  for (std::uint64_t i = 0; i < length; ++i) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // so that the loop stays
  }
}

/// The rounds that the running test has raced.
inline std::atomic<std::uint64_t> rounds_of_test{0};

/// Says after each test how many rounds it has raced; `./dev stress` adds them up.
class round_report final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    if (const std::uint64_t rounds = rounds_of_test.exchange(0); rounds != 0) {
      std::printf("[  ROUNDS  ] %" PRIu64 "\n", rounds);
    }
  }
};
inline const bool reports_rounds = [] {
  testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<round_report>().release());
  return true;
}();

/// Where threads meet that have just left a barrier, which lets go of them one after the other: they spin for a while,
/// so that they go on together if there are processors enough. Memory order: relaxed; it must not order anything that
/// is raced for.
class spinning_line {
 public:
  explicit spinning_line(std::uint64_t threads) noexcept : threads_(threads) {}

  void meet(std::uint64_t round) noexcept {
    present_.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < 5000 && present_.load(std::memory_order_relaxed) < (round + 1) * threads_; ++i) {
    }
  }

 private:
  const std::uint64_t threads_;
  std::atomic<std::uint64_t> present_{0};
};

/// What `race` does, for actions of any type: compiled once.
inline void race_all(std::uint64_t rounds, const std::function<void(std::uint64_t)>& prepare,
                     const std::vector<std::function<void(std::uint64_t)>>& actions) {
  std::uint64_t round = 0;
  bool over = false;
  barrier start(static_cast<std::ptrdiff_t>(actions.size()), [&]() noexcept {
    over = testing::Test::HasFailure();
    if (!over) {
      prepare(round++);
    }
  });
  spinning_line line(actions.size());
  const auto repeat = [&](std::uint64_t number) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      start.arrive_and_wait();
      if (over) {
        break;
      }
      line.meet(i);
      spin((i * 2654435761U >> (3 * number)) % 256);
      actions[number](i);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t number = 0; number < actions.size(); ++number) {
      threads.emplace_back(repeat, number);
    }
  }
  rounds_of_test += round;
}

/// Threads that begin each round together. `actions` are called with the number of the round, each on its own thread
/// and a little sooner or later from round to round; between two rounds, when all stand still, `prepare` is called. It
/// ends early if the test has failed.
template <class Prepare, class... Actions>
void race(std::uint64_t rounds, Prepare prepare, Actions... actions) {
  race_all(rounds, std::move(prepare), {std::function<void(std::uint64_t)>(std::move(actions))...});
}

}  // namespace timing_wheel::test
