#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "durable/run_gate.hpp"

namespace timing_wheel::durable {

/// What a step of a scheduler has come to.
struct progress {
  std::chrono::microseconds pause;  ///< How long there is nothing to do, unless the driver is woken.
  bool is_idle;                     ///< The scheduler was stopped, and all runs have ended.
};

/// Calls a scheduler's steps, one at a time, when there is something to do. A step is called inside the scheduler
/// (`run_gate::enter`), and throws nothing.
///
/// Thread safety: `wake` from any thread, `start_run` from a step; the rest by one thread at a time.
class step_driver {
 public:
  using step = std::function<progress()>;

  step_driver() = default;
  step_driver(const step_driver&) = delete;
  step_driver& operator=(const step_driver&) = delete;
  virtual ~step_driver() = default;

  /// The scheduler has a node from now on. \throws what a timer says; then it has none.
  virtual void begin() = 0;
  /// Asks for a step soon.
  virtual void wake() = 0;
  /// How many threads runs have; 0: that of the steps.
  [[nodiscard]] virtual std::size_t threads() const noexcept = 0;
  /// Gives a run to a thread, or runs it here. \throws what the threads say; then the run is dropped.
  virtual void start_run(run_gate::run_task run) = 0;
  /// The scheduler was stopped: returns when it is idle, but at `until` at the latest. \returns whether it is.
  [[nodiscard]] virtual bool finish(std::chrono::steady_clock::time_point until) = 0;
  /// No step from now on, and none is under way when it returns. Waking has no effect any more.
  virtual void leave() = 0;
};

}  // namespace timing_wheel::durable
