#pragma once

#include <chrono>
#include <memory>
#include <timing_wheel/timing_wheel.hpp>
#include <utility>

/// An action that is run again and again, until `cancel`; from the action itself too.
class repetition {
 public:
  template <class Timer, class Action>
  repetition(Timer& timer, std::chrono::nanoseconds period, Action action) : next_(std::make_shared<next_run>()) {
    arm(timer, period, std::move(action), next_);
  }

  void cancel() const {
    next_->over = true;
    next_->handle.cancel();
  }

 private:
  struct next_run {
    timing_wheel::timer_handle handle;
    bool over = false;
  };

  template <class Timer, class Action>
  static void arm(Timer& timer, std::chrono::nanoseconds period, Action action, std::shared_ptr<next_run> next) {
    timing_wheel::timer_handle& handle = next->handle;
    handle = timer.schedule_after(period, [&timer, period, action = std::move(action), next]() mutable {
      action();
      if (!next->over) {
        arm(timer, period, std::move(action), next);
      }
    });
  }

  std::shared_ptr<next_run> next_;
};

/// Runs `action` every `period`, on the thread of `timer`, which is the only one that may cancel it.
template <class Timer, class Action>
repetition schedule_every(Timer& timer, std::chrono::nanoseconds period, Action action) {
  return repetition(timer, period, std::move(action));
}
