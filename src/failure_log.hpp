#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "timing_wheel/tick.hpp"

namespace timing_wheel::detail {

/// Tells of callbacks that threw, on standard error: the first, and then at most one line a second.
///
/// Thread safety: any thread.
class failure_log {
 public:
  void report(const std::exception_ptr& failure, std::uint64_t tag, time_point now) noexcept;

 private:
  // Memory order: relaxed; it only keeps the lines apart.
  std::atomic<time_point::rep> silent_until_{time_point::min().time_since_epoch().count()};
};

}  // namespace timing_wheel::detail
