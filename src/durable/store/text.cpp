#include "durable/store/text.hpp"

#include <algorithm>

namespace timing_wheel::durable {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) noexcept { return static_cast<unsigned char>(text[i]); }

// How many bytes the first character has, 0 if it is none. The second byte of some has a narrower range, since the rest
// of it would be overlong, a surrogate or too high.
std::size_t first_character(std::string_view text) noexcept {
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

// Those of U+0080 to U+009F begin with 0xc2, too: a terminal obeys them.
bool is_control(std::string_view character) noexcept {
  const unsigned lead = byte_at(character, 0);
  return lead == 0xc2 ? byte_at(character, 1) < 0xa0 : lead < 0x20 || lead == 0x7f;
}

}  // namespace

void append_escaped(std::string& to, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    to.append("\\x").push_back(digits[byte_at(bytes, i) / 16]);
    to.push_back(digits[byte_at(bytes, i) % 16]);
  }
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = first_character(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string shown(std::string_view text, std::size_t most, std::string_view special) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::size_t known = first_character(rest);
    const std::string_view next = rest.substr(0, std::max<std::size_t>(known, 1));
    if (next.size() > most - at) {
      return line + "...";
    }
    if (known != 0 && !is_control(next) && special.find(next.front()) == std::string_view::npos) {
      line += next;
    } else {
      append_escaped(line, next);
    }
    at += next.size();
  }
  return line;
}

}  // namespace timing_wheel::durable
