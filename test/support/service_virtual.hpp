#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

/// A callback.
inline void nothing() {}

constexpr time_point at(std::chrono::nanoseconds since_epoch) { return time_point(since_epoch); }

inline std::optional<time_point> next_10ms(time_point previous) { return previous + std::chrono::milliseconds(10); }

/// For `on_error`.
inline void ignore(const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) {}

/// The code and the message of the `timer_error` that `action` throws; empty if it throws none.
struct refusal {
  std::error_code code;
  std::string message;
};

template <class Action>
refusal refusal_of(Action action) {
  try {
    action();
  } catch (const timer_error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

/// An executor that keeps the tasks that it is given, for the test to run, drop or hold on to. It must outlive the
/// service. Thread safety: any thread.
class kept_tasks {
 public:
  /// The executor. `this` must stay where it is.
  [[nodiscard]] auto taking() {
    return [this](task&& work) {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(work));
    };
  }

  [[nodiscard]] std::size_t size() const noexcept {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }

  /// Runs those that are kept now, in the order in which they came. \returns how many.
  std::size_t run() {
    std::vector<task> now = take();
    for (task& one : now) {
      one();
    }
    return now.size();
  }

  [[nodiscard]] std::vector<task> take() noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(tasks_, {});
  }

  /// Destroys them without a call.
  void drop() { static_cast<void>(take()); }

 private:
  mutable std::mutex mutex_;
  std::vector<task> tasks_;
};

}  // namespace timing_wheel::test
