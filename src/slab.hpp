#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "timing_wheel/detail/paged_array.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/tick.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

enum class node_state : std::uint8_t {
  free,     // in the slab's free list, or never used
  armed,    // linked in the engine
  waiting,  // not in the engine: was due when it came, or the engine had no memory for it
  due,      // in the driver's batch, or with the executor; its callback has not begun
  running,  // its callback has begun; only the thread that runs it touches the callable
};

/// One timer, in one cache line.
struct alignas(64) timer_node {
  task callback;
  time_point deadline;
  std::uint64_t tag = 0;
  std::uint32_t generation = 0;
  slot next = 0;      // in the free list, or in the list of waiting timers
  slot previous = 0;  // in the list of waiting timers
  node_state state = node_state::free;
  bool recurring = false;  // it is periodic, and keeps its place among the pending while it runs
  bool cancelled = false;  // while it ran: it is not armed again
};
static_assert(sizeof(timer_node) == 64);

/// The timers of one shard, in pages that never move; a place that is given back is the first to be used again.
///
/// Every use of a place has its own generation. A place whose generations are used up (after 2^32 timers) is given up, so that
/// a key never fits two timers.
/// Thread safety: none of its own.
class slab {
 public:
  /// A place that is free. Strong guarantee on `std::bad_alloc`. Complexity: O(1), a page of 64 KiB every 1024 places.
  slot acquire() {
    if (first_free_ == none) {
      return append();
    }
    const slot s = first_free_;
    first_free_ = nodes_[s].next;
    return s;
  }

  /// Gives a place back; keys of it fit nothing any more.
  void release(slot s) noexcept {
    timer_node& node = nodes_[s];
    node.state = node_state::free;
    if (++node.generation != 0) {
      node.next = first_free_;
      first_free_ = s;
    }
  }

  [[nodiscard]] timer_node& operator[](slot s) noexcept { return nodes_[s]; }
  [[nodiscard]] timer_key key_of(slot s) const noexcept { return {s, nodes_[s].generation}; }

  /// The timer that `key` stands for, or null if it is finished.
  [[nodiscard]] timer_node* find(timer_key key) noexcept {
    timer_node& node = nodes_[key.where];
    return node.generation == key.generation && node.state != node_state::free ? &node : nullptr;
  }

  void prefetch(slot s) const noexcept { __builtin_prefetch(&nodes_[s], 1); }

  /// One past the largest place that was ever used.
  [[nodiscard]] slot extent() const noexcept { return extent_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return nodes_.bytes(); }

 private:
  static constexpr slot none = UINT32_MAX;

  slot append() {
    if (extent_ == nodes_.size()) {
      if (extent_ > none - page) {
        throw std::bad_alloc();
      }
      nodes_.add_page();
    }
    return extent_++;
  }

  static constexpr std::size_t page = 1024;
  paged_array<timer_node, page> nodes_;
  slot extent_ = 0;
  slot first_free_ = none;
};

/// The timers that are not in the engine and yet pending, first come first, linked through their nodes.
///
/// Thread safety: none of its own. Every operation is O(1) and allocates nothing.
class waiting_list {
 public:
  explicit waiting_list(slab& nodes) noexcept : nodes_(nodes) {}

  [[nodiscard]] bool empty() const noexcept { return first_ == none; }
  [[nodiscard]] slot front() const noexcept { return first_; }

  void push_back(slot s) noexcept {
    nodes_[s].next = none;
    nodes_[s].previous = last_;
    (last_ == none ? first_ : nodes_[last_].next) = s;
    last_ = s;
  }

  void erase(slot s) noexcept {
    const timer_node& node = nodes_[s];
    (node.previous == none ? first_ : nodes_[node.previous].next) = node.next;
    (node.next == none ? last_ : nodes_[node.next].previous) = node.previous;
  }

 private:
  static constexpr slot none = UINT32_MAX;

  slab& nodes_;
  slot first_ = none;
  slot last_ = none;
};

}  // namespace timing_wheel::detail
