#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "durable/node/known_rows.hpp"
#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::durable {

/// Rows that wait for a time, in a hierarchical wheel whose clock is the database's.
///
/// Example, tick 10 ms: a row that waits until 10.403 s is due at 10.410 s, never before its time.
///
/// Invariant, checked by `invariants_hold()`: the wheel has each row that waits or is set aside once, and no other row.
///
/// Thread safety: as a plain object.
class due_rows {
 public:
  /// \param poll a clock that is set back by no more than that is not followed.
  due_rows(instant now, std::chrono::milliseconds tick, std::chrono::milliseconds poll);

  /// Lets the row wait. \returns false if `until` is not after the clock: then the row does not wait.
  /// \throws std::bad_alloc.
  [[nodiscard]] bool add(timer_number number, instant until, instant now);
  void remove(timer_number number) noexcept { wheel_->erase(number); }

  /// Whether the clock was set back so far that it is to be followed, by `restart`.
  [[nodiscard]] bool is_set_back(instant now) const noexcept { return now < clock_ - poll_; }
  /// Begins anew at `now`, without any row. \throws std::bad_alloc; then nothing has changed.
  void restart(instant now);

  /// Moves the clock, and calls `is_due` with the number of each row whose time has come. \throws std::bad_alloc; then
  /// the call can be repeated.
  template <class IsDue>
  void advance(instant now, const IsDue& is_due) {
    clock_ = now;
    const tick clock = tick_of(now);
    for (bool more = true; more;) {
      const advance_result expired = wheel_->advance(clock);
      for (const timer_number number : expired.due) {
        is_due(number);
      }
      more = expired.more;
    }
  }

  /// What `advance` was told last.
  [[nodiscard]] instant told() const noexcept { return clock_; }
  /// Where the wheel's clock is.
  [[nodiscard]] instant clock() const noexcept { return begin_of(wheel_->now()); }
  /// When there is something to do next; `instant::max()` if no row waits.
  [[nodiscard]] instant next_event() const noexcept;

  /// Complexity: O(rows).
  [[nodiscard]] bool invariants_hold(const known_rows& rows) const;

 private:
  [[nodiscard]] tick tick_of(instant now) const noexcept;
  [[nodiscard]] instant begin_of(tick t) const noexcept;

  const std::chrono::milliseconds tick_;
  const std::chrono::milliseconds poll_;
  tick_scale scale_;
  std::unique_ptr<hierarchical_wheel> wheel_ = std::make_unique<hierarchical_wheel>();
  instant clock_;
};

}  // namespace timing_wheel::durable
