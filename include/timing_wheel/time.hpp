#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ratio>
#include <type_traits>

/// \file
/// The time points of a service, the ticks of an engine, and arithmetic on them that does not overflow: a result that
/// is too far becomes `time_point::max()` or `min()`. A timer that is due at `max()`, or less than a tick before it,
/// never fires; it can be cancelled.
///
/// All functions are `constexpr`, throw nothing and are O(1).

namespace timing_wheel {

/// A point of time of a service, on the monotonic clock. A `manual_timer` uses the same type, so code under test need
/// not know which service it has.
using time_point = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// The clocks whose time points can be deadlines.
template <class Clock>
concept deadline_clock =
    std::same_as<Clock, std::chrono::steady_clock> || std::same_as<Clock, std::chrono::system_clock>;

/// `when + delay`, or the end of time that the sum passes.
///
/// Example: `saturating_add(time_point::max() - 1ns, 1h) == time_point::max()`.
[[nodiscard]] constexpr time_point saturating_add(time_point when, std::chrono::nanoseconds delay) noexcept {
  std::int64_t count = 0;
  if (__builtin_add_overflow(when.time_since_epoch().count(), delay.count(), &count)) {
    return delay < delay.zero() ? time_point::min() : time_point::max();
  }
  return time_point(std::chrono::nanoseconds(count));
}

/// `to - from`, or the end of the range that the difference passes. Negative if `to` is earlier.
///
/// Example: `saturating_difference(time_point::max(), time_point::min()) == std::chrono::nanoseconds::max()`, 292
/// years.
[[nodiscard]] constexpr std::chrono::nanoseconds saturating_difference(time_point to, time_point from) noexcept {
  std::int64_t count = 0;
  if (__builtin_sub_overflow(to.time_since_epoch().count(), from.time_since_epoch().count(), &count)) {
    return to < from ? std::chrono::nanoseconds::min() : std::chrono::nanoseconds::max();
  }
  return std::chrono::nanoseconds(count);
}

namespace detail {

/// Nanoseconds between two time points; unsigned, because that may need 64 bits. \pre `from <= to`.
[[nodiscard]] constexpr std::uint64_t distance(time_point from, time_point to) noexcept {
  return static_cast<std::uint64_t>(to.time_since_epoch().count()) -
         static_cast<std::uint64_t>(from.time_since_epoch().count());
}

/// A wider integer as nanoseconds, stopping at the ends of their range.
template <class Wide>
[[nodiscard]] constexpr std::chrono::nanoseconds saturated(Wide count) noexcept {
  constexpr Wide least = std::chrono::nanoseconds::min().count();
  constexpr Wide most = std::chrono::nanoseconds::max().count();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(count, least, most)));
}

__extension__ using wide_integer = __int128;
__extension__ using wide_unsigned = unsigned __int128;

/// How many nanoseconds a `Period` has, as a fraction. `std::ratio` has no room for those of a `std::tera`.
template <class Period>
struct nanoseconds_in {
  static constexpr std::intmax_t common = std::gcd(Period::den, std::nano::den);
  static constexpr wide_integer num = static_cast<wide_integer>(Period::num) * (std::nano::den / common);
  static constexpr std::intmax_t den = Period::den / common;
};

/// `count * ratio`, or the end of its range if the product does not fit. \pre `ratio` is positive.
[[nodiscard]] constexpr wide_integer saturating_scale(wide_integer count, wide_integer ratio) noexcept {
  constexpr auto most = static_cast<wide_integer>(~wide_unsigned{0} >> 1U);
  if (count > most / ratio) {
    return most;
  }
  return count < -most / ratio ? -most : count * ratio;
}

}  // namespace detail

/// A duration, of an integer of at most 64 bits or of floating point, as nanoseconds: rounded up, or the end of the
/// range that it passes. Each delay and each period goes through this function.
///
/// | Duration | Nanoseconds |
/// |---|---|
/// | 0.1 s in a `double` | 100 000 000 |
/// | 1 ps | 1 |
/// | 1.5 ns | 2 |
/// | -1.5 ns | -1 |
/// | the largest `std::chrono::hours` | `std::chrono::nanoseconds::max()` |
/// | a floating-point NaN | `std::chrono::nanoseconds::max()`, so that the timer is not early |
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds saturating_nanoseconds(
    std::chrono::duration<Rep, Period> delay) noexcept {
  using unit = detail::nanoseconds_in<Period>;
  if constexpr (std::integral<Rep>) {
    const detail::wide_integer count = static_cast<std::common_type_t<Rep, std::int32_t>>(delay.count());
    detail::wide_integer scaled = 0;
    if constexpr (unit::num <= std::numeric_limits<std::int64_t>::max()) {
      scaled = count * unit::num;  // 64 bits of count times 63 of ratio fit
    } else {
      scaled = detail::saturating_scale(count, unit::num);
    }
    return detail::saturated(scaled / unit::den + (scaled % unit::den > 0 ? 1 : 0));
  } else {
    // In the precision of the caller: 0.1 s is to be 100 ms, though the nearest `double` is a little more.
    using real = std::common_type_t<Rep, std::intmax_t>;
    const real exact = static_cast<real>(delay.count()) * static_cast<real>(unit::num) / static_cast<real>(unit::den);
    const auto scaled = static_cast<long double>(exact);
    if (!(scaled < 0x1p63L) || scaled < -0x1p63L) {  // NaN is not less
      return scaled < 0 ? std::chrono::nanoseconds::min() : std::chrono::nanoseconds::max();
    }
    const auto whole = static_cast<std::int64_t>(scaled);
    const std::chrono::nanoseconds up(scaled > static_cast<long double>(whole) ? 1 : 0);
    return saturating_add(time_point(std::chrono::nanoseconds(whole)), up).time_since_epoch();
  }
}

// ---- Ticks ----

/// A point on an engine's time line: a number of ticks since its zero.
using tick = std::uint64_t;

/// A dense number that stands for one timer, as an index into an array of the caller's. (A slot, in the literature of
/// timing wheels, is a bucket of a wheel.)
using timer_number = std::uint32_t;

/// The end of time. An engine's clock never reaches it, so a timer that is due then never fires; it can be cancelled.
inline constexpr tick never = std::numeric_limits<tick>::max();

/// Larger than any number of timers. As a budget, it lets a call handle all that is due. As `max_pending`, it sets no
/// limit.
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
/// Every member is O(1) and `constexpr`. Only the constructor divides. Thread safety: as a plain object; a scale never
/// changes.
class tick_scale {
 public:
  /// Tick 0 begins at `origin`. \pre `tick_length` is positive.
  constexpr tick_scale(time_point origin, std::chrono::nanoseconds tick_length) noexcept
      : origin_(origin), length_(static_cast<std::uint64_t>(tick_length.count())), reciprocal_(UINT64_MAX / length_) {}

  /// The last tick that has begun at `now`; always before `never`.
  [[nodiscard]] constexpr tick floor(time_point now) const noexcept {
    return now <= origin_ ? 0 : std::min(divide(detail::distance(origin_, now)).quotient, never - 1);
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

  /// How many whole ticks `length` has; 0 if it is negative.
  [[nodiscard]] constexpr tick whole_ticks(std::chrono::nanoseconds length) const noexcept {
    return length <= length.zero() ? 0 : divide(static_cast<std::uint64_t>(length.count())).quotient;
  }

  /// How long `count` ticks are; at most the longest duration.
  [[nodiscard]] constexpr std::chrono::nanoseconds length_of(tick count) const noexcept {
    std::int64_t length = 0;
    return __builtin_mul_overflow(count, length_, &length) ? std::chrono::nanoseconds::max()
                                                           : std::chrono::nanoseconds(length);
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
