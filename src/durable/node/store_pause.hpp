#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// For how long a store that fails is left alone: 10 ms, and twice as long after each further failure, up to a sixth of
/// a lease and 5 s. So a node that died in an outage is replaced within a lease of the outage's end. Each pause is
/// shortened by chance, to a half at most, so that nodes do not come back together.
///
/// Invariant, checked by `invariants_hold()`: if a write has failed, then the store fails.
///
/// Thread safety: as a plain object.
class store_pause {
 public:
  explicit store_pause(std::chrono::microseconds lease)
      : longest_(std::clamp<std::int64_t>(lease.count() / 6, first, 5'000'000)) {}

  /// A call has failed.
  void failed(instant now, bool writing, std::minstd_rand& random) {
    failed_writing_ = failed_writing_ || writing;
    const std::int64_t exact = std::min(longest_, first << std::min(failures_, 20U));
    std::uniform_int_distribution<std::int64_t> some(exact / 2, exact);
    until_ = now + std::chrono::microseconds(some(random));
    ++failures_;
  }
  /// A call has worked.
  void worked(bool writing) noexcept {
    if (writing || !failed_writing_) {  // a disk that is full can be read
      failures_ = 0;
      failed_writing_ = false;
    }
  }
  /// The store is not left alone any longer.
  void end() noexcept { until_ = {}; }
  /// The clock was set back.
  void restart(instant now) noexcept { until_ = now; }

  [[nodiscard]] bool fails() const noexcept { return failures_ != 0; }
  /// Whether the store is left alone for now.
  [[nodiscard]] bool rests(instant now) const noexcept { return fails() && now < until_; }
  [[nodiscard]] instant until() const noexcept { return until_; }

  [[nodiscard]] bool invariants_hold() const noexcept { return fails() || !failed_writing_; }

 private:
  static constexpr std::int64_t first = 10'000;  // in microseconds, as is the next

  const std::int64_t longest_;
  unsigned failures_ = 0;
  bool failed_writing_ = false;
  instant until_{};
};

}  // namespace timing_wheel::durable
