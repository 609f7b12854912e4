#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <string>
#include <system_error>

#include "timing_wheel/detail/export.hpp"

namespace timing_wheel {

/// Why the service refused. docs/errors.md has, call by call, who refuses and what is left then.
///
/// A `std::error_code` is compared with it as it is: `error == timer_errc::too_many_pending`. A lack of memory is none
/// of these; the forms with a `std::error_code` tell it by `std::errc::not_enough_memory`.
enum class timer_errc {
  stopped = 1,       ///< The service was stopped; nothing can be scheduled any more.
  too_many_pending,  ///< As many timers are pending as `timer_options::max_pending` allows.
  invalid_option,    ///< An option is out of its range; the message names the value and the range.
  empty_callback,    ///< The callable is a null pointer or an empty `std::function`.
  invalid_period,    ///< The period of a periodic timer is not positive.
  nested_advance,    ///< `advance_to` or `run_due` was called while another such call was running.
  forked,            ///< The process was made by `fork`; the service stayed behind. Make a new one.
};

/// The category of `timer_errc`, by the name "timing_wheel". Thread safety: any thread.
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& timer_category() noexcept;

/// So that a `timer_errc` can be compared with a `std::error_code`, and turned into one.
[[nodiscard]] TIMING_WHEEL_EXPORT std::error_code make_error_code(timer_errc code) noexcept;

/// What the library throws. `code()` tells the reason; `what()` gives the numbers.
///
/// Example: `timer{{.tick = 0ns}}` throws one whose `code()` is `timer_errc::invalid_option`, and whose `what()` is
/// "tick 0 ns is not at least 1 ns: an option is out of its range". Where `max_pending` is 2, a third timer is refused
/// with "2 pending, max_pending 2: too many timers are pending".
class TIMING_WHEEL_EXPORT timer_error : public std::system_error {
 public:
  /// `details` come first in `what()`, before the sentence of the code: a value and its range, for instance.
  timer_error(timer_errc code, const std::string& details) : std::system_error(make_error_code(code), details) {}
  /// Without details: `what()` is the sentence of the code.
  explicit timer_error(timer_errc code) : std::system_error(make_error_code(code)) {}
  /// With a code of a part beside the core, such as `durable::errc`.
  timer_error(std::error_code code, const std::string& details) : std::system_error(code, details) {}
};

}  // namespace timing_wheel

template <>
struct std::is_error_code_enum<timing_wheel::timer_errc> : std::true_type {};
