#pragma once

#include <chrono>
#include <ctime>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// Time since the machine's start, that in which it was suspended included: a database's clock runs on meanwhile. By a
/// clock that stops, a lease of before would still seem to last when the machine wakes up.
inline std::chrono::nanoseconds time_since_boot() noexcept {
#if defined(CLOCK_BOOTTIME)
  constexpr clockid_t clock = CLOCK_BOOTTIME;
#else
  constexpr clockid_t clock = CLOCK_MONOTONIC;  // some systems count that time in
#endif
  std::timespec read{};
  clock_gettime(clock, &read);
  return std::chrono::seconds(read.tv_sec) + std::chrono::nanoseconds(read.tv_nsec);
}

}  // namespace timing_wheel::durable
