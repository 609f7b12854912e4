#pragma once

#include <cstdint>

#include "core/slab.hpp"

namespace timing_wheel::detail {

/// The timers that are not in the engine and yet pending, first come first, linked through their nodes.
///
/// Thread safety: none of its own. Every operation is O(1) and allocates nothing.
class waiting_list {
 public:
  explicit waiting_list(slab& nodes) noexcept : nodes_(nodes) {}

  [[nodiscard]] bool empty() const noexcept { return first_ == none; }
  [[nodiscard]] timer_number front() const noexcept { return first_; }

  void push_back(timer_number n) noexcept {
    nodes_[n].next = none;
    nodes_[n].previous = last_;
    (last_ == none ? first_ : nodes_[last_].next) = n;
    last_ = n;
  }

  void erase(timer_number n) noexcept {
    const timer_node& node = nodes_[n];
    (node.previous == none ? first_ : nodes_[node.previous].next) = node.next;
    (node.next == none ? last_ : nodes_[node.next].previous) = node.previous;
  }

 private:
  static constexpr timer_number none = UINT32_MAX;

  slab& nodes_;
  timer_number first_ = none;
  timer_number last_ = none;
};

}  // namespace timing_wheel::detail
