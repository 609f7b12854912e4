#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::bench {

/// Ticks of one millisecond. Half an hour is the longest delay of every workload.
inline constexpr tick second = 1000;
inline constexpr tick minute = 60 * second;
inline constexpr tick half_hour = 30 * minute;

/// Random numbers that are the same in every run, on every machine and with every standard library. They are those of
/// SplitMix64, which take a nanosecond: a workload has some 10 ns for a timer.
class delays {
 public:
  explicit delays(std::uint64_t seed) : state_(seed) {}

  /// Uniform in [1, half an hour].
  [[nodiscard]] tick next() { return 1 + below(half_hour); }

  /// What is left of a delay that began at an unknown time. With timers armed again as they fire, the pending ones have
  /// this distribution in the long run, so that a benchmark that begins with it is in its steady state.
  [[nodiscard]] tick residual();

  /// Uniform in [0, `limit`).
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<wide>(random()) * limit) >> 64U);
  }

 private:
  [[nodiscard]] std::uint64_t random() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    return z ^ (z >> 31U);
  }

  std::uint64_t state_;
};

/// The numbers [0, `count`) in random order.
[[nodiscard]] std::vector<timer_number> random_order(timer_number count, delays& random);

/// What a timer costs its owner: 64 bytes, of which its firing reads and writes one word, and so one cache line.
struct payload {
  std::uint64_t fired = 0;
  std::array<std::uint64_t, 7> rest = {};
};

/// The timers that an engine's numbers stand for; firing one touches its line, as a callback would.
class payloads {
 public:
  explicit payloads(std::size_t count) : lines_(count) {}

  void fire(const advance_result& result) {
    constexpr std::size_t ahead = 8;
    for (const auto e : result.soon) {
      __builtin_prefetch(&lines_[e.which], 1);
    }
    for (std::size_t i = 0; i < result.due.size(); ++i) {
      if (i + ahead < result.due.size()) {
        __builtin_prefetch(&lines_[result.due[i + ahead]], 1);
      }
      ++lines_[result.due[i]].fired;
    }
  }

  [[nodiscard]] std::size_t bytes() const { return lines_.capacity() * sizeof(payload); }

 private:
  std::vector<payload> lines_;
};

/// Order compensation: checks of half an hour arrive within 10 s, and most of them are cancelled within 10 min.
class compensation_plan {
 public:
  static constexpr unsigned usual_percent = 95;
  static constexpr tick last_arrival = 10 * second;
  static constexpr tick last_cancel = 10 * minute;
  static constexpr tick end = last_arrival + half_hour;

  /// Of `count` checks about `percent` in a hundred are cancelled.
  compensation_plan(timer_number count, unsigned percent);

  [[nodiscard]] std::span<const timer_number> arriving_at(tick now) const {
    const std::size_t first = arrived_before(now);
    return std::span(order_).subspan(first, arrived_before(now + 1) - first);
  }
  /// \pre 0 < `now` <= `last_cancel`.
  [[nodiscard]] std::span<const timer_number> cancelled_at(tick now) const {
    return std::span(cancelled_).subspan(cancelled_before_[now], cancelled_before_[now + 1] - cancelled_before_[now]);
  }
  /// How many are left to fire.
  [[nodiscard]] std::size_t survivors() const { return order_.size() - cancelled_.size(); }

 private:
  // The first ones arrive in the first millisecond, the last ones in that of `last_arrival`.
  [[nodiscard]] std::size_t arrived_before(tick now) const { return order_.size() * (now - 1) / last_arrival; }

  std::vector<timer_number> order_;
  std::vector<timer_number> cancelled_;
  std::vector<std::size_t> cancelled_before_;  // by millisecond; indices into `cancelled_`
};

}  // namespace timing_wheel::bench
