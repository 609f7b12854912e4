#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::durable {

/// A time of the database's clock: microseconds since 1970-01-01, UTC. Every decision is made by that clock.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// `when + delay`, stopping at the ends of time instead of overflowing.
[[nodiscard]] constexpr instant saturating_add(instant when, std::chrono::microseconds delay) noexcept {
  std::int64_t count = 0;
  if (__builtin_add_overflow(when.time_since_epoch().count(), delay.count(), &count)) {
    return delay < delay.zero() ? instant::min() : instant::max();
  }
  return instant(std::chrono::microseconds(count));
}

/// Any duration as microseconds: rounded up, and stopping at the ends of the range.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::microseconds saturating_microseconds(
    std::chrono::duration<Rep, Period> delay) noexcept {
  return std::chrono::ceil<std::chrono::microseconds>(saturating_nanoseconds(delay));
}

/// When a check is due: at an instant, or a delay after the moment at which the store writes it down.
///
/// It is made from either, so that `.due = 30min` and `.due = std::chrono::system_clock::now() + 30min` both work.
/// Prefer the delay: it is counted by the database's clock, whatever the caller's shows. Rounded up to microseconds; a
/// delay that is not positive means at once, and one of more than 292 years counts as that. An instant may lie at an
/// end of time.
class due_time {
 public:
  /// At once.
  constexpr due_time() noexcept = default;
  /// After a delay.
  template <class Rep, class Period>
  constexpr due_time(std::chrono::duration<Rep, Period> delay) noexcept  // NOLINT(google-explicit-constructor)
      : amount_(saturating_microseconds(delay)) {}
  /// At a time of the wall clock.
  template <class Duration>
  constexpr due_time(std::chrono::sys_time<Duration> when) noexcept  // NOLINT(google-explicit-constructor)
      : amount_(saturating_microseconds(when.time_since_epoch())), absolute_(true) {}
  /// At an instant of the database's clock.
  constexpr due_time(instant when) noexcept  // NOLINT(google-explicit-constructor)
      : amount_(when.time_since_epoch()), absolute_(true) {}

  /// The instant that it is, if the clock shows `now`.
  [[nodiscard]] constexpr instant at(instant now) const noexcept {
    if (absolute_) {
      return instant(amount_);
    }
    return amount_ <= amount_.zero() ? now : saturating_add(now, amount_);
  }

 private:
  std::chrono::microseconds amount_{};
  bool absolute_ = false;
};

/// A check to be made later.
struct request {
  std::string kind;  ///< Which handler it is for. Not empty; UTF-8 without a zero byte. See `request_limits`.
  /// Unique per kind while the check is pending or running. So a repeated call is harmless. Not empty. Any bytes.
  std::string key;
  std::string payload = {};  ///< What the handler gets. Bytes.
  due_time due = {};         ///< When.
  bool replace = false;      ///< If the key is there and not running: put the new payload and deadline in its place.
};

/// The longest that a store takes, in bytes. What is longer is refused before anything is written.
struct request_limits {
  std::size_t kind = 63;              ///< Bytes of it.
  std::size_t key = 255;              ///< Bytes of it.
  std::size_t payload = 1024 * 1024;  ///< Bytes of it.
};

/// \throws timer_error (`invalid_request`, `payload_too_long`, `key_too_long`, `kind_too_long`) with the numbers.
TIMING_WHEEL_EXPORT void validate(const request& asked, const request_limits& limits);

/// What became of a request.
struct scheduled {
  bool inserted = false;  ///< It is a new check. Else the key was there already.
  bool replaced = false;  ///< The key was there, and has the new payload and deadline, as `request::replace` asked.
  instant due{};          ///< The deadline that stands.
};

/// What became of a call of `cancel`. It is compared with, and converts to, a `cancel_result`.
struct cancel_answer {
  /// `cancelled`: no leased handler starts for it any more. `running`: a node has claimed it. `finished`: there is no
  /// such check (any more).
  cancel_result result = cancel_result::finished;
  /// Of a cancelled one: how often it was claimed since it was scheduled or replaced: the runs that have asked for a
  /// retry, and those that have ended without a word. 0: none has begun, but for a transactional one that was undone.
  int attempts = 0;

  /// Its result alone.
  constexpr operator cancel_result() const noexcept { return result; }  // NOLINT(google-explicit-constructor)
  /// Whether result and attempts are the same.
  friend bool operator==(const cancel_answer&, const cancel_answer&) = default;
};

/// Writes the name of its result, and the attempts if there were any: "cancelled after 2 attempts".
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, const cancel_answer& answer);

/// What became of a call of `reschedule`.
enum class reschedule_result : std::uint8_t {
  moved,     ///< The check is pending, with the new deadline.
  running,   ///< Its handler has begun. Nothing changed.
  finished,  ///< There is no such check (any more).
};

/// Its name, as it is written here.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(reschedule_result result) noexcept;
/// Writes its name.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, reschedule_result result);

/// A check as the store has it.
struct stored_check {
  std::string kind;        ///< As it was scheduled.
  std::string key;         ///< As it was scheduled.
  std::string payload;     ///< As it was scheduled.
  instant due{};           ///< Its deadline.
  std::int64_t fence = 0;  ///< See `job::fence`.
  int attempt = 0;         ///< How often it was claimed.
  bool running = false;    ///< A node has claimed it, and its end is not written.
};

/// A check that was given up: its handler said so, or failed as often as `handler_options::max_attempts` allows.
struct dead_check {
  std::int64_t id = 0;     ///< Names it in calls that list, retry and delete.
  std::string kind;        ///< As it was scheduled.
  std::string key;         ///< As it was scheduled.
  std::string payload;     ///< As it was scheduled.
  instant due{};           ///< Its deadline.
  std::int64_t fence = 0;  ///< See `job::fence`.
  int attempt = 0;         ///< How often it was claimed.
  std::string error;       ///< What the last run said.
  instant died{};          ///< When it was given up.
};

}  // namespace timing_wheel::durable
