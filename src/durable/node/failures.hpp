#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable {

/// Where failures of the background go: to `scheduler_options::on_failure`; or, if there is none or it throws, to
/// standard error, each `failure::what` at most once a second.
///
/// Thread safety: any thread.
class failures {
 public:
  explicit failures(std::function<void(const failure&)> told) : told_(std::move(told)) {}

  /// An exception that is none (a thread was ended) is told on standard error, and the program aborted.
  void report(const failure& what) noexcept;

 private:
  void write(const failure& what);

  const std::function<void(const failure&)> told_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::chrono::steady_clock::time_point, std::less<>> last_;
};

/// What an exception says. As `failures::report` for none.
[[nodiscard]] std::string text_of(const std::exception_ptr& error);

/// The same; empty if there is no memory for it.
[[nodiscard]] std::string words_of(const std::exception_ptr& error) noexcept;

/// An exception that says so; or that there was no memory for one.
[[nodiscard]] std::exception_ptr exception_of(const std::string& reason) noexcept;

}  // namespace timing_wheel::durable
