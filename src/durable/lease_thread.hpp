#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "durable/run_gate.hpp"

namespace timing_wheel::durable {

/// A thread that extends a scheduler's leases and does nothing else, so that no handler, claim or end keeps it waiting.
///
/// Thread safety: `wake` from any thread, the rest by one at a time.
class lease_thread {
 public:
  /// \param extend extends what is due, inside the scheduler, and returns how long there is nothing to do:
  /// `std::chrono::microseconds::max()` until it is woken. \throws std::system_error if no thread can be had.
  lease_thread(run_gate& gate, std::function<std::chrono::microseconds()> extend);
  lease_thread(const lease_thread&) = delete;
  lease_thread& operator=(const lease_thread&) = delete;
  ~lease_thread() { leave(); }

  /// Asks for an extension soon.
  void wake();
  /// No extension from now on, and none is under way when it returns.
  void leave();

 private:
  void loop();

  run_gate& gate_;
  const std::function<std::chrono::microseconds()> extend_;

  std::mutex mutex_;  // guards what follows, but for the thread
  std::condition_variable changed_;
  bool woken_ = false;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace timing_wheel::durable
