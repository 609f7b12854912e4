#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "timing_wheel/detail/paged_array.hpp"
#include "timing_wheel/engine/tick.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

/// How many bits of `timer_handle::key()` tell the place, and how many its generation.
inline constexpr unsigned number_bits = 27;
inline constexpr unsigned generation_bits = 27;

enum class node_state : std::uint8_t {
  free,     // in the slab's free list, or never used
  armed,    // linked in the engine
  waiting,  // not in the engine: was due when it came, or the engine had no memory for it
  due,      // in the driver's batch, or with the executor; its callback has not begun
  // From here on the claim window may know better:
  offered,  // in a place of the claim window, `next`: the driver may begin its callback without the lock
  running,  // its callback has begun; only the thread that runs it touches the callable
};

/// One timer, in one cache line.
struct alignas(64) timer_node {
  task callback;
  time_point deadline;
  std::uint64_t tag = 0;
  std::uint32_t generation = 1;
  timer_number next = 0;      // in the free list, or in the list of waiting timers; or a place in the claim window
  timer_number previous = 0;  // in the list of waiting timers
  node_state state = node_state::free;
  bool recurring = false;  // it is periodic, and keeps its place among the pending while it runs
  bool cancelled = false;  // while it ran: it is not armed again
};
static_assert(sizeof(timer_node) == 64);

/// The timers of one shard, in pages that never move; a place that is given back is the first to be used again.
///
/// Every use of a place has its own generation, from 1 on. A place whose generations are used up is given up, so that
/// an id never fits two timers. Places and generations have 27 bits each, so that both fit into `timer_handle::key()`,
/// with 10 for the shard: a shard holds 134 million timers at a time, and a place serves as many, one after the other.
/// Thread safety: none of its own.
class slab {
 public:
  explicit slab(bool huge_pages = true) noexcept : memory_(huge_pages) {}
  slab(const slab&) = delete;
  slab& operator=(const slab&) = delete;
  ~slab() {
    for (timer_number n = 0; n < extent_; ++n) {
      std::destroy_at(&nodes_[n]);
    }
  }

  /// A place that is free. Strong guarantee on `std::bad_alloc`. Complexity: O(1), a page of 64 KiB every 1024 places.
  timer_number acquire() {
    if (first_free_ == none) {
      return append();
    }
    const timer_number n = first_free_;
    first_free_ = nodes_[n].next;
    return n;
  }

  /// Gives a place back; ids of it fit nothing any more.
  void release(timer_number n) noexcept { release(n, nodes_[n]); }
  /// The same, for who has found its node. \pre `node` is that of `n`.
  void release(timer_number n, timer_node& node) noexcept {
    node.state = node_state::free;
    if (++node.generation < end_of_generations) {
      node.next = first_free_;
      first_free_ = n;
    }
  }

  [[nodiscard]] timer_node& operator[](timer_number n) noexcept { return nodes_[n]; }
  [[nodiscard]] timer_id id_of(timer_number n) const noexcept { return {n, nodes_[n].generation}; }

  /// The timer that `id` stands for, or null if it is finished.
  [[nodiscard]] timer_node* find(timer_id id) noexcept {
    timer_node& node = nodes_[id.number];
    return node.generation == id.generation && node.state != node_state::free ? &node : nullptr;
  }

  void prefetch(timer_number n) const noexcept { __builtin_prefetch(&nodes_[n], 1); }

  /// One past the largest place that was ever used.
  [[nodiscard]] timer_number extent() const noexcept { return extent_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }

 private:
  static constexpr timer_number none = UINT32_MAX;

  timer_number append() {
    if (extent_ == nodes_.size()) {
      if (extent_ >= most_places) {
        throw std::bad_alloc();
      }
      nodes_.add_unmade_page();
    }
    std::construct_at(&nodes_[extent_]);
    return extent_++;
  }

  static constexpr timer_number most_places = 1U << number_bits;
  static constexpr std::uint32_t end_of_generations = 1U << generation_bits;
  static constexpr std::size_t page = 1024;
  page_source memory_;
  paged_array<timer_node, page> nodes_{memory_};
  timer_number extent_ = 0;
  timer_number first_free_ = none;
};

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
