#include "timing_wheel/detail/sleeping.hpp"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::detail {

// ---- The alarm ----

alarm::alarm(alarm&& other) noexcept : sleep_(std::exchange(other.sleep_, nullptr)) {
  if (sleep_ != nullptr) {
    sleep_->alarm_ = this;
  }
}

alarm::~alarm() {
  if (sleep_ != nullptr && std::exchange(sleep_->alarm_, nullptr) == this) {
    sleep_->ring(sleeping::wake_reason::dropped);
  }
}

void alarm::operator()() {
  if (sleeping* const sleep = std::exchange(sleep_, nullptr); sleep != nullptr) {
    sleep->alarm_ = nullptr;
    sleep->ring(sleeping::wake_reason::fired);
  }
}

// ---- The side of what sleeps ----

bool sleeping::begin(const sleep_time& what, std::error_code* error) {
  starter_ = std::this_thread::get_id();
  const timer_handle started = error == nullptr ? start(what) : start(what, *error);
  if (!started) {
    return false;
  }
  handle_ = started;
  const stop_rule rule = rule_;
  const unsigned before = flags_.fetch_or(armed, std::memory_order_acq_rel);
  if ((before & over) != 0) {
    wake_(*this, end_);
  } else if ((before & stop) != 0) {
    obey(rule, started);
  }
  return true;
}

template <class... Error>
timer_handle sleeping::start(const sleep_time& what, Error&... error) {
  alarm mine(*this);
  const schedule_options options{.tag = what.tag, .window = what.window};
  switch (what.kind) {
    case time_kind::steady:
      return what.by->schedule_at(time_point(what.time), std::move(mine), options, error...);
    case time_kind::wall:
      return what.by->schedule_at(wall_time(what.time), std::move(mine), options, error...);
    case time_kind::delay:
      break;
  }
  return what.by->schedule_after(what.time, std::move(mine), options, error...);
}

// ---- The others' side ----

void sleeping::request_stop() noexcept {
  const stop_rule rule = rule_;
  if ((flags_.fetch_or(stop, std::memory_order_acq_rel) & armed) != 0) {
    const timer_handle mine = handle_;  // this object may go
    obey(rule, mine);
  }
}

// Makes the timer due, or cancels it. Without the memory to move it, what sleeps goes on here.
void sleeping::obey(stop_rule rule, const timer_handle& timer) noexcept {
  std::error_code error;
  if (rule == stop_rule::hurry) {
    timer.reschedule_after(std::chrono::nanoseconds::zero(), error);
  }
  if (error || rule == stop_rule::cancel) {
    timer.cancel();
  }
}

void sleeping::ring(wake_reason how) {
  if (!is_armed_or_waits()) {
    end_ = how;
    set(over);
  } else if (!has(taken)) {
    wake_(*this, how);
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

}  // namespace timing_wheel::detail
