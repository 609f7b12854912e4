#include "durable/lease_thread.hpp"

#include <algorithm>
#include <utility>

namespace timing_wheel::durable {

lease_thread::lease_thread(run_gate& gate, std::function<std::chrono::microseconds()> extend)
    : gate_(gate), extend_(std::move(extend)), thread_([this] { loop(); }) {}

void lease_thread::loop() {
  const run_gate::enter inside(gate_);
  std::unique_lock lock(mutex_);
  while (!over_) {
    woken_ = false;
    lock.unlock();
    const std::chrono::microseconds pause = extend_();
    lock.lock();
    const auto is_woken = [this] { return woken_ || over_; };
    if (pause == std::chrono::microseconds::max()) {
      changed_.wait(lock, is_woken);
    } else {
      changed_.wait_for(lock, std::min<std::chrono::microseconds>(pause, std::chrono::hours(1)), is_woken);
    }
  }
}

void lease_thread::wake() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void lease_thread::leave() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace timing_wheel::durable
