#pragma once

#include <gtest/gtest.h>

#include <atomic>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// One timer, and when it ran.
class probe {
 public:
  auto callback() {
    return [this] {
      ran_at_ = steady_clock::now();
      ++runs_;
    };
  }
  [[nodiscard]] bool ran() const { return runs_ > 0; }
  [[nodiscard]] int runs() const { return runs_; }
  [[nodiscard]] time_point ran_at() const { return ran_at_; }

 private:
  std::atomic<time_point> ran_at_{time_point()};
  std::atomic<int> runs_{0};
};

}  // namespace timing_wheel::test
