#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "support/service_captures.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::nanoseconds;

inline constexpr hours hundred_years{876600};

/// Schedules numbers and keeps the order in which they ran.
struct recorder {
  explicit recorder(manual_timer& service) : timer(service) {}

  timer_handle after(nanoseconds delay, int number) {
    return timer.schedule_after(delay, [this, number] { ran.push_back(number); });
  }

  manual_timer& timer;
  std::vector<int> ran;
};

inline std::vector<timer_handle> schedule_far(manual_timer& timer, live_captures& captures, std::size_t count) {
  std::vector<timer_handle> handles;
  handles.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const nanoseconds delay = 1h + static_cast<int>(i % 100'000) * 1ms;
    handles.push_back(timer.schedule_after(delay, [token = captures.make()] {}));
  }
  return handles;
}

}  // namespace timing_wheel::test
