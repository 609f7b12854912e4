#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "timing_wheel/detail/engine/bucket.hpp"
#include "timing_wheel/detail/engine/paged_array.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

/// \file
/// What both wheels keep beside their buckets.

namespace timing_wheel::detail {

/// A bit for each bucket of a ring, in words of 64: set while the bucket has entries.
class bucket_marks {
 public:
  /// How many buckets share a word.
  static constexpr std::uint32_t per_word = 64;

  /// None is set.
  explicit bucket_marks(std::uint32_t buckets) : words_((buckets + per_word - 1) / per_word) {}

  /// How many words there are.
  [[nodiscard]] std::uint32_t words() const noexcept { return static_cast<std::uint32_t>(words_.size()); }
  /// The word that bucket `index` is in.
  [[nodiscard]] std::uint64_t word_of(std::uint32_t index) const noexcept { return words_[index / per_word]; }
  /// Whether that of bucket `index` is set.
  [[nodiscard]] bool has(std::uint32_t index) const noexcept { return (word_of(index) & bit(index)) != 0; }

  /// Sets that of bucket `index`.
  void set(std::uint32_t index) noexcept { words_[index / per_word] |= bit(index); }
  /// Clears it. \returns what is left of its word.
  std::uint64_t clear(std::uint32_t index) noexcept { return words_[index / per_word] &= ~bit(index); }

  /// Memory held.
  [[nodiscard]] std::size_t bytes() const noexcept { return words_.capacity() * sizeof(std::uint64_t); }

 private:
  static constexpr std::uint64_t bit(std::uint32_t index) noexcept { return std::uint64_t{1} << (index % per_word); }

  std::vector<std::uint64_t> words_;
};

/// The upper halves of deadlines that do not follow from where their entries lie. It is empty until the first of them
/// comes.
class far_deadlines {
 public:
  /// Its memory comes from `source`, which outlives it.
  explicit far_deadlines(page_source& source) noexcept : upper_(source) {}

  /// Makes room for that of `n`. On `std::bad_alloc` none has changed.
  void cover(timer_number n) { upper_.cover(n); }
  /// \pre `n` is covered.
  void keep(timer_number n, tick deadline) noexcept { upper_[n] = static_cast<std::uint32_t>(deadline >> 32U); }
  /// Whether one is kept for `n`, of a deadline of 2^32 or more.
  [[nodiscard]] bool has(timer_number n) const noexcept { return upper_.covers(n) && upper_[n] != 0; }
  /// \pre `n` is covered.
  void forget(timer_number n) noexcept { upper_[n] = 0; }
  /// \pre one is kept for the timer of `e`.
  [[nodiscard]] tick deadline_of(entry e) const noexcept { return tick{upper_[e.which]} << 32U | e.deadline_low; }

 private:
  paged_array<std::uint32_t, 4096> upper_;
};

}  // namespace timing_wheel::detail
