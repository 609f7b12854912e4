#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string_view>

#include "timing_wheel/tick.hpp"

namespace timing_wheel::detail {

/// Tells of callbacks that threw, on standard error: of each kind (what the exception says) at most one line a second.
///
/// It remembers the last few kinds; with more of them at a time, some may be told more often.
/// Thread safety: any thread.
class failure_log {
 public:
  void report(const std::exception_ptr& failure, std::uint64_t tag, time_point now) noexcept;

 private:
  struct kind {
    std::size_t hash = 0;
    time_point silent_until = time_point::min();
  };

  [[nodiscard]] bool is_news(std::string_view what, time_point now) noexcept;

  std::mutex mutex_;  // guards kinds_
  std::array<kind, 16> kinds_;
};

}  // namespace timing_wheel::detail
