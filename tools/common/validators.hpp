#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

// What CLI11's own checks let through.

namespace common {

/// A number in [least, most]. CLI::Range takes a `nan` for one.
inline CLI::Validator number_in(double least, double most) {
  const CLI::Range range(least, most);
  const auto check = [range](std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? "Value " + text + " is not a number" : range(text);
  };
  return {check, range.get_description()};
}

/// A whole number of 64 bits. CLI11 takes -1 for the largest one, and so what is larger than that.
inline CLI::Validator whole_number() {
  const auto check = [](std::string& text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_good = error == std::errc() && end == text.data() + text.size();
    return is_good ? std::string() : "Value " + text + " is not a whole number in [0 - 18446744073709551615]";
  };
  return {check, "UINT in [0 - 18446744073709551615]"};
}

}  // namespace common
