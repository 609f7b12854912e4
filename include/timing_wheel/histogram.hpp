#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"

namespace timing_wheel {

/// Counts durations in classes that are at most 1/16 of their value wide, from 1 ns to 292 years, in 8 KiB.
///
/// It is the log-linear scheme of HdrHistogram: the position of the highest bit, and the four bits below it.
///
/// Example: 1 µs lies in the class from 992 to 1023 ns. After a thousand durations of 1 µs and one of 1 ms,
/// `quantile(0.5)` is 1023 ns, the end of that class, and `quantile(1)` is 1 ms, since none was longer.
///
/// Thread safety: as a plain object.
class histogram {
 public:
  /// Counts nothing yet. \throws std::bad_alloc: all of its memory is taken here.
  histogram() : counts_(classes) {}
  /// Copies all counts. \throws std::bad_alloc.
  histogram(const histogram&) = default;  // and no move: one that was moved from could count nothing
  /// Takes over the counts of the other one. Never allocates.
  histogram& operator=(const histogram&) = default;
  ~histogram() = default;

  /// Negative durations count as zero. Complexity: O(1), no allocation.
  void record(std::chrono::nanoseconds value) noexcept {
    const auto v = static_cast<std::uint64_t>(value.count() < 0 ? 0 : value.count());
    ++counts_[class_of(v)];
    ++total_;
    largest_ = v > largest_ ? v : largest_;
  }

  /// Adds the counts of `other`, as if all its durations had been recorded here. Complexity: O(classes), no allocation.
  TIMING_WHEEL_EXPORT void merge(const histogram& other) noexcept;

  /// How many durations were recorded.
  [[nodiscard]] std::uint64_t count() const noexcept { return total_; }
  /// The largest of them, exactly; zero if empty.
  [[nodiscard]] std::chrono::nanoseconds max() const noexcept {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(largest_));
  }

  /// All of them added up, each taken for the middle of its class: within 1/32 of the exact sum. Nothing is added up in
  /// `record`. Complexity: O(classes).
  [[nodiscard]] TIMING_WHEEL_EXPORT std::chrono::duration<double> sum() const noexcept;

  /// How many lie in classes that end at `most` or before: each was at most `most`, and one that is missing was more
  /// than 15/16 of it. Complexity: O(classes).
  [[nodiscard]] TIMING_WHEEL_EXPORT std::uint64_t count_up_to(std::chrono::nanoseconds most) const noexcept;

  /// The upper end of the class that the `share` smallest values end in, and never more than `max()`; zero if empty.
  /// `share` is clamped to [0, 1]: 0.5 is the median, 0.99 the 99th percentile. Complexity: O(classes).
  [[nodiscard]] TIMING_WHEEL_EXPORT std::chrono::nanoseconds quantile(double share) const noexcept;

 private:
  static constexpr unsigned fine_bits = 4;
  static constexpr std::size_t fine = std::size_t{1} << fine_bits;
  static constexpr std::size_t classes = (64 - fine_bits + 1) * fine;

  static constexpr std::size_t class_of(std::uint64_t v) noexcept {
    if (v < fine) {
      return v;
    }
    const auto shift = static_cast<unsigned>(std::bit_width(v)) - fine_bits - 1;
    return (shift + 1) * fine + ((v >> shift) - fine);
  }
  static constexpr std::uint64_t upper_end(std::size_t index) noexcept {
    if (index < fine) {
      return index;
    }
    const std::size_t shift = index / fine - 1;
    return ((fine + index % fine + 1) << shift) - 1;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
  std::uint64_t largest_ = 0;
};

}  // namespace timing_wheel
