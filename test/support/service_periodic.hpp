#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

inline constexpr std::array every_policy{fixed_delay, fixed_rate_catch_up, fixed_rate_skip};

/// When a callback ran, on the clock of its service.
struct run_log {
  explicit run_log(const manual_timer& service) : timer(service) {}

  [[nodiscard]] auto writing() {
    return [this] { times.push_back(timer.now().time_since_epoch()); };
  }

  const manual_timer& timer;
  std::vector<nanoseconds> times;
};

/// A rule that gives `previous + 10 ms` `times` times, and then does `last`.
template <class Last>
auto ten_ms(int times, Last last) {
  return [times, last](time_point previous) mutable -> std::optional<time_point> {
    return times-- > 0 ? previous + 10ms : last();
  };
}

inline std::optional<time_point> none() { return std::nullopt; }
inline std::optional<time_point> failing() { throw std::runtime_error("no more deadlines"); }

}  // namespace timing_wheel::test
