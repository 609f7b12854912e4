#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "timing_wheel/engine/engine.hpp"

/// \file
/// What the engines do alike.

namespace timing_wheel::detail {

inline constexpr std::uint32_t smallest_wheel = 2;
inline constexpr std::uint32_t largest_wheel = 1U << 24U;

/// \throws std::invalid_argument naming the value and the range.
inline void check_wheel_size(std::uint32_t size) {
  if (size < smallest_wheel || size > largest_wheel) {
    throw std::invalid_argument("wheel size " + std::to_string(size) + " is not in [" + std::to_string(smallest_wheel) +
                                ", " + std::to_string(largest_wheel) + "]");
  }
}

/// The sizes level by level, at least one; `standard` if the options say nothing.
/// \throws std::invalid_argument as `check_wheel_size`.
inline std::vector<std::uint32_t> checked_sizes(const engine_options& options, std::vector<std::uint32_t> standard) {
  std::vector<std::uint32_t> sizes = std::move(standard);
  if (!options.wheel_sizes.empty()) {
    sizes = options.wheel_sizes;
  } else if (options.wheel_size) {
    sizes = {*options.wheel_size};
  }
  for (const std::uint32_t size : sizes) {
    check_wheel_size(size);
  }
  return sizes;
}

/// \throws std::invalid_argument naming the value and the range.
inline tick checked_start(const engine_options& options) {
  if (options.start == never) {
    throw std::invalid_argument("start " + std::to_string(options.start) + " is not in [0, " +
                                std::to_string(never - 1) + "]");
  }
  return options.start;
}

/// The last tick in [deadline, deadline + window] before the end of time; the end of time itself stays.
inline tick latest_within(tick deadline, tick window) noexcept {
  constexpr tick last = never - 1;
  return deadline > last ? deadline : deadline + std::min(window, last - deadline);
}

/// The number in [first, last] that is a multiple of the largest power of two: `last`, without the bits below the
/// highest one in which it differs from `first - 1`. \pre first <= last.
inline tick most_even(tick first, tick last) noexcept {
  if (first == 0) {
    return 0;
  }
  const int below = static_cast<int>(std::bit_width((first - 1) ^ last)) - 1;
  return last >> below << below;
}

/// Calls `work`. What it has put into `due` is not kept back: when it finds no memory, that ends it as a budget would,
/// and the caller meets the failure when it calls again. With nothing due to show, it throws std::bad_alloc.
template <class Work>
void show_what_is_due(const std::vector<timer_number>& due, Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    if (due.empty()) {
      throw;
    }
  }
}

}  // namespace timing_wheel::detail
