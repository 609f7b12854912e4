#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "timing_wheel/time.hpp"

namespace timing_wheel::detail {

/// Where exceptions of user code go: to the user's `on_error`; without one, or if that throws, to standard error, at
/// most one line a second of each kind (who threw, and what the exception says).
///
/// It remembers the last sixteen kinds; with more of them at a time, some may be told more often. If it remembered one,
/// two kinds that come in turn, a thousand times in a second, would be a thousand lines instead of two.
/// Thread safety: any thread.
class error_sink {
 public:
  using handler = std::function<void(std::exception_ptr, std::uint64_t)>;

  explicit error_sink(handler on_error) : on_error_(std::move(on_error)) {}

  /// Lets go of the user's handler. \pre nobody reports any more.
  void retire() noexcept { on_error_ = nullptr; }

  /// The exception that is being handled, of `who` ("a callback"), for the timer with `tag`. If it is none, `who` has
  /// ended its thread: see `report_ended_thread`. \pre in a catch clause.
  void report(const char* who, std::uint64_t tag, time_point now) noexcept;

 private:
  struct kind {
    std::size_t hash = 0;
    time_point silent_until = time_point::min();
  };

  void give(const std::exception_ptr& failure, std::uint64_t tag) const;
  void print(const std::exception_ptr& failure, const char* who, std::uint64_t tag, time_point now) noexcept;
  [[nodiscard]] bool is_news(const char* who, std::string_view what, time_point now) noexcept;

  handler on_error_;  // immutable until `retire`

  std::mutex mutex_;  // guards kinds_
  std::array<kind, 16> kinds_;
};

/// Says so on standard error and aborts: `who` has ended its thread, which the service still needs. \pre what unwinds
/// is no exception of C++.
[[noreturn]] void report_ended_thread(const char* who = "a callback") noexcept;

}  // namespace timing_wheel::detail
