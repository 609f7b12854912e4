#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/service_stress.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

inline constexpr std::size_t pool_threads = 3;

/// The thread that moves the clock. Drivers of one `kind` differ in `pooled` and `pollers` only, so that most of a test
/// can be compiled once for them.
struct by_hand {
  using kind = by_hand;
  using service_type = manual_timer;
  static constexpr bool pooled = false;
  static constexpr unsigned pollers = 1;
  static constexpr nanoseconds soon = 1ms;
  static constexpr nanoseconds tick = 1ms;
  static constexpr std::uint64_t rounds = 25'000;

  /// Runs what is due `soon`, unless another thread is at it.
  static void fire(manual_timer& service) {
    try {
      service.advance_by(soon);
    } catch (const timer_error& e) {
      EXPECT_EQ(e.code(), timer_errc::nested_advance);
    }
  }
};

/// A pool; the clock is moved by hand.
struct by_hand_on_a_pool : by_hand {
  static constexpr bool pooled = true;
  static constexpr std::uint64_t rounds = 3'000;
};

/// The thread of the service.
struct on_its_thread {
  using kind = on_its_thread;
  using service_type = timer;
  static constexpr bool pooled = false;
  static constexpr unsigned pollers = 1;
  static constexpr nanoseconds soon = 10us;
  static constexpr nanoseconds tick = 1us;
  static constexpr std::uint64_t rounds = 3'000;

  /// Keeps its processor until what is due `soon` has probably fired.
  static void fire(timer& service) {
    const time_point end = service.now() + soon;
    while (service.now() < end) {
    }
  }
};

/// A pool.
struct on_a_pool : on_its_thread {
  static constexpr bool pooled = true;
};

/// The threads of the service.
struct on_its_threads : on_its_thread {
  static constexpr unsigned pollers = 2;
};

using drivers = testing::Types<by_hand, by_hand_on_a_pool, on_its_thread, on_its_threads, on_a_pool>;

/// Options for a service of a driver, with the shards that its pollers need.
template <class Driver>
timer_options options_of(unsigned shards) {
  return {
      .tick = Driver::tick, .wheel_size = 4, .shards = std::max(shards, Driver::pollers), .pollers = Driver::pollers};
}

/// What a callback leaves behind, in plain memory: to read it is a race, unless the reader is ordered behind it.
struct trace {
  int begun = 0;
  int ended = 0;
  int destroyed = 0;

  /// No callback is in the middle, and none can come.
  [[nodiscard]] bool is_over() const { return begun == ended && destroyed == 1; }
};

/// The runs that have begun, of any timer. Memory order: relaxed; a hint, which must not order what is raced for.
inline std::atomic<std::uint64_t> begun_runs{0};

/// A callback that takes some time, and leaves a trace.
class traced {
 public:
  explicit traced(trace& to) noexcept : to_(&to) {}
  traced(traced&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
  traced& operator=(traced&&) = delete;
  ~traced() {
    if (to_ != nullptr) {
      ++to_->destroyed;
    }
  }
  void operator()() {
    begun_runs.fetch_add(1, std::memory_order_relaxed);
    ++to_->begun;
    spin(1'000);
    ++to_->ended;
  }

 private:
  trace* to_;
};

}  // namespace timing_wheel::test
