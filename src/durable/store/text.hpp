#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace timing_wheel::durable {

/// Whether it is UTF-8 as Unicode has it: no overlong form, no surrogate, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Appends each byte as `\x1b`.
void append_escaped(std::string& to, std::string_view bytes);

/// What can stand in one line for people: characters as they are; control characters, what is `special` and bytes that
/// are no UTF-8 as `\x1b`; and `...` for what comes after the first `most` bytes.
///
/// Example: the key `a"b` is shown as `a\x22b`. \throws std::bad_alloc.
[[nodiscard]] std::string shown(std::string_view text, std::size_t most, std::string_view special = "\"\\");

}  // namespace timing_wheel::durable
