#include "timing_wheel/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace timing_wheel {

void histogram::merge(const histogram& other) noexcept {
  for (std::size_t i = 0; i < classes; ++i) {
    counts_[i] += other.counts_[i];
  }
  total_ += other.total_;
  largest_ = std::max(largest_, other.largest_);
}

std::chrono::duration<double> histogram::sum() const noexcept {
  double nanoseconds = 0;
  double below = -1;  // the upper end of the class before
  for (std::size_t i = 0; i < classes; ++i) {
    const auto end = static_cast<double>(upper_end(i));
    nanoseconds += static_cast<double>(counts_[i]) * ((below + 1 + end) / 2);
    below = end;
  }
  return std::chrono::duration<double>(nanoseconds / 1e9);
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
