#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstdint>
#include <system_error>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

/// Why a durable call was refused. What a database says has a category of its own, such as `sqlite_category`.
enum class errc : std::uint8_t {
  invalid_request = 1,  ///< The kind or the key is empty, or a kind is not UTF-8 or has a zero byte.
  kind_too_long,        ///< Longer than `request_limits::kind`.
  key_too_long,         ///< Longer than `request_limits::key`.
  payload_too_long,     ///< Longer than `request_limits::payload`.
  no_schema,            ///< The tables are not there: call `store::migrate`.
  newer_schema,         ///< A newer version of the library has made the tables.
  lost_lease,           ///< The lease ended before the job, and another node may have it. Its end was not written.
  handler_exists,       ///< There is a handler for that kind already.
  already_started,      ///< Handlers are set before `start`, which is called once.
  store_damaged,        ///< The check of the file's integrity found something.
  row_locked,           ///< A transaction of somebody else's kept a row for too long. Nothing was written: call again.
};

/// The category of `errc`, by the name "timing_wheel.durable".
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& durable_category() noexcept;
/// So that an `errc` can be compared with a `std::error_code`, and turned into one.
[[nodiscard]] TIMING_WHEEL_EXPORT std::error_code make_error_code(errc code) noexcept;

}  // namespace timing_wheel::durable

template <>
struct std::is_error_code_enum<timing_wheel::durable::errc> : std::true_type {};
