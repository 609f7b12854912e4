#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/export.hpp"

namespace timing_wheel::detail {

/// Zeroed memory in one piece that grows. Beyond 64 KiB it is mapped, advised for huge pages, and grows by moving its
/// pages to other addresses, not their content. Where the system has no such call, it is of `operator new`, and copied.
///
/// Thread safety: none of its own.
class growing_memory {
 public:
  /// None. Without `huge_pages` all of it is of `operator new`.
  explicit growing_memory(bool huge_pages) noexcept : huge_pages_(huge_pages) {}
  growing_memory(const growing_memory&) = delete;
  growing_memory& operator=(const growing_memory&) = delete;
  TIMING_WHEEL_EXPORT ~growing_memory();

  /// Where it is; another place after each `grow`. Aligned as by `operator new`, at least.
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// How much there is, in bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Makes it `bytes` large at least, and larger by an eighth than it was, or by a half if that takes a copy. What is
  /// new is zero. Strong guarantee on `std::bad_alloc`. Complexity: amortised O(bytes); of what is mapped the page
  /// tables.
  void grow(std::size_t bytes);

  /// Gives back what lies behind the first `bytes`, where that is cheap: whole pages of what is mapped, or what leaves
  /// 64 KiB at most to be copied. Complexity: O(bytes given back).
  void shrink(std::size_t bytes) noexcept;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
  bool huge_pages_;
};

/// Zeroed memory of a fixed size, most of which may never be used: from 16 KiB on it is mapped, so that a page of the
/// system that nobody writes takes none. Where the system has no such call, it is of `operator new`.
///
/// Thread safety: none of its own.
class sparse_memory {
 public:
  /// Without `may_map` it is of `operator new`. \throws std::bad_alloc.
  sparse_memory(std::size_t bytes, bool may_map);
  /// Leaves the other one none.
  sparse_memory(sparse_memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_), mapped_(std::exchange(other.mapped_, false)) {}
  sparse_memory& operator=(sparse_memory&&) = delete;
  ~sparse_memory();

  /// Where it is. Aligned as by `operator new`, at least.
  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
  bool mapped_ = false;
};

/// An array in one piece that grows: a load less per access than one of pages, and dense in the caches of the
/// processor and of its page tables. Elements are zero at first, and move when it grows.
///
/// Not thread-safe.
template <class T>
class flat_array {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  /// An empty one.
  explicit flat_array(bool huge_pages) noexcept : memory_(huge_pages) {}

  /// How many elements there are.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// \pre `i < size()`.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  /// The same, to read.
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }

  /// Makes room for element `i`. Strong guarantee on `std::bad_alloc`. Complexity: amortised O(1).
  void cover(std::size_t i) {
    if (i >= size_) {
      grow(i);
    }
  }

  /// Memory held.
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.size(); }

  /// Gives memory behind element `elements - 1` back, for a part of `step` elements at most. \returns whether it has.
  bool shrink_towards(std::size_t elements, std::size_t step) noexcept {
    const std::size_t before = size_;
    if (elements < before) {
      memory_.shrink(std::max(elements, before - std::min(before, step)) * sizeof(T));
      look_at_memory();
    }
    return size_ != before;
  }

 private:
  [[gnu::noinline]] void grow(std::size_t i) {
    memory_.grow((i + 1) * sizeof(T));
    look_at_memory();
  }
  void look_at_memory() noexcept {
    data_ = static_cast<T*>(memory_.data());
    size_ = memory_.size() / sizeof(T);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  growing_memory memory_;
};

}  // namespace timing_wheel::detail
