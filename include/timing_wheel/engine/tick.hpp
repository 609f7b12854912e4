#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// A point on an engine's time line: a number of ticks since its zero.
using tick = std::uint64_t;

/// A dense number that stands for one timer, as an index into an array of the caller's. (A slot, in the literature of
/// timing wheels, is a bucket of a wheel.)
using timer_number = std::uint32_t;

/// The end of time. An engine's clock never reaches it, so a timer that is due then never fires; it can be cancelled.
inline constexpr tick never = std::numeric_limits<tick>::max();

/// Larger than any number of timers: the budget that does all that is due, and no limit of pending timers.
inline constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// `a * b`, or `never` when the product does not fit, such as the interval of a wheel that reaches past the end of
/// time.
[[nodiscard]] constexpr tick saturating_multiply(tick a, tick b) noexcept {
  return b != 0 && a > never / b ? never : a * b;
}

/// Translates between a clock and ticks: deadlines round up, the clock rounds down, so that nothing is ever early.
///
/// Example: origin 0, tick 10 ms. A deadline of 28 ms is tick 3; at 29.9 ms the clock shows tick 2, at 30 ms tick 3.
/// Everything saturates: what lies before the origin is tick 0, and the end of time is `never`.
///
/// Every member is O(1), and a constant expression; it multiplies, and divides only when it is made. Thread safety: as
/// a plain object; it never changes.
class tick_scale {
 public:
  /// Tick 0 begins at `origin`. \pre `tick_length` is positive.
  constexpr tick_scale(time_point origin, std::chrono::nanoseconds tick_length) noexcept
      : origin_(origin), length_(static_cast<std::uint64_t>(tick_length.count())), reciprocal_(UINT64_MAX / length_) {}

  /// The last tick that has begun at `now`; always before `never`.
  [[nodiscard]] constexpr tick floor(time_point now) const noexcept {
    return std::min(divide(since_origin(now)).quotient, never - 1);
  }

  /// The first tick that begins at `deadline` or later; `never` for the end of time.
  [[nodiscard]] constexpr tick ceil(time_point deadline) const noexcept {
    if (deadline == time_point::max()) {
      return never;
    }
    const auto [quotient, remainder] = divide(since_origin(deadline));
    return quotient + (remainder != 0 ? 1 : 0);
  }

  /// The time at which `t` begins; the end of time if it would lie past that.
  [[nodiscard]] constexpr time_point begin_of(tick t) const noexcept {
    const std::uint64_t room = detail::distance(origin_, time_point::max());
    std::uint64_t since = 0;
    const bool fits = !__builtin_mul_overflow(t, length_, &since) && since <= room;
    return fits ? at(since) : time_point::max();
  }

  /// How long a tick is; at least 1 ns.
  [[nodiscard]] constexpr std::chrono::nanoseconds tick_length() const noexcept {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(length_));
  }

 private:
  [[nodiscard]] constexpr std::uint64_t since_origin(time_point when) const noexcept {
    return when <= origin_ ? 0 : detail::distance(origin_, when);
  }
  [[nodiscard]] constexpr time_point at(std::uint64_t since) const noexcept {
    const auto count = static_cast<std::uint64_t>(origin_.time_since_epoch().count()) + since;
    return time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(count)));
  }

  struct division {
    std::uint64_t quotient;
    std::uint64_t remainder;
  };
  // By a multiplication: n / length - 1 < n * reciprocal / 2^64 <= n / length, so that the estimate is right or one too
  // small.
  [[nodiscard]] constexpr division divide(std::uint64_t n) const noexcept {
    __extension__ using wide = unsigned __int128;
    const auto estimate = static_cast<std::uint64_t>(static_cast<wide>(n) * reciprocal_ >> 64U);
    const std::uint64_t remainder = n - estimate * length_;
    return remainder < length_ ? division{estimate, remainder} : division{estimate + 1, remainder - length_};
  }

  time_point origin_;
  std::uint64_t length_;
  std::uint64_t reciprocal_;  // 2^64 / length_, or a little less
};

}  // namespace timing_wheel
