#include "timing_wheel/coroutine.hpp"

#include <chrono>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "timing_wheel/error.hpp"

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

// ---- The alarm ----

alarm::alarm(alarm&& other) noexcept : sleep_(std::exchange(other.sleep_, nullptr)) {
  if (sleep_ != nullptr) {
    sleep_->alarm_ = this;
  }
}

alarm::~alarm() {
  if (sleep_ != nullptr && std::exchange(sleep_->alarm_, nullptr) == this) {
    sleep_->ring(sleeping::end::dropped);
  }
}

void alarm::operator()() {
  if (sleeping* const sleep = std::exchange(sleep_, nullptr); sleep != nullptr) {
    sleep->alarm_ = nullptr;
    sleep->ring(sleeping::end::fired);
  }
}

// ---- The coroutine's side ----

bool sleeping::await_ready() noexcept { return what_.stop.stop_requested() && set(stop); }

bool sleeping::await_suspend(std::coroutine_handle<> coroutine) {
  coroutine_ = coroutine;
  starter_ = std::this_thread::get_id();
  if (what_.stop.stop_possible()) {
    on_stop_.emplace(what_.stop, stop_request{this});
  }
  const timer_handle started = what_.error == nullptr ? start() : start(*what_.error);
  if (!started) {
    end_ = end::refused;
    return false;
  }
  handle_ = started;
  is_suspended_ = true;
  const unsigned before = flags_.fetch_or(armed, std::memory_order_acq_rel);
  if ((before & over) != 0) {
    pass_on(end_);
  } else if ((before & stop) != 0) {
    hurry(started);
  }
  return true;
}

sleep_result sleeping::await_resume() {
  is_suspended_ = false;
  on_stop_.reset();
  if (end_ == end::refused) {
    return sleep_result::failed;
  }
  const bool is_stopped = has(stop);
  std::error_code error;
  if (end_ == end::refused_by_executor) {
    error = std::make_error_code(std::errc::resource_unavailable_try_again);
  } else if (end_ == end::dropped && !is_stopped) {
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

sleeping::~sleeping() {
  if (!is_suspended_) {
    return;
  }
  // The frame goes while the coroutine sleeps. What has begun to ring sees `taken`, and is waited for.
  set(taken);
  on_stop_.reset();
  handle_.cancel_and_wait();
  if (alarm_ != nullptr) {
    alarm_->turn_off();  // `stop` has returned it, or an executor has it
  }
}

template <class... Error>
timer_handle sleeping::start(Error&... error) {
  alarm mine(*this);
  const schedule_options options{.tag = what_.tag, .window = what_.window};
  switch (what_.kind) {
    case time_kind::steady:
      return what_.by->schedule_at(time_point(what_.time), std::move(mine), options, error...);
    case time_kind::wall:
      return what_.by->schedule_at(wall_time(what_.time), std::move(mine), options, error...);
    case time_kind::delay:
      break;
  }
  return what_.by->schedule_after(what_.time, std::move(mine), options, error...);
}

// ---- The others' side ----

void sleeping::request_stop() noexcept {
  if ((flags_.fetch_or(stop, std::memory_order_acq_rel) & armed) != 0) {
    const timer_handle mine = handle_;  // the frame may go
    hurry(mine);
  }
}

// Makes the timer due. Without the memory for that, the coroutine goes on here.
void sleeping::hurry(const timer_handle& timer) noexcept {
  std::error_code error;
  timer.reschedule_after(std::chrono::nanoseconds::zero(), error);
  if (error) {
    timer.cancel();
  }
}

void sleeping::ring(end how) {
  if (!is_armed_or_waits()) {
    end_ = how;
    set(over);
  } else if (!has(taken)) {
    pass_on(how);
  }
}

// \returns false if this thread is the one that is about to arm it, and cannot wait for itself: an `on_earlier` has
// driven the service.
bool sleeping::is_armed_or_waits() const noexcept {
  constexpr int patience = 100;  // the other thread has a few instructions to go, if it is running
  for (int i = 0; !has(armed); ++i) {
    if (std::this_thread::get_id() == starter_) {
      return false;
    }
    if (i < patience) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return true;
}

// The frame may have gone when this returns.
void sleeping::pass_on(end how) {
  if (is_handed_over_) {
    end_ = how == end::dropped ? end::refused_by_executor : end_;
    resume();
    return;
  }
  end_ = how;
  if (what_.on) {
    hand_over();
  } else {
    resume();
  }
}

// If the executor throws, it has destroyed the alarm, so the coroutine has been resumed, and was told.
void sleeping::hand_over() {
  is_handed_over_ = true;
  const executor_ref on = what_.on;
  try {
    on(task(alarm(*this)));
  } catch (...) {  // NOLINT(bugprone-empty-catch): see above
  }
}

void sleeping::resume() {
  if (set(taken)) {
    coroutine_.resume();
  }
}

}  // namespace detail

}  // namespace timing_wheel
