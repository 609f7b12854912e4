#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

namespace timing_wheel::bench {

/// The most timers that a benchmark is to make: a million, or what TIMING_WHEEL_BENCH_LARGEST says, for instance 1e7.
[[nodiscard]] inline std::int64_t largest_size() {
  const char* const wanted = std::getenv("TIMING_WHEEL_BENCH_LARGEST");
  return wanted == nullptr ? 1'000'000 : static_cast<std::int64_t>(std::strtod(wanted, nullptr));
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
