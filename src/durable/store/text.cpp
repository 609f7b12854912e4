#include "durable/store/text.hpp"

#include <algorithm>

namespace timing_wheel::durable {

namespace {

// Those of U+0080 to U+009F begin with 0xc2, too: a terminal obeys them.
bool is_control(std::string_view character) noexcept {
  const unsigned lead = detail::byte_at(character, 0);
  return lead == 0xc2 ? detail::byte_at(character, 1) < 0xa0 : lead < 0x20 || lead == 0x7f;
}

}  // namespace

std::string shown(std::string_view text, std::size_t most, std::string_view special) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::size_t known = detail::first_character(rest);
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
