#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#if __has_include(<format>)
#include <format>
#endif

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

namespace detail {
class timer_owner;

/// Which timer of a shard: its place in the slab, and how often that place has been used, from 1 on.
struct timer_id {
  std::uint32_t number = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const timer_id&, const timer_id&) = default;
};

using wall_time = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

template <class Duration>
[[nodiscard]] constexpr time_point nanoseconds_of(std::chrono::time_point<std::chrono::steady_clock, Duration> when) {
  return time_point(saturating_nanoseconds(when.time_since_epoch()));
}
template <class Duration>
[[nodiscard]] constexpr wall_time nanoseconds_of(std::chrono::time_point<std::chrono::system_clock, Duration> when) {
  return wall_time(saturating_nanoseconds(when.time_since_epoch()));
}
}  // namespace detail

/// What `cancel` found.
enum class cancel_result {
  cancelled,  ///< The timer was pending. It never runs, and its captures are destroyed.
  running,    ///< Its callback had begun. That run ends as usual; a periodic timer does not run again.
  finished,   ///< It had fired, or had been cancelled or stopped. Nothing changed.
};

/// Where a timer is in its life.
enum class timer_status {
  pending,   ///< Its callback has not begun: the timer is in a wheel, or due.
  running,   ///< Its callback is running.
  finished,  ///< It has fired, or was cancelled or stopped.
};

/// The name of the value, for instance "cancelled".
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(cancel_result result) noexcept;
/// The name of the value, for instance "pending".
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(timer_status status) noexcept;
/// Writes the name of the value.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, cancel_result result);
/// Writes the name of the value.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, timer_status status);

/// Refers to one timer, through all runs of a periodic one. It never refers to another timer, even when the service
/// uses the memory again, and even after the service has been destroyed.
///
///     timer_handle idle = timer.schedule_after(30s, [&] { close(); });
///     idle.reschedule_after(30s);  // on each byte that arrives
///     idle.cancel();               // a handle that is only dropped cancels nothing
///
/// A default-made handle behaves as the handle of a finished timer. A handle has 16 bytes; a copy costs one atomic
/// increment, and a move costs nothing. A handle keeps a small block of the service in memory, but neither the timer
/// nor the wheels.
///
/// Thread safety: any thread may use the timer through any handle; one handle object is as an `int`. Each operation is
/// linearizable, and O(1) under one lock of a shard. With `engine_kind::heap`, those that end or move a timer are
/// O(log n).
class TIMING_WHEEL_EXPORT timer_handle {
 public:
  /// Refers to no timer.
  timer_handle() noexcept = default;
  /// Refers to the same timer; one atomic increment.
  timer_handle(const timer_handle& other) noexcept;
  /// Afterwards `other` refers to no timer.
  timer_handle(timer_handle&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), id_(std::exchange(other.id_, {})) {}
  /// Refers to the timer of `other`. The timer that it referred to before goes on.
  timer_handle& operator=(const timer_handle& other) noexcept {
    timer_handle copy(other);
    swap(copy);
    return *this;
  }
  /// The same, without an increment. Afterwards `other` refers to no timer, unless both are one object.
  timer_handle& operator=(timer_handle&& other) noexcept {
    timer_handle taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~timer_handle() {
    if (owner_ != nullptr) {
      drop();
    }
  }

  /// Cancels the timer if its callback has not begun. Then this call destroys what the callback captured, outside every
  /// lock.
  cancel_result cancel() const noexcept;

  /// Cancels the timer. If its callback is running, the call waits until that callback has ended and its captures are
  /// destroyed.
  ///
  /// | Called | It |
  /// |---|---|
  /// | while the callback runs | waits, and returns `running` |
  /// | by that callback itself | does not wait, and returns `running` |
  /// | by a callback for which this timer's callback waits, or under a lock that the latter takes | waits for ever |
  /// | while another thread, which has cancelled the timer, destroys its captures | does not wait |
  ///
  /// The call ends one timer. If a callback schedules itself anew, it makes a new timer each time, with a new handle.
  /// To be able to end such a chain, make it one timer by `schedule_every` or `schedule_with`, or let the callback look
  /// at a flag.
  cancel_result cancel_and_wait() const noexcept;

  /// Gives a pending timer another deadline, as for `timer::schedule_at`. If the deadline has passed, the callback runs
  /// as soon as possible. A periodic timer goes on from the new deadline: if that has passed, `fixed_rate_catch_up`
  /// makes up for each period since then.
  /// \returns false if the timer is not pending. \throws std::bad_alloc; then nothing has changed.
  template <deadline_clock Clock, class Duration>
  bool reschedule(std::chrono::time_point<Clock, Duration> deadline) const {
    return move_to(detail::nanoseconds_of(deadline), nullptr);
  }

  /// The same, with a deadline `delay` from now; a cheap "touch" for a timer that detects idleness.
  template <class Rep, class Period>
  bool reschedule_after(std::chrono::duration<Rep, Period> delay) const {
    return move_after(saturating_nanoseconds(delay), nullptr);
  }

  /// `reschedule`, which throws nothing: `error` becomes `std::errc::not_enough_memory`, or is cleared.
  template <deadline_clock Clock, class Duration>
  bool reschedule(std::chrono::time_point<Clock, Duration> deadline, std::error_code& error) const noexcept {
    return move_to(detail::nanoseconds_of(deadline), &error);
  }
  /// `reschedule_after`, which throws nothing.
  template <class Rep, class Period>
  bool reschedule_after(std::chrono::duration<Rep, Period> delay, std::error_code& error) const noexcept {
    return move_after(saturating_nanoseconds(delay), &error);
  }

  /// The state of the timer now, which may change at once. `finished` if the handle refers to no timer.
  [[nodiscard]] timer_status status() const noexcept;

  /// When the timer should fire, not rounded to a tick; none if it is finished.
  [[nodiscard]] std::optional<time_point> deadline() const noexcept;

  /// The time from now to the deadline, zero if that has passed; none if the timer is finished.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> remaining() const noexcept;

  /// The `schedule_options::tag`; none if the timer is finished.
  [[nodiscard]] std::optional<std::uint64_t> tag() const noexcept;

  /// The timer as a number, for programs that keep numbers and not objects. `timer::cancel(key)` is as safe as
  /// `cancel`.
  ///
  /// | The key of | is |
  /// |---|---|
  /// | a default-made handle | 0 |
  /// | two timers of one service | never the same |
  /// | a timer of another service | taken for a timer of this one with a chance of (timers pending) / 2^64 |
  [[nodiscard]] std::uint64_t key() const noexcept;

  /// Whether the handle refers to a timer, which may be finished.
  [[nodiscard]] explicit operator bool() const noexcept { return owner_ != nullptr; }

  /// Cancels each of these timers, as `timer_handle::cancel` does, in groups that share a lock and wait for their
  /// memory together: that is faster than a cancel of each if the timers lie far apart in memory. Put handles of one
  /// shard beside each other; timers that one thread schedules are usually in one shard. A handle that refers to no
  /// timer does no harm.
  ///
  /// Between two groups the call destroys what the callbacks captured, outside every lock. Such a destructor must not
  /// change the handles. \returns how many were `cancelled`. The others are `running`, and end with that run, or were
  /// `finished` before. Complexity: O(timers), one lock for up to 32 of them. It allocates nothing. Thread safety: any
  /// thread.
  friend TIMING_WHEEL_EXPORT std::size_t cancel_many(std::span<const timer_handle> timers) noexcept;

  /// Whether both refer to the same timer, or both to no timer.
  friend bool operator==(const timer_handle&, const timer_handle&) = default;

  /// Writes for instance "timer 0/17#2: pending, 1500 ms left": shard 0, place 17, the second timer in that place. No
  /// two timers of a service have the same text before the colon. \throws std::bad_alloc, and what `out` throws.
  friend TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, const timer_handle& handle);

 private:
  friend struct std::hash<timer_handle>;
  friend class detail::timer_owner;

  // Takes over one reference to `owner`.
  timer_handle(detail::timer_owner* owner, detail::timer_id id) noexcept : owner_(owner), id_(id) {}

  bool move_to(time_point deadline, std::error_code* error) const;
  bool move_to(detail::wall_time deadline, std::error_code* error) const;
  bool move_after(std::chrono::nanoseconds delay, std::error_code* error) const;
  void drop() const noexcept;
  void swap(timer_handle& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(id_, other.id_);
  }

  detail::timer_owner* owner_ = nullptr;
  detail::timer_id id_;
};

TIMING_WHEEL_EXPORT std::size_t cancel_many(std::span<const timer_handle> timers) noexcept;

static_assert(sizeof(timer_handle) <= 16);

/// What `operator<<` writes. Complexity: one lock of a shard. \throws std::bad_alloc.
[[nodiscard]] TIMING_WHEEL_EXPORT std::string to_string(const timer_handle& handle);

/// Owns a timer. The destructor cancels the timer, so the callback does not run after the destructor. So a callback may
/// use the object that the `scoped_timer` is a member of:
///
///     class session {
///       connection line_;
///       scoped_timer idle_ = timer_.schedule_after(30s, [this] { line_.close(); });  // the last member goes first
///     };
///
/// The destructor and the assignment wait as `timer_handle::cancel_and_wait` does, with the same cautions. Thread
/// safety: one object is as an `int`.
class scoped_timer {
 public:
  /// Owns no timer.
  scoped_timer() noexcept = default;
  /// Takes over the timer, which ends with this object.
  scoped_timer(timer_handle timer) noexcept : timer_(std::move(timer)) {}  // NOLINT(google-explicit-constructor)
  /// Afterwards the other object owns no timer.
  scoped_timer(scoped_timer&&) noexcept = default;
  /// Cancels its timer, waits as the destructor does, and takes over the timer of `other`.
  scoped_timer& operator=(scoped_timer&& other) noexcept {
    if (this != &other) {
      const timer_handle old = std::exchange(timer_, std::move(other.timer_));
      old.cancel_and_wait();  // to destroy the captures may destroy this object
    }
    return *this;
  }
  ~scoped_timer() { timer_.cancel_and_wait(); }

  /// The handle of the timer that this object owns.
  [[nodiscard]] const timer_handle& get() const noexcept { return timer_; }
  /// Calls the handle: `idle->reschedule_after(30s)`.
  const timer_handle* operator->() const noexcept { return &timer_; }
  /// Whether it owns a timer.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(timer_); }

  /// Gives up the timer, which goes on.
  [[nodiscard]] timer_handle release() noexcept { return std::exchange(timer_, {}); }

 private:
  timer_handle timer_;
};

}  // namespace timing_wheel

/// Makes handles keys of unordered containers.
template <>
struct std::hash<timing_wheel::timer_handle> {
  [[nodiscard]] std::size_t operator()(const timing_wheel::timer_handle& handle) const noexcept {
    const std::uint64_t place = std::uint64_t{handle.id_.generation} << 32U | handle.id_.number;
    return std::hash<std::uint64_t>()(place * 0x9e3779b97f4a7c15U) ^ std::hash<const void*>()(handle.owner_);
  }
};

#if defined(__cpp_lib_format)
/// `std::format("{}", handle)` gives what `operator<<` writes. The format is that of strings.
template <>
struct std::formatter<timing_wheel::timer_handle> : std::formatter<std::string> {
  template <class Context>
  auto format(const timing_wheel::timer_handle& handle, Context& context) const {
    return std::formatter<std::string>::format(timing_wheel::to_string(handle), context);
  }
};
#endif
