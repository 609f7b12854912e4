#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::detail {

/// A min-heap of numbered members keyed by expiration: what Kafka keeps in a `java.util.concurrent.DelayQueue`. An
/// element has up to four children.
///
/// It knows no clock and does not sleep. Each member is in it at most once, knows its place, and so can leave or change
/// its key without a search: nothing that has been emptied stays behind.
///
/// Example: `grow(3); push(2, 40); push(0, 10); update(2, 5);` then `front()` is `{5, 2}`.
///
/// Thread safety: none of its own.
/// Invariants: (1) no element expires before its parent; (2) `place_` of a member is the index of its element, or
/// `absent`; (3) the capacity covers every member, so that `push` never allocates; (4) as many elements as one can have
/// children follow the last one and never expire, so that each that has a child has all of them, and an empty queue has
/// a front.
class delay_queue {
 public:
  delay_queue() = default;
  delay_queue(const delay_queue&) = delete;
  delay_queue& operator=(const delay_queue&) = delete;

  /// Numbers from 0 without gaps, so that an array can tell the place of each.
  using member = std::uint32_t;
  /// What the heap orders: a member and its key.
  struct element {
    tick expiration;  ///< The key. The queue does not care what one tick is.
    member which;     ///< Whose key it is.
  };

  /// Makes room for the members `0 … members − 1`. Strong guarantee on `std::bad_alloc`.
  void grow(std::size_t members);

  /// Takes room away from the members behind the last one that is queued, if 256 at most are, and half of the room is
  /// theirs. Does nothing if there is no memory for what is left. Complexity: O(members()).
  void shrink() noexcept;

  /// Whether no member is queued. Complexity: O(1).
  [[nodiscard]] bool empty() const noexcept { return heap_.front().which == absent; }
  /// How many members are queued; at most `members()`. Complexity: O(1).
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size() - arity; }
  /// How many members there is room for.
  [[nodiscard]] std::size_t members() const noexcept { return place_.size(); }
  /// Whether `m` is queued. \pre `m` is below the number given to `grow`.
  [[nodiscard]] bool contains(member m) const noexcept { return place_[m] != absent; }

  /// The element that expires first; its expiration is `never` if the queue is empty. Complexity: O(1).
  [[nodiscard]] const element& front() const noexcept { return heap_.front(); }

  /// The key of `m`. \pre `contains(m)`.
  [[nodiscard]] tick expiration(member m) const noexcept { return heap_[place_[m]].expiration; }

  /// Queues `m`. Complexity: O(log size), no allocation. \pre `m` is below the number given to `grow`, and absent.
  void push(member m, tick expiration) noexcept;

  /// Gives `m` another key. Complexity: O(log size); O(1) when the order stays. \pre `contains(m)`.
  void update(member m, tick expiration) noexcept {
    ++operations_;
    if (heap_.front().which == m && stays_in_front(expiration)) {  // as nearly always when a wheel goes on
      heap_.front().expiration = expiration;
    } else {
      sift(place_[m], {expiration, m});
    }
  }

  /// Takes `m` out. Complexity: O(log size). \pre `contains(m)`.
  void erase(member m) noexcept;

  /// How many times `push`, `update` and `erase` were called.
  [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }

  /// Memory held on the heap, in use or kept for reuse.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// \returns whether the numbered invariants hold. Complexity: O(size() + members()).
  [[nodiscard]] bool invariants_hold() const noexcept;

 private:
  static constexpr std::uint32_t absent = UINT32_MAX;

  // Children of an element: four lie side by side, so that the heap is half as high for about as many misses on the way
  // down.
  static constexpr std::size_t arity = 4;
  static constexpr std::size_t parent_of(std::size_t index) noexcept { return (index - 1) / arity; }

  [[nodiscard]] bool stays_in_front(tick expiration) const noexcept {
    const element* const child = heap_.data() + 1;
    return expiration <= std::min(std::min(child[0].expiration, child[1].expiration),
                                  std::min(child[2].expiration, child[3].expiration));
  }

  inline void put(std::size_t index, element e) noexcept;
  void sift_up(std::size_t index, element e) noexcept;
  void sift_down(std::size_t index, element e) noexcept;
  void sift(std::size_t index, element e) noexcept;
  [[nodiscard]] inline std::size_t earliest_child(std::size_t index) const noexcept;

  std::vector<element> heap_ = std::vector<element>(arity, element{never, absent});
  std::vector<std::uint32_t> place_;
  std::uint64_t operations_ = 0;
};

}  // namespace timing_wheel::detail
