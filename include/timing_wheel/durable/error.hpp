#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstdint>
#include <system_error>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

/// Why a durable call was refused. If the database refuses a call, the code is the database's, in a category of its own
/// such as `sqlite_category`.
enum class errc : std::uint8_t {
  invalid_request = 1,  ///< The kind or the key is empty, or a kind is not UTF-8 or has a zero byte.
  kind_too_long,        ///< The kind is longer than `request_limits::kind`.
  key_too_long,         ///< The key is longer than `request_limits::key`.
  payload_too_long,     ///< The payload is longer than `request_limits::payload`.
  no_schema,            ///< The tables are not there: call `store::migrate`.
  newer_schema,         ///< A newer version of the library has made the tables.
  lost_lease,           ///< The lease ended before the job did, so another node may run it. Its end was not written.
  handler_exists,       ///< The scheduler has a handler for that kind already.
  already_started,      ///< `on` or `start` was called after `start`.
  store_damaged,        ///< `sqlite_options::check_integrity` found the file damaged.
  row_locked,           ///< Another transaction kept a row locked for too long. Nothing was written; call again.
};

/// The category of `errc`, by the name "timing_wheel.durable".
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& durable_category() noexcept;
/// The `errc` as a `std::error_code`: by this, the two can also be compared.
[[nodiscard]] TIMING_WHEEL_EXPORT std::error_code make_error_code(errc code) noexcept;

}  // namespace timing_wheel::durable

template <>
struct std::is_error_code_enum<timing_wheel::durable::errc> : std::true_type {};
