#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "common/program.hpp"

namespace common {

/// A number within bounds, in decimal digits, and nothing after it.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, Number least, Number most) {
  Number number{};
  const auto [end, error] = [&] {
    if constexpr (std::is_floating_point_v<Number>) {
      return std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    } else {
      return std::from_chars(text.data(), text.data() + text.size(), number);
    }
  }();
  const bool is_good = error == std::errc() && end == text.data() + text.size() && number >= least && number <= most;
  return is_good ? std::optional(number) : std::nullopt;
}

/// \throws std::invalid_argument in the form of "'1e6' is not a whole number in [0, 9]".
template <class Number>
[[nodiscard]] Number read_whole(std::string_view text, Number least, Number most) {
  const std::optional<Number> number = parse_number(text, least, most);
  if (!number) {
    throw std::invalid_argument(quoted(text) + " is not a whole number in [" + std::to_string(least) + ", " +
                                std::to_string(most) + "]");
  }
  return *number;
}

}  // namespace common
