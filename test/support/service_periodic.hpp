#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

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

}  // namespace timing_wheel::test
