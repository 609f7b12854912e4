#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "service/driver.hpp"

namespace timing_wheel::detail {

/// The one loop that sleeps, and the thread that it runs on, if the service has one.
///
/// Thread safety: `poll` is for the thread that drives; the rest may be called from any.
class poller {
 public:
  poller(driver& d, const shards& all, service_context& context) noexcept
      : driver_(d), shards_(all), context_(context) {}

  /// Starts the thread, which polls until the driver is over, and keeps `owner` alive until then. It blocks signals and
  /// bears a name. \throws std::system_error if no thread can be had.
  void start(std::shared_ptr<void> owner);

  /// Runs what is due, and sleeps until there is more, until `is_over()`, or until a time.
  void poll(time_point until, const std::function<bool()>& is_over) noexcept;

  /// Whether it has a thread, or had one.
  [[nodiscard]] bool has_thread() const noexcept { return has_thread_; }

  /// Waits for the end of the thread, if there is one.
  void join();
  /// Lets the thread end by itself.
  void detach();

 private:
  std::size_t run_due(time_point until) noexcept;

  driver& driver_;
  const shards& shards_;
  service_context& context_;
  bool has_thread_ = false;  // immutable after `start`
  std::mutex mutex_;         // guards thread_; held while joining it
  std::thread thread_;
};

}  // namespace timing_wheel::detail
