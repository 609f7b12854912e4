#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ratio>
#include <type_traits>

/// \file
/// The time points of a service, and arithmetic on them that does not overflow: a result that is too far becomes
/// `time_point::max()` or `min()`. A timer that is due at `max()` never fires, and can be cancelled.
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
///     saturating_add(time_point::max() - 1ns, 1h) == time_point::max()
[[nodiscard]] constexpr time_point saturating_add(time_point when, std::chrono::nanoseconds delay) noexcept {
  std::int64_t count = 0;
  if (__builtin_add_overflow(when.time_since_epoch().count(), delay.count(), &count)) {
    return delay < delay.zero() ? time_point::min() : time_point::max();
  }
  return time_point(std::chrono::nanoseconds(count));
}

/// `to - from`, or the end of the range that the difference passes. Negative if `to` is earlier.
///
///     saturating_difference(time_point::max(), time_point::min()) == std::chrono::nanoseconds::max()  // 292 years
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

/// Any duration as nanoseconds: rounded up, or the end of the range that it passes. Each delay and each period goes
/// through this function.
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

}  // namespace timing_wheel
