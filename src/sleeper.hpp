#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "timing_wheel/tick.hpp"

namespace timing_wheel::detail {

/// Where one thread sleeps until a tick, and others wake it if something comes earlier.
///
/// No wake-up is lost. The sleeper first announces when it will wake, and then looks at every shard once more, under its lock,
/// before it sleeps. Who adds a timer does so under the lock of a shard, and then reads the announcement. If the shard was
/// looked at after the addition, the sleeper has seen it. If before, the announcement happened before that look, hence before
/// the addition's lock, hence before its reading: the adder sees it, and wakes the sleeper if its timer is earlier.
///
/// Thread safety: `announce`, `retract` and `sleep` are for the sleeping thread; the rest for any.
class sleeper {
 public:
  /// Says until when the calling thread is going to sleep. Memory order: relaxed; the shards' mutexes order it (see above).
  void announce(tick until) noexcept { announced_.store(until, std::memory_order_relaxed); }

  /// Takes an announcement back, and with it the wake-ups that it has caused.
  void retract() noexcept {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    announce(awake);
  }

  /// Sleeps until `until`, or until woken; for ever if `until` is the end of time. Then it is awake, with nothing announced.
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
    wakeups_.fetch_add(1, std::memory_order_relaxed);
    return to_the_end;
  }

  /// Wakes the sleeper if it sleeps past `event`. Costs one load if not.
  void wake_for(tick event) noexcept {
    if (event < announced_.load(std::memory_order_relaxed)) {
      wake();
    }
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

  void count_empty() noexcept { empty_wakeups_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t wakeups() const noexcept { return wakeups_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t empty_wakeups() const noexcept { return empty_wakeups_.load(std::memory_order_relaxed); }

 private:
  static constexpr tick awake = 0;

  alignas(64) std::atomic<tick> announced_{awake};  // on a line of its own: every adder reads it
  alignas(64) std::mutex mutex_;                    // guards woken_
  bool woken_ = false;
  std::condition_variable condition_;
  std::atomic<std::uint64_t> wakeups_{0};        // statistics only
  std::atomic<std::uint64_t> empty_wakeups_{0};  // statistics only
};

}  // namespace timing_wheel::detail
