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
/// The class of a duration is the position of its highest bit, and the four bits below that bit (HdrHistogram's
/// log-linear scheme).
///
///     histogram late;
///     for (int i = 0; i < 1000; ++i) late.record(1us);  // the class from 992 to 1023 ns
///     late.record(1ms);
///     auto median = late.quantile(0.5);  // 1023 ns: the end of that class
///     auto longest = late.quantile(1);   // 1 ms: no duration was longer
///
/// Thread safety: as a plain object.
class histogram {
 public:
  /// An empty histogram. It allocates all of its memory here. \throws std::bad_alloc.
  histogram() : counts_(classes) {}
  /// Copies all counts. \throws std::bad_alloc.
  histogram(const histogram&) = default;  // and no move: one that was moved from could count nothing
  /// Copies all counts. Never allocates.
  histogram& operator=(const histogram&) = default;
  ~histogram() = default;

  /// Counts one duration; a negative one counts as zero. Complexity: O(1), no allocation.
  void record(std::chrono::nanoseconds value) noexcept {
    const auto v = static_cast<std::uint64_t>(value.count() < 0 ? 0 : value.count());
    ++counts_[class_of(v)];
    ++total_;
    if (v > largest_) {
      largest_ = v;
    }
  }

  /// Adds the counts of `other`. Complexity: O(classes), no allocation.
  TIMING_WHEEL_EXPORT void merge(const histogram& other) noexcept;

  /// How many durations were recorded.
  [[nodiscard]] std::uint64_t count() const noexcept { return total_; }
  /// The largest duration, exactly; zero if the histogram is empty.
  [[nodiscard]] std::chrono::nanoseconds max() const noexcept {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(largest_));
  }

  /// The sum of all durations. Each counts as the middle of its class, so the result is within 1/32 of the exact sum.
  /// Complexity: O(classes).
  [[nodiscard]] TIMING_WHEEL_EXPORT std::chrono::duration<double> sum() const noexcept;

  /// How many durations lie in classes that end at `most` or before. Each of these is at most `most`. The call
  /// leaves out only such durations up to `most` as are longer than 15/16 of `most`. Complexity: O(classes).
  [[nodiscard]] TIMING_WHEEL_EXPORT std::uint64_t count_up_to(std::chrono::nanoseconds most) const noexcept;

  /// The quantile of a share: 0.5 for the median, 0.99 for the 99th percentile. The result is the upper end of a class,
  /// but never more than `max()`; zero if the histogram is empty. `share` is clamped to [0, 1]. Complexity: O(classes).
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
