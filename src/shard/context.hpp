#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/slab.hpp"
#include "report/error_sink.hpp"
#include "shard/key_code.hpp"
#include "shard/run_frame.hpp"
#include "shared/fork_watch.hpp"
#include "system/sleeper.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/detail/waiting.hpp"
#include "timing_wheel/executor.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::detail {

/// The clock of a service: the monotonic one, or one that is set by hand. Its wall clock is then the same.
///
/// Thread safety: any thread may read it; one at a time sets it. Memory order: relaxed; it publishes nothing but
/// itself.
class service_clock {
 public:
  service_clock() noexcept = default;
  explicit service_clock(time_point start) noexcept : by_hand_(true), shown_(start.time_since_epoch().count()) {}

  [[nodiscard]] bool by_hand() const noexcept { return by_hand_; }

  [[nodiscard]] time_point now() const noexcept {
    if (by_hand_) [[unlikely]] {
      return time_point(std::chrono::nanoseconds(shown_.load(std::memory_order_relaxed)));
    }
    return std::chrono::steady_clock::now();
  }
  [[nodiscard]] wall_time wall() const noexcept {
    return by_hand_ ? wall_time(now().time_since_epoch()) : wall_time(std::chrono::system_clock::now());
  }

  /// A step back too. \pre by hand.
  void set(time_point when) noexcept { shown_.store(when.time_since_epoch().count(), std::memory_order_relaxed); }
  /// A step back is ignored. \pre by hand.
  void move_to(time_point when) noexcept { set(std::max(now(), when)); }

 private:
  const bool by_hand_ = false;
  std::atomic<std::int64_t> shown_{0};
};

/// Whether `when` has come; the end of time never does.
[[nodiscard]] constexpr bool has_come(time_point when, time_point now) noexcept {
  return now >= when && when != time_point::max();
}

/// What the shards of one service share. It stays until the last handle is gone, so that a handle may wake the driver
/// at any time.
///
/// Immutable after construction, but for parts that are thread-safe by themselves.
struct service_context {
  /// `start` null: the monotonic clock. A service by hand lives on in a child of `fork`; another one stays behind.
  service_context(const timer_options& options, std::uint32_t lanes, const time_point* start,
                  std::function<void()> call_if_earlier)
      : clock(start == nullptr ? service_clock() : service_clock(*start)),
        scale(clock.now(), options.tick),
        door(options.max_pending),
        sleepers(lanes),
        errors(options.on_error),
        run_on(options.executor),
        on_thread_start(options.on_thread_start),
        on_earlier(std::move(call_if_earlier)),
        process(start == nullptr),
        keys(this, std::chrono::steady_clock::now()) {}

  /// A deadline of the wall clock on the service's clock, and the present.
  struct converted {
    time_point present;
    time_point deadline;
  };
  [[nodiscard]] converted from_wall(wall_time deadline) const noexcept {
    // The wall clock first: what delays this thread before the other is read makes the deadline later, never earlier.
    const time_point wall(clock.wall().time_since_epoch());
    const time_point present = clock.now();
    if (deadline == wall_time::max()) {
      return {present, time_point::max()};
    }
    return {present, saturating_add(time_point(deadline.time_since_epoch()), saturating_difference(present, wall))};
  }

  /// Wakes the thread that drives a lane, and sleeps there, if `event` comes before what it waits for. Costs one load
  /// if not.
  void wake_for(tick event, sleeper& driver) noexcept {
    if (driver.waits_past(event)) {
      wake_driver(event, driver);
    }
  }

  /// Whether a loop of the user's drives: to wake the loop calls the user's code.
  [[nodiscard]] bool tells() const noexcept { return tells_; }

  /// Where the driver of a shard sleeps. The shards are dealt to the lanes in turn.
  [[nodiscard]] sleeper& sleeper_of(std::uint32_t shard) noexcept { return sleepers[shard % sleepers.size()]; }

  /// Lets go of what belongs to the user, who may have put handles or tasks into it. Waits for those who are telling
  /// the loop. \pre nothing runs any more, and nothing will be announced.
  void retire() noexcept {
    wait_for_tellers();
    run_on = {};
    errors.retire();
    on_thread_start = nullptr;
    on_earlier = nullptr;
  }

  service_clock clock;
  const tick_scale scale;
  admission door;
  std::vector<sleeper> sleepers;  // of the lanes, one each
  error_sink errors;
  executor run_on;                        // immutable until `retire`
  std::function<void()> on_thread_start;  // immutable until `retire`
  std::function<void()> on_earlier;       // immutable until `retire`; empty unless a loop of the user's drives
  fork_watch process;
  const key_code keys;

 private:
  [[gnu::noinline]] void wake_driver(tick event, sleeper& driver) noexcept {
    if (!tells_) {
      driver.wake();
      return;
    }
    const run_frame frame(this, doing::call);  // `on_earlier`, or `on_error`, may destroy the service
    tellers_.fetch_add(1, std::memory_order_acq_rel);
    if (driver.answer_for(event)) {
      driver.nudge();  // in case that the loop's thread is draining
      try {
        on_earlier();
      } catch (...) {
        errors.report("on_earlier", 0, clock.now());
      }
    }
    if (tellers_.fetch_sub(1, std::memory_order_seq_cst) == 1) {  // before `notify_all` looks for waiting threads
      notify_all(tellers_);
    }
  }

  // A thread that enters before the first of these operations is waited for. One that enters after it acquires what
  // this thread has done before, and so sees that nothing is announced any more: it tells nobody.
  void wait_for_tellers() noexcept {
    unsigned inside = tellers_.fetch_add(0, std::memory_order_acq_rel);
    while (inside != 0) {
      wait_while(tellers_, inside, std::memory_order_acquire);
      inside = tellers_.load(std::memory_order_acquire);
    }
  }

  const bool tells_ = static_cast<bool>(on_earlier);
  std::atomic<unsigned> tellers_{0};  // threads that may be telling the loop: a handle may, while the service ends
};

}  // namespace timing_wheel::detail
