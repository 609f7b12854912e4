#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
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

/// Which timer of a shard: a place in its slab, and the how-manieth use of that place it is, from 1 on.
struct timer_id {
  std::uint32_t number = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const timer_id&, const timer_id&) = default;
};

/// Clocks that a deadline may be of.
template <class Clock>
concept deadline_clock =
    std::same_as<Clock, std::chrono::steady_clock> || std::same_as<Clock, std::chrono::system_clock>;

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

/// What became of a call of `cancel`.
enum class cancel_result {
  cancelled,  ///< It was pending. It never runs; its memory and what it captured are gone.
  running,    ///< Its callback has begun. This run ends normally; a periodic timer is not run again.
  finished,   ///< It had fired, or been cancelled, or been returned by `stop`. Nothing changed.
};

/// Where a timer is in its life.
enum class timer_status {
  pending,   ///< Its callback has not begun: it is in a wheel, or due.
  running,   ///< Its callback is running.
  finished,  ///< It has fired, or was cancelled, or was returned by `stop`.
};

/// Its name, as it is written here.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(cancel_result result) noexcept;
/// Its name, as it is written here.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(timer_status status) noexcept;
/// Writes its name.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, cancel_result result);
/// Writes its name.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, timer_status status);

/// Refers to one scheduled timer, and never to another: not when its memory is used again, not after the service has
/// died. That of a periodic timer stays the same over all its runs.
///
/// Dropping a handle does not cancel. A default-made one refers to no timer and behaves as that of a finished one. It
/// is 16 bytes; moving it is free, a copy costs one atomic increment. It keeps a small block of the service (not the
/// timer, nor the wheels) in memory.
///
/// Thread safety: the timer that it refers to may be used from any thread through any handle; one handle object as an
/// `int`. Every operation is linearizable and O(1) under one lock of the timer's shard; on
/// `engine_kind::heap` those that end or move the timer are O(log n).
class TIMING_WHEEL_EXPORT timer_handle {
 public:
  /// Refers to no timer.
  timer_handle() noexcept = default;
  /// Refers to the same timer. One atomic increment.
  timer_handle(const timer_handle& other) noexcept;
  /// `other` refers to no timer afterwards.
  timer_handle(timer_handle&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), id_(std::exchange(other.id_, {})) {}
  /// Refers to the timer of `other`. The one that it referred to goes on.
  timer_handle& operator=(const timer_handle& other) noexcept {
    timer_handle copy(other);
    swap(copy);
    return *this;
  }
  /// The same, without an increment. `other` refers to no timer afterwards, unless both are one object.
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

  /// Keeps the timer from firing, if its callback has not begun. What it captured is destroyed before this returns, on
  /// this thread and outside every lock.
  cancel_result cancel() const noexcept;

  /// The same, and if its callback is running, waits until that has ended and what it captured is destroyed. Called by
  /// that callback itself it does not wait. Two callbacks that wait for each other wait for ever, and so does a call
  /// under a lock that the callback takes. It does not wait for another thread that has cancelled and is destroying
  /// what was captured.
  ///
  /// It ends one timer. A callback that schedules itself anew makes another timer each time, with a handle of its own,
  /// and this call ends no such chain. Let it be one timer, by `schedule_every` or `schedule_with`; or set a flag that
  /// it looks at first.
  /// \returns what `cancel` would: `running` says that it ran, and has ended unless the caller is the callback.
  cancel_result cancel_and_wait() const noexcept;

  /// Gives a pending timer another deadline, earlier or later, on the monotonic or the wall clock (see
  /// `timer::schedule_at`); past ones are due at once. \returns false if the timer is not pending. \throws
  /// std::bad_alloc; then nothing has changed.
  template <detail::deadline_clock Clock, class Duration>
  bool reschedule(std::chrono::time_point<Clock, Duration> deadline) const {
    return move_to(detail::nanoseconds_of(deadline), nullptr);
  }

  /// The same, with a deadline `delay` from now; a cheap "touch" for idle detection.
  template <class Rep, class Period>
  bool reschedule_after(std::chrono::duration<Rep, Period> delay) const {
    return move_after(saturating_nanoseconds(delay), nullptr);
  }

  /// The same, and nothing is thrown: `error` becomes `std::errc::not_enough_memory`, or is cleared.
  template <detail::deadline_clock Clock, class Duration>
  bool reschedule(std::chrono::time_point<Clock, Duration> deadline, std::error_code& error) const noexcept {
    return move_to(detail::nanoseconds_of(deadline), &error);
  }
  /// The same as `reschedule_after`, and nothing is thrown.
  template <class Rep, class Period>
  bool reschedule_after(std::chrono::duration<Rep, Period> delay, std::error_code& error) const noexcept {
    return move_after(saturating_nanoseconds(delay), &error);
  }

  /// Another clock: convert its time points with `std::chrono::clock_cast`, or by a delay.
  template <class Clock, class Duration, class... Rest>
  requires(!detail::deadline_clock<Clock>) bool reschedule(std::chrono::time_point<Clock, Duration> another_clock,
                                                           Rest&&... rest) const = delete;

  /// Where the timer is now, which may change at once. `finished` if it refers to none.
  [[nodiscard]] timer_status status() const noexcept;

  /// When the timer should fire, as it was asked for; none if it is finished.
  [[nodiscard]] std::optional<time_point> deadline() const noexcept;

  /// From now to the deadline, and zero after it; none if the timer is finished.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> remaining() const noexcept;

  /// The number given when it was scheduled; none if the timer is finished.
  [[nodiscard]] std::optional<std::uint64_t> tag() const noexcept;

  /// The timer as a number, for those who keep numbers and not objects: `timer::cancel(key)` is as safe as `cancel`. 0
  /// for a default-made handle, and never for another one. Two timers of one service never have the same key; that of
  /// another service is taken for one of this service's with a chance of about the timers pending by 2^64.
  [[nodiscard]] std::uint64_t key() const noexcept;

  /// Whether it was made by a `schedule` call.
  [[nodiscard]] explicit operator bool() const noexcept { return owner_ != nullptr; }

  /// Whether both refer to the same timer, or both to none.
  friend bool operator==(const timer_handle&, const timer_handle&) = default;

  /// For instance "timer 0/17#2: pending, 1500 ms left": the shard, the place in it, and the how-manieth use of that
  /// place. No two timers of a service print the same before the colon. \throws std::bad_alloc, and what `out` throws.
  friend TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, const timer_handle& handle);

  /// For the service. The handle takes over one reference to `owner`.
  timer_handle(detail::timer_owner* owner, detail::timer_id id) noexcept : owner_(owner), id_(id) {}

 private:
  friend struct std::hash<timer_handle>;

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

static_assert(sizeof(timer_handle) <= 16);

/// What `operator<<` prints. Complexity: one lock of the timer's shard. \throws std::bad_alloc.
[[nodiscard]] TIMING_WHEEL_EXPORT std::string to_string(const timer_handle& handle);

/// Owns a timer: when it goes, the timer is cancelled, and its callback does not run any more.
///
/// So a callback may use what lives at least as long, for instance the object that the scoped_timer is a member of:
///
///     class session {
///       scoped_timer idle_ = timer_.schedule_after(30s, [this] { close(); });
///     };
///
/// Destruction and assignment wait as `cancel_and_wait` does, with the same caution; so make it the last member of its
/// object. Thread safety: one object as an `int`.
class scoped_timer {
 public:
  /// Owns no timer.
  scoped_timer() noexcept = default;
  /// Takes over the timer: it ends with this object.
  scoped_timer(timer_handle timer) noexcept : timer_(std::move(timer)) {}  // NOLINT(google-explicit-constructor)
  /// The other one owns no timer afterwards.
  scoped_timer(scoped_timer&&) noexcept = default;
  /// Cancels the timer that it had, waits as the destructor does, and takes over that of `other`.
  scoped_timer& operator=(scoped_timer&& other) noexcept {
    if (this != &other) {
      const timer_handle old = std::exchange(timer_, std::move(other.timer_));
      old.cancel_and_wait();  // this object may go with what was captured
    }
    return *this;
  }
  ~scoped_timer() { timer_.cancel_and_wait(); }

  /// The handle of the timer that it owns.
  [[nodiscard]] const timer_handle& get() const noexcept { return timer_; }
  /// For what the handle can do: `idle->reschedule_after(30s)`.
  const timer_handle* operator->() const noexcept { return &timer_; }
  /// Whether it owns a timer.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(timer_); }

  /// Lets go of the timer, which then goes on.
  [[nodiscard]] timer_handle release() noexcept { return std::exchange(timer_, {}); }

 private:
  timer_handle timer_;
};

}  // namespace timing_wheel

/// So that handles can be the keys of unordered containers. Equal handles have equal hashes.
template <>
struct std::hash<timing_wheel::timer_handle> {
  [[nodiscard]] std::size_t operator()(const timing_wheel::timer_handle& handle) const noexcept {
    const std::uint64_t place = std::uint64_t{handle.id_.generation} << 32U | handle.id_.number;
    return std::hash<std::uint64_t>()(place * 0x9e3779b97f4a7c15U) ^ std::hash<const void*>()(handle.owner_);
  }
};

#if defined(__cpp_lib_format)
/// `std::format("{}", handle)` gives what `operator<<` prints; the specification is that of strings.
template <>
struct std::formatter<timing_wheel::timer_handle> : std::formatter<std::string> {
  template <class Context>
  auto format(const timing_wheel::timer_handle& handle, Context& context) const {
    return std::formatter<std::string>::format(timing_wheel::to_string(handle), context);
  }
};
#endif
