#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

inline void nothing() {}

constexpr time_point at(std::chrono::nanoseconds since_epoch) { return time_point(since_epoch); }

inline time_point starting_at(std::chrono::nanoseconds since_epoch) { return at(since_epoch); }

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

/// An executor that keeps the tasks that it is given, for the test to run, drop or hold on to. It must outlive the service.
class kept_tasks {
 public:
  /// The executor. `this` must stay where it is.
  [[nodiscard]] auto taking() {
    return [this](task&& work) { tasks_.push_back(std::move(work)); };
  }

  [[nodiscard]] std::size_t size() const noexcept { return tasks_.size(); }

  /// Runs those that are kept now, in the order in which they came. \returns how many.
  std::size_t run() {
    std::vector<task> now = take();
    for (task& one : now) {
      one();
    }
    return now.size();
  }

  [[nodiscard]] std::vector<task> take() noexcept { return std::exchange(tasks_, {}); }

  /// Destroys them without a call.
  void drop() { static_cast<void>(take()); }

 private:
  std::vector<task> tasks_;
};

}  // namespace timing_wheel::test
