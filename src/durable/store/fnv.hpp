#pragma once

#include <cstdint>
#include <string_view>

namespace timing_wheel::durable {

/// The hash of a text by FNV-1a, with 64 bits: the same in each process, and on each machine.
constexpr std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 14695981039346656037U;
  for (const char each : text) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211U;
  }
  return hash;
}

}  // namespace timing_wheel::durable
