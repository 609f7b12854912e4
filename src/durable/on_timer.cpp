#include "durable/on_timer.hpp"

#include <exception>
#include <utility>

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

// Needs no memory to say that there was none.
std::exception_ptr refusal(std::error_code why) noexcept {
  try {
    throw timer_error(why, "the scheduler looks again after a poll");
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

on_timer::on_timer(run_gate& gate, step each, timer& driven_by, std::chrono::milliseconds beat, failures& reported)
    : gate_(gate), step_(std::move(each)), timer_(driven_by), beat_(beat), failures_(reported) {}

void on_timer::begin() {
  timer_handle beats = timer_.schedule_every(beat_, [this] { this->beat(); });
  const std::scoped_lock lock(mutex_);
  heartbeat_ = std::move(beats);
}

// If the timer has refused to arm another, the work is done here.
void on_timer::beat() {
  {
    const std::scoped_lock lock(mutex_);
    if (armed_.status() != timer_status::finished) {
      return;
    }
  }
  drive(false);
}

void on_timer::drive(bool as_armed) {
  const run_gate::enter inside(gate_);
  const std::unique_lock driving(driving_);
  progress made = step_();
  while (made.pause == microseconds::zero()) {
    made = step_();
  }
  if (made.is_idle) {
    const std::scoped_lock lock(mutex_);
    heartbeat_.cancel();
  }
  arm(made.is_idle ? microseconds::max() : made.pause, as_armed);
}

bool on_timer::finish(std::chrono::steady_clock::time_point until) {
  while (!step_until_idle(until)) {
    if (std::chrono::steady_clock::now() >= until) {
      return false;
    }
    gate_.wait_for_an_end(std::chrono::milliseconds(10));  // runs on an executor's threads, or in a callback
  }
  leave_nothing_armed();
  return true;
}

// A callback that drives may hang in a handler.
bool on_timer::step_until_idle(std::chrono::steady_clock::time_point until) {
  const run_gate::enter inside(gate_);
  std::unique_lock driving(driving_, std::defer_lock);
  if (until == std::chrono::steady_clock::time_point::max()) {
    driving.lock();
  } else if (!driving.try_lock()) {  // a timed mutex would do, but GCC 12's thread sanitizer does not know its lock
    return false;
  }
  return step_().is_idle;
}

// Nothing is posted any more, so nothing arms the timer anew.
void on_timer::leave_nothing_armed() {
  const run_gate::enter inside(gate_);
  heartbeat_.cancel_and_wait();
  const std::unique_lock driving(driving_);
  {
    const std::scoped_lock lock(mutex_);
    armed_.cancel();
  }
  static_cast<void>(step_());
  const std::scoped_lock lock(mutex_);
  over_ = true;  // a thread that comes late for a run asks for no step
}

void on_timer::leave() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  heartbeat_.cancel_and_wait();
  armed_.cancel_and_wait();
}

// \param at_the_end of the callback that was armed.
void on_timer::arm(microseconds pause, bool at_the_end) {
  std::error_code refused;
  {
    const std::scoped_lock lock(mutex_);
    if (at_the_end && std::exchange(again_, false)) {
      pause = microseconds::zero();
    }
    if (over_ || pause == microseconds::max()) {
      return;
    }
    if (at_the_end || !serves(pause, refused)) {
      timer_handle next = timer_.schedule_after(
          pause, [this] { drive(true); }, {}, refused);
      armed_ = refused ? armed_ : std::move(next);
    }
  }
  if (refused) {
    failures_.report({"timer", {}, {}, refusal(refused)});
  }
}

// Under the lock. Whether the timer that is armed is early enough, or is now; or, running, looks again. One that cannot
// be moved stays as it is.
bool on_timer::serves(microseconds pause, std::error_code& refused) {
  if (armed_.status() == timer_status::pending && armed_.remaining() <= pause) {
    return true;
  }
  if (armed_.reschedule_after(pause, refused) || refused) {
    return true;
  }
  const bool running = armed_.status() == timer_status::running;
  again_ = again_ || running;
  return running;
}

}  // namespace timing_wheel::durable
