#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "timing_wheel/tick.hpp"

namespace timing_wheel {

/// A clock that moves only when it is told to, for tests, simulations and replays.
///
/// Its time points are those of `std::chrono::steady_clock`. For a service that it drives it is the wall clock too: a
/// `std::chrono::system_clock` deadline is reached when this clock shows the same time since its epoch.
///
/// A service copies the clock that it is given, and moves the copy by its own `advance_to`.
///
/// Example: `manual_timer timer({.tick = 1ms}); timer.schedule_after(30min, check); timer.advance_by(30min);` runs `check`.
///
/// Thread safety: `now` may be called at any time; it never goes back.
class manual_clock {
 public:
  using duration = std::chrono::nanoseconds;    ///< Its unit.
  using rep = duration::rep;                    ///< A signed 64-bit count.
  using period = duration::period;              ///< A billionth of a second.
  using time_point = timing_wheel::time_point;  ///< The service's own, so that code need not know which clock it has.
  static constexpr bool is_steady = true;       ///< It never goes back.

  /// Shows `start` at first, which may be any time; without it, the epoch.
  explicit manual_clock(time_point start = time_point()) noexcept : now_(start.time_since_epoch().count()) {}
  /// A clock of its own, which shows at first what `other` shows now.
  manual_clock(const manual_clock& other) noexcept : now_(other.now_.load(std::memory_order_relaxed)) {}
  manual_clock& operator=(const manual_clock&) = delete;
  ~manual_clock() = default;

  /// What it shows. Memory order: relaxed; the clock publishes nothing but itself.
  [[nodiscard]] time_point now() const noexcept { return time_point(duration(now_.load(std::memory_order_relaxed))); }

  /// Moves the clock to `when`; a step back is ignored. One thread at a time.
  void advance_to(time_point when) noexcept {
    now_.store(std::max(now(), when).time_since_epoch().count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<rep> now_;
};

}  // namespace timing_wheel
