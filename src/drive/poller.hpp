#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "drive/driver.hpp"

namespace timing_wheel::detail {

/// The one loop that sleeps, and the thread that it runs on, if the service has one.
///
/// Thread safety: `poll` is for the thread that drives; the rest may be called from any.
class poller {
 public:
  poller(driver& d, const shard_group& mine, service_context& context, sleeper& sleeps) noexcept
      : driver_(d), shards_(mine), context_(context), sleeper_(sleeps) {}

  /// Starts the thread, which polls until the driver is over, and keeps `owner` alive until then. It blocks signals,
  /// bears a name with `number` (none for 0), and calls `prepare` first. \throws std::system_error if no thread can be
  /// had; std::bad_alloc.
  void start(std::shared_ptr<void> owner, std::uint32_t number, std::function<void()> prepare);

  /// Runs what is due, and sleeps until there is more, until `is_over()`, or until a time.
  void poll(time_point until, const std::function<bool()>& is_over) noexcept;

  /// Whether it has a thread, or had one.
  [[nodiscard]] bool has_thread() const noexcept { return has_thread_; }

  /// Waits for the end of the thread, if there is one.
  void join();
  /// Lets the thread end by itself, unless another one is in `join`. For who is on it.
  void detach();

 private:
  std::size_t run_due(time_point until) noexcept;

  driver& driver_;
  const shard_group& shards_;
  service_context& context_;
  sleeper& sleeper_;
  bool has_thread_ = false;  // immutable after `start`
  std::mutex mutex_;         // guards thread_; held while joining it
  std::thread thread_;
};

}  // namespace timing_wheel::detail
