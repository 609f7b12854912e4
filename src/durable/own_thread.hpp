#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "durable/node/worker_threads.hpp"
#include "durable/step_driver.hpp"

namespace timing_wheel::durable {

/// Calls steps of a scheduler on a thread of its own, and has the threads for its runs.
///
/// Invariant: a step begins after each `wake`, until `leave`: the flag is set first, and the thread takes it back
/// before the step.
///
/// Thread safety: see `step_driver`.
class own_thread final : public step_driver {
 public:
  /// \param runs_on how many threads there are for runs; with 0 it has none, and `start_run` runs.
  /// \throws std::system_error if a thread cannot be had.
  own_thread(run_gate& gate, step each, unsigned runs_on);
  ~own_thread() override { leave(); }

  void begin() override {}
  void wake() override;
  [[nodiscard]] std::size_t threads() const noexcept override { return pool_ ? pool_->size() : 0; }
  void start_run(run_gate::run_task run) override;
  [[nodiscard]] bool finish(std::chrono::steady_clock::time_point until) override;
  void leave() override;

 private:
  void loop();

  run_gate& gate_;
  const step step_;
  std::unique_ptr<worker_threads> pool_;

  std::mutex mutex_;  // guards what follows, but for the thread
  std::condition_variable changed_;
  bool woken_ = false;
  bool idle_ = false;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace timing_wheel::durable
