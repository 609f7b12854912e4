#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "shard/context.hpp"
#include "shard/shards.hpp"

namespace timing_wheel::detail {

/// Runs what is due, in turns over the shards of a lane. One thread at a time drives: the poller, or the caller of
/// `advance_to`, of `run_due` or of a `stop` that drains.
///
/// Thread safety: `run_due` and `run_through` are for the thread that drives; the rest may be called from any.
class driver {
 public:
  driver(const shard_group& mine, service_context& context) noexcept : shards_(mine), context_(context) {}

  [[nodiscard]] tick current_tick() const noexcept { return context_.scale.floor(context_.clock.now()); }

  /// Turn by turn, until nothing is due, or `budget` callbacks have run, or `until` has come. The first time round
  /// `now` is the present; after that the clock is read anew. \throws std::bad_alloc if a shard was short of memory; it
  /// keeps no other from its turn.
  turns run_due(tick now, time_point until, std::size_t budget = no_limit);
  turns run_due(time_point until, std::size_t budget = no_limit) { return run_due(current_tick(), until, budget); }

  /// For a clock that is set by hand: from expiration to expiration, and not beyond the tick `last`. \returns how many
  /// callbacks ran.
  std::size_t run_through(tick last);

  /// Ends `run_due`, and the loop that drives. Release; `is_over` acquires.
  void finish() noexcept { over_.store(true, std::memory_order_release); }
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
  bool take_turns(tick now, time_point until, std::size_t budget, turns& sum);

  const shard_group& shards_;
  service_context& context_;
  std::size_t first_ = 0;  // which shard the next call begins with; of the thread that drives

  std::atomic<bool> over_{false};
  std::atomic<bool> taken_{false};                       // the seat; acquired and released as a lock
  std::atomic<std::thread::id> who_{std::thread::id()};  // relaxed: a thread only asks whether it is itself
  std::mutex mutex_;                                     // guards the end of `taken_`
  std::condition_variable freed_;                        // with mutex_
};

/// The one loop that sleeps, and the thread that it runs on, if the service has one.
///
/// Thread safety: `poll` is for the thread that drives; the rest may be called from any.
class poller {
 public:
  poller(driver& d, const shard_group& mine, service_context& context, sleeper& sleeps) noexcept
      : driver_(d), shards_(mine), context_(context), sleeper_(sleeps) {}

  /// Starts the thread, which polls until the driver is over, and keeps `owner` alive until then. It blocks signals,
  /// bears a name with `number` (none for 0), and calls `prepare` first. \throws std::system_error if no thread can be
  /// had; std::bad_alloc.
  void start(std::shared_ptr<void> owner, std::uint32_t number, std::function<void()> prepare);

  /// Runs what is due, and sleeps until there is more, until `is_over()`, or until a time.
  void poll(time_point until, const std::function<bool()>& is_over) noexcept;

  /// Whether it has a thread, or had one.
  [[nodiscard]] bool has_thread() const noexcept { return has_thread_; }

  /// Waits for the end of the thread, if there is one.
  void join();
  /// Lets the thread end by itself, unless another one is in `join`. For a caller on this thread.
  void detach();

 private:
  std::size_t run_due(time_point until) noexcept;

  driver& driver_;
  const shard_group& shards_;
  service_context& context_;
  sleeper& sleeper_;
  bool has_thread_ = false;  // immutable after `start`
  std::mutex mutex_;         // guards thread_; held while joining it
  std::thread thread_;
};

/// Some shards of a service, and what drives them. A service has one lane; with several pollers it has one for each.
///
/// Lanes know nothing of each other: a shard belongs to one of them for ever, and what wakes a driver is in its own
/// shards. A thread that waits for several lanes waits for one after the other.
class lane {
 public:
  /// \throws std::bad_alloc.
  lane(const shards& all, std::uint32_t index, service_context& context)
      : mine(all.of_lane(index, static_cast<std::uint32_t>(context.sleepers.size()))),
        drive(mine, context),
        thread(drive, mine, context, context.sleepers[index]) {}
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Immutable, or thread-safe by themselves.
  const shard_group mine;
  driver drive;
  poller thread;
};

}  // namespace timing_wheel::detail
