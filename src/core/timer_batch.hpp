#pragma once

#include <array>
#include <cstddef>

#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_stats.hpp"

namespace timing_wheel::detail {

/// The ids of timers that are due, as many as one hold of the lock handles at most. It has room for them always, so
/// that nothing is asked for each.
///
/// Thread safety: none of its own.
class timer_batch {
 public:
  using value_type = timer_id;
  using const_iterator = const timer_id*;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const_iterator begin() const noexcept { return ids_.data(); }
  [[nodiscard]] const_iterator end() const noexcept { return ids_.data() + size_; }

  void clear() noexcept { size_ = 0; }
  /// \pre there are less than `max_timers_per_lock`.
  void push_back(timer_id id) noexcept { ids_[size_++] = id; }

 private:
  std::array<timer_id, max_timers_per_lock> ids_{};
  std::size_t size_ = 0;
};

}  // namespace timing_wheel::detail
