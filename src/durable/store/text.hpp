#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shared/utf8.hpp"

namespace timing_wheel::durable {

using detail::append_escaped;
using detail::is_utf8;

/// What can stand in one line for people: characters as they are; control characters, what is `special` and bytes that
/// are no UTF-8 as `\x1b`; and `...` for what comes after the first `most` bytes.
///
/// Example: the key `a"b` is shown as `a\x22b`. \throws std::bad_alloc.
[[nodiscard]] std::string shown(std::string_view text, std::size_t most, std::string_view special = "\"\\");

}  // namespace timing_wheel::durable
