#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace timing_wheel::bench {

inline constexpr const char* largest_size_variable = "TIMING_WHEEL_BENCH_LARGEST";

/// The most timers that a benchmark is to make: a million, or what TIMING_WHEEL_BENCH_LARGEST says, for instance 1e7.
/// \throws std::invalid_argument if that is no number from 1 to 1e9.
[[nodiscard]] inline std::int64_t largest_size() {
  const char* const wanted = std::getenv(largest_size_variable);
  if (wanted == nullptr) {
    return 1'000'000;
  }
  char* end = nullptr;
  const double size = std::strtod(wanted, &end);
  const bool in_range = size >= 1 && size <= 1e9;
  if (end == wanted || *end != '\0' || !in_range) {
    throw std::invalid_argument(std::string(largest_size_variable) + ": \"" + wanted +
                                "\" is not a number of timers, 1 to 1e9");
  }
  return static_cast<std::int64_t>(size);
}

/// Those of `sizes` that are not larger than `most`; and always the first, the smallest, which the smoke test runs.
[[nodiscard]] inline std::vector<std::int64_t> sizes_to_run(std::initializer_list<std::int64_t> sizes,
                                                            std::int64_t most = largest_size()) {
  std::vector<std::int64_t> chosen;
  for (const std::int64_t size : sizes) {
    if (chosen.empty() || size <= most) {
      chosen.push_back(size);
    }
  }
  return chosen;
}

}  // namespace timing_wheel::bench
