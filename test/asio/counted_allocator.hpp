#pragma once

#include <cstddef>
#include <memory>

namespace timing_wheel::test {

struct memory_count {
  std::size_t allocations = 0;
  std::size_t live = 0;  ///< Bytes.
};

/// An allocator that counts.
template <class T>
struct counted_allocator {
  using value_type = T;
  memory_count* of;

  explicit counted_allocator(memory_count& counted) : of(&counted) {}
  template <class Other>
  explicit(false) counted_allocator(const counted_allocator<Other>& other) : of(other.of) {}  // NOLINT
  T* allocate(std::size_t count) {
    ++of->allocations;
    of->live += count * sizeof(T);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* place, std::size_t count) {
    of->live -= count * sizeof(T);
    std::allocator<T>().deallocate(place, count);
  }
  friend bool operator==(const counted_allocator&, const counted_allocator&) = default;
};

}  // namespace timing_wheel::test
