#include "timing_wheel/coroutine.hpp"

#include <coroutine>
#include <ostream>
#include <system_error>

#include "timing_wheel/detail/sleeping.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/executor.hpp"
#include "timing_wheel/task.hpp"

namespace timing_wheel {

const char* to_string(sleep_result result) noexcept {
  switch (result) {
    case sleep_result::elapsed:
      return "elapsed";
    case sleep_result::stopped:
      return "stopped";
    case sleep_result::failed:
      return "failed";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, sleep_result result) { return out << to_string(result); }

namespace detail {

void report_to(std::error_code* error, std::error_code code) {
  if (error != nullptr) {
    *error = code;
  } else if (code == timer_errc::stopped) {
    throw timer_error(timer_errc::stopped);
  } else {
    throw timer_error(code, "the executor of a sleep");
  }
}

bool awaited_sleep::await_ready() noexcept { return what_.stop.stop_requested() && set(stop); }

bool awaited_sleep::await_suspend(std::coroutine_handle<> coroutine) {
  coroutine_ = coroutine;
  if (what_.stop.stop_possible()) {
    on_stop_.emplace(what_.stop, stop_request{this});
  }
  if (begin(what_, what_.error)) {
    return true;
  }
  how_ = wake_reason::refused;
  return false;
}

sleep_result awaited_sleep::await_resume() {
  on_stop_.reset();
  handle_ = {};
  if (how_ == wake_reason::refused) {
    return sleep_result::failed;
  }
  const bool is_stopped = has(stop);
  std::error_code error;
  if (how_ == wake_reason::refused_by_executor) {
    error = std::make_error_code(std::errc::resource_unavailable_try_again);
  } else if (how_ == wake_reason::dropped && !is_stopped) {
    error = timer_errc::stopped;
  }
  if (error || what_.error != nullptr) {
    report_to(what_.error, error);
  }
  if (error) {
    return sleep_result::failed;
  }
  return is_stopped ? sleep_result::stopped : sleep_result::elapsed;
}

awaited_sleep::~awaited_sleep() {
  if (!handle_) {
    return;  // it has not begun, or has been resumed
  }
  // The frame goes while the coroutine sleeps. What has begun to ring sees `taken`, and is waited for.
  set(taken);
  on_stop_.reset();
  handle_.cancel_and_wait();
  if (alarm_ != nullptr) {
    alarm_->turn_off();  // `stop` has returned it, or an executor has it
  }
}

void awaited_sleep::wake(sleeping& of, wake_reason how) { static_cast<awaited_sleep&>(of).pass_on(how); }

// The frame may have gone when this returns.
void awaited_sleep::pass_on(wake_reason how) {
  if (is_handed_over_) {
    how_ = how == wake_reason::dropped ? wake_reason::refused_by_executor : how_;
    resume();
    return;
  }
  how_ = how;
  if (what_.on) {
    hand_over(how);
  } else {
    resume();
  }
}

// If the executor throws, the coroutine has been resumed: by the task, or because the task is destroyed. What it throws
// may come from the coroutine, which an executor has run at once. A timer that fires passes it on to `on_error`; one
// that is dropped, by a destructor perhaps, cannot.
void awaited_sleep::hand_over(wake_reason how) {
  is_handed_over_ = true;
  const executor_ref on = what_.on;
  try {
    on(task(alarm(*this)));
  } catch (...) {
    if (how == wake_reason::fired) {
      throw;
    }
  }
}

void awaited_sleep::resume() {
  if (set(taken)) {
    coroutine_.resume();
  }
}

}  // namespace detail

}  // namespace timing_wheel
