#pragma once

#include "timer_owner.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

/// Says, while it lives, that its thread runs the callback of a timer; so that whoever would wait for that timer, or for the
/// service, can see that it would wait for itself. Frames of one thread lie in one another, as calls do.
class run_frame {
 public:
  run_frame(const void* service, const timer_owner* owner, timer_key key) noexcept
      : service_(service), owner_(owner), key_(key), outer_(innermost) {
    innermost = this;
  }
  ~run_frame() { innermost = outer_; }
  run_frame(const run_frame&) = delete;
  run_frame& operator=(const run_frame&) = delete;

  /// Whether this thread is in a callback of that timer, or of that service.
  [[nodiscard]] static bool is_in(const timer_owner* owner, timer_key key) noexcept {
    return any([&](const run_frame& frame) { return frame.owner_ == owner && frame.key_ == key; });
  }
  [[nodiscard]] static bool is_in(const void* service) noexcept {
    return any([&](const run_frame& frame) { return frame.service_ == service; });
  }

 private:
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
  const timer_owner* owner_;
  timer_key key_;
  const run_frame* outer_;
};

/// A handle for the length of a callback, which counts no reference: whoever runs the callback keeps the shard.
class borrowed_handle {
 public:
  borrowed_handle(timer_owner* owner, timer_key key) noexcept : handle_(owner, key) {}
  ~borrowed_handle() {}  // NOLINT(modernize-use-equals-default): the handle must not drop what it did not count
  borrowed_handle(const borrowed_handle&) = delete;
  borrowed_handle& operator=(const borrowed_handle&) = delete;

  [[nodiscard]] const timer_handle& get() const noexcept { return handle_; }

 private:
  union {
    timer_handle handle_;
  };
};

}  // namespace timing_wheel::detail
