#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::detail {

/// The clock of a service: the monotonic one, or one that is set by hand. Its wall clock is then the same.
///
/// Thread safety: any thread may read it; one at a time sets it. Memory order: relaxed; it publishes nothing but
/// itself.
class service_clock {
 public:
  service_clock() noexcept = default;
  explicit service_clock(time_point start) noexcept : by_hand_(true), shown_(start.time_since_epoch().count()) {}

  [[nodiscard]] bool by_hand() const noexcept { return by_hand_; }

  [[nodiscard]] time_point now() const noexcept {
    if (by_hand_) [[unlikely]] {
      return time_point(std::chrono::nanoseconds(shown_.load(std::memory_order_relaxed)));
    }
    return std::chrono::steady_clock::now();
  }
  [[nodiscard]] wall_time wall() const noexcept {
    return by_hand_ ? wall_time(now().time_since_epoch()) : wall_time(std::chrono::system_clock::now());
  }

  /// A step back too. \pre by hand.
  void set(time_point when) noexcept { shown_.store(when.time_since_epoch().count(), std::memory_order_relaxed); }
  /// A step back is ignored. \pre by hand.
  void move_to(time_point when) noexcept { set(std::max(now(), when)); }

 private:
  const bool by_hand_ = false;
  std::atomic<std::int64_t> shown_{0};
};

}  // namespace timing_wheel::detail
