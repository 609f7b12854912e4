#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace timing_wheel::detail {

inline unsigned byte_at(std::string_view text, std::size_t i) noexcept { return static_cast<unsigned char>(text[i]); }

/// How many bytes the first character has, 0 if it is none. The second byte of some has a narrower range, since the
/// rest of it would be overlong, a surrogate or too high. There must be a byte.
inline std::size_t first_character(std::string_view text) noexcept {
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  const unsigned least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  const bool good = byte_at(text, 1) >= least && byte_at(text, 1) <= most &&
                    std::all_of(text.begin() + 2, text.begin() + static_cast<std::ptrdiff_t>(length),
                                [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80; });
  return good ? length : 0;
}

/// Whether it is UTF-8 as Unicode and Prometheus have it: no overlong form, no surrogate, nothing above U+10FFFF.
inline bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = first_character(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

/// Appends each byte as `\x1b`.
inline void append_escaped(std::string& to, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    to.append("\\x").push_back(digits[byte_at(bytes, i) / 16]);
    to.push_back(digits[byte_at(bytes, i) % 16]);
  }
}

}  // namespace timing_wheel::detail
