#pragma once

#include <atomic>
#include <cstdint>

#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

/// What a handle shows of its timer.
struct timer_view {
  timer_status status = timer_status::finished;
  time_point deadline;
  std::uint64_t tag = 0;
};

/// What a handle sees of the shard that its timer lives in; it stays until the last handle is gone.
///
/// Thread safety: all members may be called from any thread.
class timer_owner {
 public:
  timer_owner() = default;
  timer_owner(const timer_owner&) = delete;
  timer_owner& operator=(const timer_owner&) = delete;

  virtual cancel_result cancel(timer_key key) noexcept = 0;
  virtual cancel_result cancel_and_wait(timer_key key) noexcept = 0;
  virtual bool reschedule(timer_key key, time_point deadline) = 0;
  [[nodiscard]] virtual timer_view look(timer_key key) noexcept = 0;
  [[nodiscard]] virtual time_point now() const noexcept = 0;

  // Memory order: a new reference is made from an existing one, so the increment orders nothing. The decrement releases what this
  // reference did, and the last one acquires it, before the object is destroyed.
  void add_references(std::uint64_t count) noexcept { references_.fetch_add(count, std::memory_order_relaxed); }
  void drop_references(std::uint64_t count) noexcept {
    if (references_.fetch_sub(count, std::memory_order_acq_rel) == count) {
      delete this;
    }
  }

 protected:
  virtual ~timer_owner() = default;

 private:
  alignas(64) std::atomic<std::uint64_t> references_{1};
};

}  // namespace timing_wheel::detail
