#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <vector>

namespace timing_wheel::bench {

/// The most timers that a benchmark is to make: a million, or what TIMING_WHEEL_BENCH_LARGEST says, for instance 1e7.
[[nodiscard]] inline std::int64_t largest_size() {
  const char* const wanted = std::getenv("TIMING_WHEEL_BENCH_LARGEST");
  return wanted == nullptr ? 1'000'000 : static_cast<std::int64_t>(std::strtod(wanted, nullptr));
}

/// Those of `sizes` that are not larger; and always the first, the smallest, which the smoke test runs.
[[nodiscard]] inline std::vector<std::int64_t> sizes_to_run(std::initializer_list<std::int64_t> sizes) {
  const std::int64_t most = std::max(largest_size(), *sizes.begin());
  std::vector<std::int64_t> chosen;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(chosen),
               [most](std::int64_t size) { return size <= most; });
  return chosen;
}

}  // namespace timing_wheel::bench
