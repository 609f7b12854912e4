#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "system/windows.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::detail {

/// Where one thread sleeps until a tick, and others wake it if something comes earlier.
///
/// No wake-up is lost. The sleeper first announces when it will wake, and then looks at every shard once more, under
/// its lock, before it sleeps. Who adds a timer does so under the lock of a shard, and then reads the announcement. If
/// the shard was looked at after the addition, the sleeper has seen it. If before, the announcement happened before
/// that look, hence before the addition's lock, hence before its reading: the adder sees it, and wakes the sleeper if
/// its timer is earlier.
///
/// The same holds for a loop of the user's, which sleeps in a way of its own: it announces what it is told, and looks
/// again. The adder takes the announcement back, by `answer_for`, and then tells the loop. So of several adders one
/// tells it, and what the loop announces after that stays announced.
///
/// Thread safety: `announce`, `retract` and `sleep` are for the sleeping thread; the rest for any.
class sleeper {
 public:
  /// Says until when the calling thread is going to sleep. Memory order: relaxed; the shards' mutexes order it (see
  /// above).
  void announce(tick until) noexcept { announced_.store(until, std::memory_order_relaxed); }

  /// Takes an announcement back, and with it the wake-ups that it has caused.
  void retract() noexcept {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    announce(awake);
  }

  /// Sleeps until `until`, or until woken; for ever if `until` is the end of time. Then it is awake, with nothing
  /// announced.
  /// \returns whether it slept to the end.
  bool sleep(time_point until) noexcept {
    std::unique_lock lock(mutex_);
    const auto is_woken = [this] { return woken_; };
    if (until == time_point::max()) {
      condition_.wait(lock, is_woken);
    } else {
      condition_.wait_until(lock, until, is_woken);
    }
    const bool to_the_end = !std::exchange(woken_, false);
    announce(awake);
    count(to_the_end ? wakeups_ : earlier_wakeups_);
    return to_the_end;
  }

  /// Whether it has announced to sleep past `event`. Costs one load.
  [[nodiscard]] bool waits_past(tick event) const noexcept {
    return event < announced_.load(std::memory_order_relaxed);
  }

  /// For a sleeper that is not woken by `wake`, but by other means: takes the announcement back if it is to sleep past
  /// `event`.
  /// \returns whether it was this call that did; then the caller has to wake the sleeper. An announcement that was made
  /// meanwhile, and is not past `event`, stays.
  [[nodiscard]] bool answer_for(tick event) noexcept {
    tick until = announced_.load(std::memory_order_relaxed);
    while (event < until) {
      if (announced_.compare_exchange_weak(until, awake, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// Wakes the sleeper, or keeps it from falling asleep.
  [[gnu::noinline]] void wake() noexcept {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      announce(awake);
    }
    condition_.notify_one();
  }

  /// Wakes it from `sleep`, and leaves what is announced: for one that is also woken by other means.
  void nudge() noexcept {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    condition_.notify_one();
  }

  /// For one that is woken by other means.
  void count_wakeup() noexcept { count(wakeups_); }
  void count_empty() noexcept { count(empty_wakeups_); }
  /// All of them, with those that are counted in the next two.
  [[nodiscard]] std::uint64_t wakeups() const noexcept {
    return wakeups_.load(std::memory_order_relaxed) + earlier_wakeups();
  }
  /// Those that did not come at the end of a sleep, but before it, because somebody woke it.
  [[nodiscard]] std::uint64_t earlier_wakeups() const noexcept {
    return earlier_wakeups_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t empty_wakeups() const noexcept { return empty_wakeups_.load(std::memory_order_relaxed); }

 private:
  using counter = std::atomic<std::uint64_t>;  // statistics only
  static void count(counter& events) noexcept { events.fetch_add(1, std::memory_order_relaxed); }

  static constexpr tick awake = 0;

  alignas(64) std::atomic<tick> announced_{awake};  // on a line of its own: every adder reads it
  alignas(64) std::mutex mutex_;                    // guards woken_
  bool woken_ = false;
#if defined(TIMING_WHEEL_HAS_WINDOWS)
  windows::condition_of_one condition_;
#else
  std::condition_variable condition_;
#endif
  counter wakeups_{0};  // at the end of a sleep
  counter earlier_wakeups_{0};
  counter empty_wakeups_{0};
};

}  // namespace timing_wheel::detail
