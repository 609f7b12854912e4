#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "timing_wheel/engine/engine.hpp"

/// \file
/// Families of timers that the library does not have as engines, small and plain. They have the members of a
/// `timer_engine` that the comparison calls, with the same meaning. `rules.hpp` says what each of them must count.

namespace timing_wheel::compare {

/// Each level of a `noncascading_wheel` has a tick of this many ticks of the level below, as in Linux.
inline constexpr tick noncascading_step = 8;

/// Memory that knows how much of it is in use.
class counted_memory : public std::pmr::memory_resource {
 public:
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* place, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::size_t used_ = 0;
};

/// Timers in slots: a doubly linked list for each slot.
class slot_lists {
 public:
  slot_lists(std::size_t slots, std::pmr::memory_resource* memory) : first_(slots, none, memory), nodes_(memory) {}

  void link(timer_number n, std::size_t slot);
  /// \returns the slot that had it, if one had.
  std::optional<std::size_t> unlink(timer_number n);
  /// Appends all timers of a slot to `taken`, and unlinks them.
  void take(std::size_t slot, std::vector<timer_number>& taken);
  [[nodiscard]] bool empty(std::size_t slot) const { return first_[slot] == none; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  struct node {
    std::uint32_t previous = none;
    std::uint32_t next = none;
    std::uint32_t slot = none;
  };

  std::pmr::vector<std::uint32_t> first_;  // by slot
  std::pmr::vector<node> nodes_;           // by timer
  std::size_t size_ = 0;
};

/// Linux's wheel since 4.8. Level k has ticks of 8^k. A timer goes to the lowest level of which `size` − 1 ticks are
/// longer than its delay, into the slot that begins at its deadline or next after it. It fires when this slot begins.
/// So a timer is late by less than a tick of its level. (Linux rounds a deadline that is on such a tick up to the next.)
class noncascading_wheel {
 public:
  noncascading_wheel(std::uint32_t size, std::uint32_t levels);

  /// \pre The delay is less than (`size` − 1) × 8^(`levels` − 1).
  bool insert(timer_number n, tick deadline);
  bool erase(timer_number n) noexcept;
  void catch_up(tick now) noexcept;
  advance_result advance(tick now);
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept;
  [[nodiscard]] engine_stats stats() const;

 private:
  counted_memory memory_;
  std::vector<level_stats> levels_;
  slot_lists slots_;                                      // of the lowest level, then those of the next
  std::pmr::vector<tick> begins_;                         // by slot, while it has a timer
  std::pmr::set<std::pair<tick, std::size_t>> upcoming_;  // (begin, slot) of those with a timer
  tick clock_ = 0;
  std::vector<timer_number> due_;
};

/// A wheel that counts rounds, except that each slot is a binary heap. A tick compares the earliest deadline of its slot
/// with the clock, and looks at no timer but those that fire. It wakes at each tick.
class sorted_wheel {
 public:
  explicit sorted_wheel(std::uint32_t slots);

  bool insert(timer_number n, tick deadline);
  bool erase(timer_number n) noexcept;
  void catch_up(tick now) noexcept;
  advance_result advance(tick now);
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept;
  [[nodiscard]] engine_stats stats() const;

 private:
  using heap = std::pmr::vector<timer_number>;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  struct timer {
    tick deadline = 0;
    std::uint32_t place = none;  // in its slot's heap
  };

  heap& slot_of(tick deadline) { return slots_[deadline % slots_.size()]; }
  void put(heap& slot, std::size_t place, timer_number n);
  [[nodiscard]] bool is_before(timer_number a, timer_number b) const {
    return timers_[a].deadline < timers_[b].deadline;
  }
  void rise(heap& slot, std::size_t place);
  void sink(heap& slot, std::size_t place);
  void remove(heap& slot, std::size_t place);

  counted_memory memory_;
  std::vector<level_stats> levels_;  // one
  std::pmr::vector<heap> slots_;
  std::pmr::vector<timer> timers_{&memory_};
  std::size_t size_ = 0;
  std::uint64_t heap_operations_ = 0;
  tick clock_ = 0;
  std::vector<timer_number> due_;
};

/// A hierarchy in which each level has a thread that wakes at each of the level's ticks. A call of `advance` is one
/// wake-up of one thread; of threads that wake at the same tick, that of the highest level comes first. Real threads
/// race here: a timer that moves too late to a lower level misses its slot.
class polled_wheels {
 public:
  polled_wheels(std::uint32_t size, std::uint32_t levels);

  /// \pre The levels reach `deadline`.
  bool insert(timer_number n, tick deadline);
  bool erase(timer_number n) noexcept { return slots_.unlink(n).has_value(); }
  void catch_up(tick now) noexcept;
  advance_result advance(tick now);
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept;
  [[nodiscard]] engine_stats stats() const;

 private:
  [[nodiscard]] std::size_t slot_for(tick deadline) const;
  void link(timer_number n);

  counted_memory memory_;
  std::vector<level_stats> levels_;
  slot_lists slots_;                  // of the lowest level, then those of the next
  std::pmr::vector<tick> deadlines_;  // by timer
  std::size_t awake_ = 0;             // threads that are still to poll at `clock_`: those of the lowest levels
  tick clock_ = 0;
  std::vector<timer_number> found_;
  std::vector<timer_number> due_;
};

/// ZooKeeper's sessions: a map from each tick to the timers that end then, as deadlines are rounded up to ticks.
/// ZooKeeper rounds a deadline that is on a tick up to the next one. It wakes at each tick.
class session_buckets {
 public:
  session_buckets();

  bool insert(timer_number n, tick deadline);
  bool erase(timer_number n) noexcept;
  void catch_up(tick now) noexcept;
  advance_result advance(tick now);
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept;
  [[nodiscard]] engine_stats stats() const;

 private:
  counted_memory memory_;
  std::pmr::unordered_map<tick, std::pmr::unordered_set<timer_number>> buckets_{&memory_};
  std::pmr::vector<tick> deadlines_{&memory_};  // by timer
  std::vector<level_stats> levels_;             // one
  std::size_t most_bytes_ = 0;
  tick clock_ = 0;
  std::vector<timer_number> due_;
};

}  // namespace timing_wheel::compare
