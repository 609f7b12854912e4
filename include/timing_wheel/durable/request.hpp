#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::durable {

/// A time of the database's clock, in microseconds since 1970-01-01, UTC. The database's clock decides when a check is
/// due and when a lease ends; the clocks of the nodes decide nothing.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// `when + delay`. If the sum would overflow: `instant::max()`, or, if `delay` is negative, `instant::min()`.
[[nodiscard]] constexpr instant saturating_add(instant when, std::chrono::microseconds delay) noexcept {
  std::int64_t count = 0;
  if (__builtin_add_overflow(when.time_since_epoch().count(), delay.count(), &count)) {
    return delay < delay.zero() ? instant::min() : instant::max();
  }
  return instant(std::chrono::microseconds(count));
}

/// Any duration as microseconds, rounded up. A duration of more than 292 years, forward or back, counts as 292 years.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::microseconds saturating_microseconds(
    std::chrono::duration<Rep, Period> delay) noexcept {
  return std::chrono::ceil<std::chrono::microseconds>(saturating_nanoseconds(delay));
}

/// When a check is due. It is an instant, or a delay after the moment at which the store writes the check.
///
/// Prefer the delay, because the database's clock counts it. So a wrong clock of the caller does no harm.
///
/// | `.due =` | due |
/// |---|---|
/// | `30min` | 30 minutes after the store has written the check |
/// | `std::chrono::system_clock::now() + 30min` | when the database's clock shows that time |
/// | nothing, or a delay that is not positive | at once |
/// | a delay of more than 292 years | after 292 years |
///
/// All values are rounded up to microseconds. `instant::min()` and `instant::max()` are allowed.
class due_time {
 public:
  /// At once.
  constexpr due_time() noexcept = default;
  /// After a delay.
  template <class Rep, class Period>
  constexpr due_time(std::chrono::duration<Rep, Period> delay) noexcept  // NOLINT(google-explicit-constructor)
      : amount_(saturating_microseconds(delay)) {}
  /// At this time, by the database's clock. A time more than 292 years from 1970 counts as one 292 years from it.
  template <class Duration>
  constexpr due_time(std::chrono::sys_time<Duration> when) noexcept  // NOLINT(google-explicit-constructor)
      : amount_(saturating_microseconds(when.time_since_epoch())), absolute_(true) {}
  /// At an instant of the database's clock.
  constexpr due_time(instant when) noexcept  // NOLINT(google-explicit-constructor)
      : amount_(when.time_since_epoch()), absolute_(true) {}

  /// The instant that this means if the database's clock shows `now`.
  [[nodiscard]] constexpr instant at(instant now) const noexcept {
    const instant exact = absolute_ ? instant(amount_) : saturating_add(now, delay());
    const std::chrono::microseconds over = exact.time_since_epoch() % step_;
    return over == over.zero() ? exact : saturating_add(exact, over > over.zero() ? step_ - over : -over);
  }

  /// The time `delay` later, or the end of time if the sum would be beyond that. \pre `delay` is not negative.
  [[nodiscard]] constexpr due_time later_by(std::chrono::microseconds delay) const noexcept {
    due_time moved = *this;
    const std::chrono::microseconds from = absolute_ ? amount_ : this->delay();
    moved.amount_ = saturating_add(instant(from), delay).time_since_epoch();
    // No clock can add anything to the end of time.
    moved.absolute_ = absolute_ || moved.amount_ == std::chrono::microseconds::max();
    return moved;
  }

  /// This time, but its `at` rounds up to a multiple of `step` since the epoch. A step counts as 1 µs at least, and as
  /// 2^62 µs at most.
  [[nodiscard]] constexpr due_time rounded_up_to(std::chrono::microseconds step) const noexcept {
    due_time rounded = *this;
    rounded.step_ = std::clamp(step, std::chrono::microseconds(1), std::chrono::microseconds(std::int64_t{1} << 62U));
    return rounded;
  }

  /// Whether `at` adds a delay to the time of the database's clock. With `delay` and `step`, SQL can do what `at` does.
  [[nodiscard]] constexpr bool is_delay() const noexcept { return !absolute_; }
  /// The delay, at least 0. \pre `is_delay()`
  [[nodiscard]] constexpr std::chrono::microseconds delay() const noexcept { return std::max(amount_, amount_.zero()); }
  /// See `rounded_up_to`; 1 µs: `at` does not round.
  [[nodiscard]] constexpr std::chrono::microseconds step() const noexcept { return step_; }

 private:
  std::chrono::microseconds amount_{};
  std::chrono::microseconds step_{1};
  bool absolute_ = false;
};

/// Where in its window a check is due, see `request::window`. If `request::due` is an instant, a repeated request gets
/// the deadline of the first one, with either value.
enum class window_use : std::uint8_t {
  /// At a place that a hash of the key decides. If a million checks are due at midnight, all moments of the window get
  /// about equally many of them. The places are not in the order of the keys; `spread_in_key_order` puts many requests
  /// in that order.
  spread,
  /// At `due`, rounded up to a multiple of the window since the epoch. So all checks whose windows have the same
  /// length, and contain the same multiple, are due at one moment, and a node claims them together.
  gather,
};

/// Tells a store which check to write, and when the handler is to run.
struct request {
  std::string kind;  ///< Names the handler. Not empty; UTF-8 without a zero byte. See `request_limits`.
  /// Names the check among those of its kind that are pending or running. If such a check has the key already, no
  /// second one is written, so a repeated call is harmless. Not empty. Any bytes.
  std::string key;
  std::string payload = {};  ///< What the handler gets. Any bytes.
  due_time due = {};         ///< When the handler is to run.
  bool replace = false;      ///< If a pending check has the key, give it this payload and this deadline.
  /// How much later than `due` the deadline may be: it lies in [`due`, `due` + `window`), where `within` says. 0 or
  /// negative: the deadline is `due`.
  std::chrono::microseconds window = {};
  window_use within = window_use::spread;  ///< Where in the window the deadline lies.

  /// When the check is due, by its window. A store of your own writes this deadline, `due_in_window().at(now)`.
  /// Complexity: O(length of the key).
  [[nodiscard]] TIMING_WHEEL_EXPORT due_time due_in_window() const noexcept;
};

/// Sorts the requests by their keys, byte by byte, and spreads them evenly over their windows in this order. The
/// deadline of request i of n becomes `due` + `window` × i / n, rounded down to microseconds; its window becomes 0,
/// whatever `within` says. Equal keys of several kinds are in the order of the kinds. So neighbours in an index of the
/// keys of one kind run together.
///
///     std::vector<durable::request> requests;
///     for (const int number : {3, 1, 2}) {
///       requests.push_back({.kind = "verify", .key = std::to_string(number), .due = midnight, .window = 1h});
///     }
///     durable::spread_in_key_order(requests);  // "1" is due at midnight, "2" at 0:20, "3" at 0:40
///     checks.schedule(requests);
///
/// A store cannot give such a place to a request alone, because it does not know which keys will come. If the bytes of
/// the key decided the place, keys that share a prefix, such as order numbers, would all be due at nearly one moment.
/// Complexity: O(n log n) comparisons of keys.
TIMING_WHEEL_EXPORT void spread_in_key_order(std::span<request> requests);

/// How long the parts of a request may be, in bytes. A longer request is refused before anything is written.
struct request_limits {
  std::size_t kind = 63;              ///< Of `request::kind`.
  std::size_t key = 255;              ///< Of `request::key`.
  std::size_t payload = 1024 * 1024;  ///< Of `request::payload`.
};

/// Refuses a request that no store would write.
/// \throws timer_error (`invalid_request`, `payload_too_long`, `key_too_long`, `kind_too_long`). If a part is too long,
/// the message has its length and the limit.
TIMING_WHEEL_EXPORT void validate(const request& asked, const request_limits& limits);
/// Refuses a kind that no check can have. \throws timer_error (`invalid_request`, `kind_too_long`), as `validate`.
TIMING_WHEEL_EXPORT void validate_kind(const std::string& kind, const request_limits& limits);

/// What became of a request.
struct scheduled {
  bool inserted = false;  ///< A new check was written. False: a check with that key was there.
  bool replaced = false;  ///< The check that was there has the new payload and deadline, see `request::replace`.
  instant due{};          ///< The deadline that the check has now.
};

/// What became of a call of `cancel`. It converts to a `cancel_result`, and can be compared with one.
struct cancel_answer {
  /// `cancelled`: no leased handler starts for the check any more. `running`: a node has claimed it, and nothing has
  /// changed. `finished`: there is no such check (any more).
  cancel_result result = cancel_result::finished;
  /// If the check was cancelled: how many of its runs have asked for a retry since it was scheduled or replaced. 0: no
  /// run has begun, except for runs that snoozed or moved their check, and for transactional runs that were undone.
  int attempts = 0;

  /// The result alone.
  constexpr operator cancel_result() const noexcept { return result; }  // NOLINT(google-explicit-constructor)
  /// Whether both the result and the attempts are the same.
  friend bool operator==(const cancel_answer&, const cancel_answer&) = default;
};

/// Writes the name of the result, and the attempts if there were any: "cancelled after 2 attempts".
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, const cancel_answer& answer);

/// What became of a call of `reschedule`.
enum class reschedule_result : std::uint8_t {
  /// The check is pending, with the new deadline. If a leased handler moves its own check, see `scheduler::reschedule`.
  moved,
  running,   ///< A node has claimed the check. Nothing has changed.
  finished,  ///< There is no such check (any more).
};

/// The name of the result, as it is written here.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(reschedule_result result) noexcept;
/// Writes the name of the result.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, reschedule_result result);

/// A check as the store has it.
struct stored_check {
  std::string kind;        ///< As it was scheduled.
  std::string key;         ///< As it was scheduled.
  std::string payload;     ///< As it was scheduled.
  instant due{};           ///< Its deadline.
  std::int64_t fence = 0;  ///< See `job::fence`.
  int attempt = 0;         ///< How many runs count, see `handler_options`.
  bool running = false;    ///< A node has claimed it, and the end of the run is not written.
  instant lease{};         ///< Until when a node has claimed it; the epoch if none has.
  std::int64_t id = 0;     ///< Of the row.
  std::size_t size = 0;    ///< Of the payload, in bytes, where a list leaves the payload out.
};

/// A check that was given up: its handler has returned `dead`, or has failed as often as
/// `handler_options::max_attempts` allows.
struct dead_check {
  std::int64_t id = 0;     ///< Names it in `list_dead`, `revive_dead` and `delete_dead`.
  std::string kind;        ///< As it was scheduled.
  std::string key;         ///< As it was scheduled.
  std::string payload;     ///< As it was scheduled.
  instant due{};           ///< Its deadline.
  std::int64_t fence = 0;  ///< See `job::fence`.
  int attempt = 0;         ///< How many runs count, see `handler_options`.
  std::string error;       ///< What went wrong in the last run.
  instant died{};          ///< When it was given up.
};

}  // namespace timing_wheel::durable
