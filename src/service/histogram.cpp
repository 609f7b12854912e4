#include "timing_wheel/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace timing_wheel {

void histogram::merge(const histogram& other) noexcept {
  for (std::size_t i = 0; i < classes; ++i) {
    counts_[i] += other.counts_[i];
  }
  total_ += other.total_;
  sum_ += other.sum_;
  largest_ = std::max(largest_, other.largest_);
}

std::uint64_t histogram::count_up_to(std::chrono::nanoseconds most) const noexcept {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < classes && most.count() >= 0 && upper_end(i) <= static_cast<std::uint64_t>(most.count());
       ++i) {
    seen += counts_[i];
  }
  return seen;
}

std::chrono::nanoseconds histogram::quantile(double share) const noexcept {
  const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(total_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) {
      return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(upper_end(i), largest_)));
    }
  }
  return max();
}

}  // namespace timing_wheel
