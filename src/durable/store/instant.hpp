#pragma once

#include <chrono>
#include <cstdint>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// The instant that a database keeps as a count of microseconds.
inline instant instant_of(std::int64_t count) { return instant(std::chrono::microseconds(count)); }

/// The count that a database keeps of an instant.
inline std::int64_t microseconds_of(instant when) { return when.time_since_epoch().count(); }

/// `to - from`, stopping at the ends of the range instead of overflowing: a deadline may lie at an end of time.
constexpr std::chrono::microseconds saturating_difference(instant to, instant from) noexcept {
  std::int64_t count = 0;
  if (__builtin_sub_overflow(to.time_since_epoch().count(), from.time_since_epoch().count(), &count)) {
    return to < from ? std::chrono::microseconds::min() : std::chrono::microseconds::max();
  }
  return std::chrono::microseconds(count);
}

/// The lease of an orphaned row that was given up: it has ended, and nobody can extend it.
inline constexpr std::int64_t held_by_nobody = 1;

}  // namespace timing_wheel::durable
