#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "shard/context.hpp"
#include "shard/shards.hpp"

namespace timing_wheel::detail {

/// Runs what is due, share by share over the shards of a lane. One thread at a time drives: the poller, or who is in
/// `advance_to` or in `run_due`, or in a `stop` that drains.
///
/// Thread safety: `run_due` and `run_until` are for the thread that drives; the rest may be called from any.
class driver {
 public:
  driver(const shard_group& mine, service_context& context) noexcept : shards_(mine), context_(context) {}

  [[nodiscard]] tick current_tick() const noexcept { return context_.scale.floor(context_.clock.now()); }

  /// Share by share, until nothing is due, or `budget` callbacks have run, or `until` has come. The first time round
  /// `now` is the present; after that the clock is read anew. \throws std::bad_alloc if a shard was short of memory; it
  /// keeps no other from its share.
  shard::share run_due(tick now, time_point until, std::size_t budget = no_limit);
  shard::share run_due(time_point until, std::size_t budget = no_limit) {
    return run_due(current_tick(), until, budget);
  }

  /// For a clock that is set by hand: from expiration to expiration, and not beyond `when`. \returns how many callbacks
  /// ran.
  std::size_t run_until(time_point when);

  /// Ends `run_due`, and who drives. Release; `is_over` acquires.
  void end() noexcept { over_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// Whether this thread drives.
  [[nodiscard]] bool is_me() const noexcept {
    return who_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  /// For the poller, which drives as long as it lives.
  void set_me() noexcept { who_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  void set_none() noexcept { who_.store(std::thread::id(), std::memory_order_relaxed); }

  /// Makes its thread the one that drives, for the length of one call.
  class seat {
   public:
    struct or_throw {};
    struct or_wait {};
    /// \throws timer_error (`nested_advance`) if it is taken.
    seat(driver& d, or_throw how);
    /// Waits until it is free.
    seat(driver& d, or_wait how);
    ~seat();
    seat(const seat&) = delete;
    seat& operator=(const seat&) = delete;

   private:
    driver& driver_;
  };

  void wait_until_free();

 private:
  bool run_shares(tick now, time_point until, std::size_t budget, shard::share& sum);

  const shard_group& shards_;
  service_context& context_;

  std::atomic<bool> over_{false};
  std::atomic<bool> taken_{false};                       // the seat; acquired and released as a lock
  std::atomic<std::thread::id> who_{std::thread::id()};  // relaxed: a thread only asks whether it is itself
  std::mutex mutex_;                                     // guards the end of `taken_`
  std::condition_variable freed_;                        // with mutex_
};

}  // namespace timing_wheel::detail
