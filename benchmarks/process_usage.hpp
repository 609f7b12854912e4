#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace timing_wheel::bench {

/// What the process has used so far.
struct process_usage {
  std::chrono::nanoseconds cpu{};         ///< Of all threads, user and system.
  std::chrono::nanoseconds others_cpu{};  ///< Of all but the calling thread.
  /// Voluntary context switches of all threads but the calling one. A thread that sleeps makes one each time that it
  /// was woken.
  std::uint64_t others_wakes = 0;

  friend process_usage operator-(const process_usage& later, const process_usage& earlier) noexcept {
    return {later.cpu - earlier.cpu, later.others_cpu - earlier.others_cpu, later.others_wakes - earlier.others_wakes};
  }
};

/// A difference of two of them means something if no thread has ended in between.
[[nodiscard]] process_usage usage_now();

/// Resident memory. What malloc has kept of earlier work is given back before, so that it is not taken for free.
///
/// The kernel adds up the pages of each thread in batches: this is right to some hundred KiB.
[[nodiscard]] std::size_t resident_bytes();

}  // namespace timing_wheel::bench
