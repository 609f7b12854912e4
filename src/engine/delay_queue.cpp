#include "timing_wheel/detail/engine/delay_queue.hpp"

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "engine/engine_trace.hpp"

namespace timing_wheel::detail {

void delay_queue::grow(std::size_t members) {
  if (members > place_.size()) {
    heap_.reserve(members + arity);
    place_.resize(members, absent);
  }
}

void delay_queue::shrink() noexcept {
  constexpr std::size_t few = 256;
  if (size() > few) {
    return;
  }
  std::size_t members = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    members = std::max(members, std::size_t{heap_[i].which} + 1);
  }
  if (members > place_.size() / 2) {
    return;
  }
  try {
    std::vector<element> heap;
    heap.reserve(members + arity);
    heap.assign(heap_.begin(), heap_.end());
    std::vector<std::uint32_t> place(place_.begin(), place_.begin() + static_cast<std::ptrdiff_t>(members));
    heap_ = std::move(heap);
    place_ = std::move(place);
  } catch (const std::bad_alloc&) {
    // It stays as large as it is.
  }
}

void delay_queue::push(member m, tick expiration) noexcept {
  ++operations_;
  heap_.push_back({never, absent});
  sift_up(size() - 1, {expiration, m});
}

void delay_queue::erase(member m) noexcept {
  ++operations_;
  const std::size_t hole = place_[m];
  place_[m] = absent;
  heap_.pop_back();
  const element last = std::exchange(heap_[size()], element{never, absent});
  if (hole < size()) {
    sift(hole, last);
  }
}

inline void delay_queue::put(std::size_t index, element e) noexcept {
  heap_[index] = e;
  place_[e.which] = static_cast<std::uint32_t>(index);
  TIMING_WHEEL_ENGINE_EVENT(placed, index, e.which, e.expiration);
}

void delay_queue::sift_up(std::size_t index, element e) noexcept {
  while (index > 0) {
    const std::size_t parent = parent_of(index);
    if (heap_[parent].expiration <= e.expiration) {
      break;
    }
    put(index, heap_[parent]);
    index = parent;
  }
  put(index, e);
}

void delay_queue::sift_down(std::size_t index, element e) noexcept {
  for (;;) {
    const std::size_t child = earliest_child(index);
    if (child == index || e.expiration <= heap_[child].expiration) {
      break;
    }
    put(index, heap_[child]);
    index = child;
  }
  put(index, e);
}

// The element itself if it has no child.
inline std::size_t delay_queue::earliest_child(std::size_t index) const noexcept {
  const std::size_t first = arity * index + 1;
  if (first >= size()) {
    return index;
  }
  const element* const child = &heap_[first];
  const std::size_t left = child[1].expiration < child[0].expiration ? 1 : 0;
  const std::size_t right = child[3].expiration < child[2].expiration ? 3 : 2;
  return first + (child[right].expiration < child[left].expiration ? right : left);
}

void delay_queue::sift(std::size_t index, element e) noexcept {
  if (index > 0 && e.expiration < heap_[parent_of(index)].expiration) {
    sift_up(index, e);
  } else {
    sift_down(index, e);
  }
}

std::size_t delay_queue::bytes() const noexcept {
  return heap_.capacity() * sizeof(element) + place_.capacity() * sizeof(std::uint32_t);
}

bool delay_queue::invariants_hold() const noexcept {
  if (heap_.capacity() < place_.size() + arity) {  // (3)
    return false;
  }
  std::size_t present = 0;
  for (member m = 0; m < place_.size(); ++m) {
    if (place_[m] == absent) {
      continue;
    }
    ++present;
    if (place_[m] >= size() || heap_[place_[m]].which != m) {  // (2)
      return false;
    }
  }
  for (std::size_t i = 1; i < size(); ++i) {
    if (heap_[i].expiration < heap_[parent_of(i)].expiration) {  // (1)
      return false;
    }
  }
  for (std::size_t i = size(); i < heap_.size(); ++i) {
    if (heap_[i].expiration != never) {  // (4)
      return false;
    }
  }
  return present == size();
}

}  // namespace timing_wheel::detail
