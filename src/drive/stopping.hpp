#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <vector>

#include "drive/driver.hpp"

namespace timing_wheel::detail {

/// How a service ends: its phases, and who waits for whom.
///
/// | What ends the service | waits for |
/// |---|---|
/// | a thread outside the service | the pollers, or the thread that drives; then the callbacks that still run |
/// | a callback of the service, or its executor | nothing |
///
/// The thread that destroys the front frees what the service holds. If a call further out on that thread still uses the
/// service (inside_service.hpp), the last owner frees it.
///
/// Thread safety: any thread.
class stopping {
 public:
  stopping(std::deque<lane>& lanes, const shard_group& all, service_context& context) noexcept
      : lanes_(lanes), shards_(all), context_(context) {}

  /// `timer::stop`.
  std::vector<pending_task> take_the_rest();
  /// `timer::stop_discard`.
  std::size_t discard_the_rest();
  /// `timer::stop_run_now`.
  std::size_t run_the_rest();
  /// `timer::stop_drain`.
  std::vector<pending_task> drain(time_point until);

  /// The destructor of the front. If that was called by code that the service runs, the rest is left to `bury`.
  void destroy() noexcept;

  /// The destructor of the service, when nobody drives it any more: if code that it ran has destroyed the front, what
  /// the service holds of the user's goes now. If that code has not ended yet, it goes with the last handle and task.
  void bury() noexcept;

  /// Whether this thread is in code of the user's that the service waits for.
  [[nodiscard]] bool is_inside() const noexcept;

 private:
  void drive_until_idle(time_point until);
  [[nodiscard]] lane* lane_of_this_thread() const noexcept;
  void enter(phase next) noexcept;
  void end() noexcept;
  void wait() noexcept;
  void retire() noexcept;

  std::deque<lane>& lanes_;
  const shard_group& shards_;
  service_context& context_;
  // Relaxed: whoever destroys the front still owns the service then, and the last owner acquires what the others did.
  std::atomic<bool> orphaned_{false};
};

}  // namespace timing_wheel::detail
