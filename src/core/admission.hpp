#pragma once

#include <atomic>
#include <cstddef>

#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::detail {

/// Counts the pending timers of a service against its limit. Without a limit it counts nothing, and costs nothing.
///
/// Memory order: relaxed throughout; the count orders nothing but itself, and a compare-exchange never lets it pass the
/// limit.
class admission {
 public:
  explicit admission(std::size_t limit) noexcept : limit_(limit) {}

  [[nodiscard]] bool enter() noexcept {
    if (limit_ == no_limit) {
      return true;
    }
    std::size_t inside = inside_.load(std::memory_order_relaxed);
    while (inside < limit_) {
      if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void leave() noexcept {
    if (limit_ != no_limit) {
      inside_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> inside_{0};
};

}  // namespace timing_wheel::detail
