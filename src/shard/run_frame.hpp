#pragma once

#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

class timer_owner;

/// What a thread does for a service, while it runs code of the user's, or may.
enum class doing {
  callback,
  hand_over,  // it has called the executor
  run_now,    // it runs the rest, in `stop_run_now`
  drain,      // it waits for the rest, or runs it, in `stop_drain`
  call,       // it is in a call of the front that may run such code: see inside_service.hpp
};

/// Says, while it lives, what its thread does; so that whoever would wait for a timer, or for the service, can see that
/// it would wait for itself. Frames of one thread lie in one another, as calls do.
class run_frame {
 public:
  run_frame(const void* service, doing what) noexcept : run_frame(service, what, nullptr, {}) {}
  run_frame(const void* service, const timer_owner* owner, timer_id id) noexcept
      : run_frame(service, doing::callback, owner, id) {}
  /// For one callback after another; `next` says of which timer.
  run_frame(const void* service, const timer_owner* owner) noexcept : run_frame(service, owner, {}) {}
  void next(timer_id id) noexcept { id_ = id; }
  ~run_frame() { innermost = outer_; }
  run_frame(const run_frame&) = delete;
  run_frame& operator=(const run_frame&) = delete;

  /// Whether this thread is in a callback of that timer.
  [[nodiscard]] static bool is_in(const timer_owner* owner, timer_id id) noexcept {
    return any([&](const run_frame& frame) { return frame.owner_ == owner && frame.id_ == id; });
  }
  /// Whether this thread is in code of the user's that the service waits for.
  [[nodiscard]] static bool is_called_by(const void* service) noexcept {
    return any([&](const run_frame& frame) {
      return frame.service_ == service && (frame.what_ == doing::callback || frame.what_ == doing::hand_over);
    });
  }
  /// Whether a call further out on this thread goes on to use the service.
  [[nodiscard]] static bool is_in(const void* service) noexcept {
    return any([&](const run_frame& frame) { return frame.service_ == service; });
  }
  [[nodiscard]] static bool is_in(const void* service, doing what) noexcept {
    return any([&](const run_frame& frame) { return frame.service_ == service && frame.what_ == what; });
  }

 private:
  run_frame(const void* service, doing what, const timer_owner* owner, timer_id id) noexcept
      : service_(service), what_(what), owner_(owner), id_(id), outer_(innermost) {
    innermost = this;
  }

  template <class Matches>
  static bool any(Matches matches) noexcept {
    const run_frame* frame = innermost;
    while (frame != nullptr && !matches(*frame)) {
      frame = frame->outer_;
    }
    return frame != nullptr;
  }

  static inline thread_local constinit const run_frame* innermost = nullptr;

  const void* service_;
  doing what_;
  const timer_owner* owner_;
  timer_id id_;
  const run_frame* outer_;
};

}  // namespace timing_wheel::detail
