#include "durable/own_thread.hpp"

#include <algorithm>
#include <utility>

#include "shared/thread_setup.hpp"

namespace timing_wheel::durable {

own_thread::own_thread(run_gate& gate, step each, unsigned runs_on)
    : gate_(gate),
      step_(std::move(each)),
      pool_(runs_on == 0 ? nullptr : std::make_unique<worker_threads>(runs_on)),
      thread_(detail::start_named_thread("durable_checks", [this] { loop(); })) {}

void own_thread::loop() {
  const run_gate::enter inside(gate_);
  std::unique_lock lock(mutex_);
  while (!over_) {
    woken_ = false;
    lock.unlock();
    const progress made = step_();
    lock.lock();
    idle_ = made.is_idle;
    if (idle_) {
      changed_.notify_all();
    }
    const auto pause = std::min<std::chrono::microseconds>(made.pause, std::chrono::hours(1));
    changed_.wait_for(lock, pause, [this] { return woken_ || over_; });
  }
}

void own_thread::wake() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void own_thread::start_run(run_gate::run_task run) {
  if (pool_) {
    pool_->post(std::move(run));
  } else {
    run();
  }
}

bool own_thread::finish(std::chrono::steady_clock::time_point until) {
  const auto is_idle = [this] { return idle_; };
  std::unique_lock lock(mutex_);
  if (until == std::chrono::steady_clock::time_point::max()) {
    changed_.wait(lock, is_idle);
  } else {
    changed_.wait_until(lock, until, is_idle);
  }
  return idle_;
}

void own_thread::leave() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
  pool_.reset();
}

}  // namespace timing_wheel::durable
