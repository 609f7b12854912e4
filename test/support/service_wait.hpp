#pragma once

#include <chrono>
#include <thread>

namespace timing_wheel::test {

/// Far more than any machine needs; a test that gets here has failed.
inline constexpr std::chrono::seconds patience{60};

/// Waits until `condition()` holds. \returns false if it did not within `limit`.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::nanoseconds limit = patience) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Time enough for the poller thread to begin to sleep.
inline void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

}  // namespace timing_wheel::test
