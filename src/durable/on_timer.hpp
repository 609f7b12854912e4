#pragma once

#include <chrono>
#include <mutex>
#include <system_error>

#include "durable/node/failures.hpp"
#include "durable/step_driver.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::durable {

/// Drives a scheduler by the callbacks of a timer, where its runs run, too. A timer is **armed** for the next step; if
/// the timer refuses that, a **heartbeat** at every poll does the work instead: a periodic timer needs nothing to come
/// again.
///
/// Invariants:
/// 1. While a callback of the armed timer is on its way, no other is armed: it looks again at its end. So waiting for
///    the handle that is armed waits for all of them.
/// 2. One step at a time: the thread that steps holds `driving_`.
///
/// Thread safety: see `step_driver`.
class on_timer final : public step_driver {
 public:
  /// All that is given must outlive it. \param beat how often the heartbeat comes.
  on_timer(run_gate& gate, step each, timer& driven_by, std::chrono::milliseconds beat, failures& reported);
  ~on_timer() override { leave(); }

  void begin() override;
  void wake() override { arm(std::chrono::microseconds::zero(), false); }
  [[nodiscard]] std::size_t threads() const noexcept override { return 0; }
  void start_run(run_gate::run_task run) override { run(); }
  [[nodiscard]] bool finish(std::chrono::steady_clock::time_point until) override;
  void leave() override;

 private:
  void beat();
  void drive(bool as_armed);
  [[nodiscard]] bool step_until_idle(std::chrono::steady_clock::time_point until);
  void leave_nothing_armed();
  void arm(std::chrono::microseconds pause, bool at_the_end);
  [[nodiscard]] bool serves(std::chrono::microseconds pause, std::error_code& refused);

  run_gate& gate_;
  const step step_;
  timer& timer_;
  const std::chrono::milliseconds beat_;
  failures& failures_;

  // Held by the thread that steps. It is taken before every other lock, and never under mutex_; the order of all is in
  // docs/concurrency.md.
  std::mutex driving_;

  std::mutex mutex_;  // guards what follows
  timer_handle armed_;
  timer_handle heartbeat_;  // once the scheduler has begun
  bool again_ = false;      // the callback that is on its way is to look again
  bool over_ = false;
};

}  // namespace timing_wheel::durable
