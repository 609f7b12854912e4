#pragma once

#include <chrono>

#include "durable/store/boot_clock.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// The clock of the leases and the runs of a node. What is due to the second is told by a clock that nobody sets; in
/// virtual time by that of the store.
///
/// Thread safety: any thread.
class node_clock {
 public:
  node_clock(store& where, bool in_virtual_time) noexcept : store_(where), in_virtual_time_(in_virtual_time) {}

  /// \throws what the clock of the store throws.
  [[nodiscard]] instant now() const {
    return in_virtual_time_ ? store_.now() : instant(std::chrono::floor<std::chrono::microseconds>(time_since_boot()));
  }
  /// The same, or the epoch if the clock throws.
  [[nodiscard]] instant run_now() const noexcept {
    try {
      return now();
    } catch (...) {  // in virtual time, where nothing takes any
      return {};
    }
  }

 private:
  store& store_;
  const bool in_virtual_time_;
};

}  // namespace timing_wheel::durable
