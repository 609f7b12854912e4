#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <string>
#include <system_error>

#include "timing_wheel/detail/export.hpp"

namespace timing_wheel {

/// Why the service refused. The page docs/errors.md describes the state after each failed call.
///
///     timer.schedule_after(1h, check, {}, error);
///     if (error == timer_errc::too_many_pending) try_later();
///
/// If memory is short, the forms with a `std::error_code` give `std::errc::not_enough_memory` instead.
enum class timer_errc {
  stopped = 1,       ///< The service was stopped; nothing can be scheduled any more.
  too_many_pending,  ///< `timer_options::max_pending` timers are pending.
  invalid_option,    ///< An option is out of its range; the message names the value and the range.
  empty_callback,    ///< The callable is a null pointer or an empty `std::function`.
  invalid_period,    ///< The period of a periodic timer is not positive.
  nested_advance,    ///< `advance_to` or `run_due` was called while another such call was running.
  forked,            ///< This process is a child of the one that made the service. Make a new service.
};

/// The category of `timer_errc`. Its name is "timing_wheel". Thread safety: any thread.
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& timer_category() noexcept;

/// Makes a `std::error_code` of a `timer_errc`; comparisons call it.
[[nodiscard]] TIMING_WHEEL_EXPORT std::error_code make_error_code(timer_errc code) noexcept;

/// The exception of this library. `code()` is the reason, and `what()` has the offending values, then the text of the
/// code.
///
/// | Example | `code()` | `what()` |
/// |---|---|---|
/// | `timer{{.tick = 0ns}}` | `invalid_option` | "tick 0 ns is not at least 1 ns: an option is out of its range" |
/// | a third timer (`max_pending` 2) | `too_many_pending` | "2 pending, max_pending 2: too many timers are pending" |
class TIMING_WHEEL_EXPORT timer_error : public std::system_error {
 public:
  /// `what()` begins with `details`, for instance a value and its range. The sentence of the code follows.
  timer_error(timer_errc code, const std::string& details) : std::system_error(make_error_code(code), details) {}
  /// Without details: `what()` is the sentence of the code.
  explicit timer_error(timer_errc code) : std::system_error(make_error_code(code)) {}
  /// With a code of another category, such as `durable::errc`.
  timer_error(std::error_code code, const std::string& details) : std::system_error(code, details) {}
};

}  // namespace timing_wheel

template <>
struct std::is_error_code_enum<timing_wheel::timer_errc> : std::true_type {};
