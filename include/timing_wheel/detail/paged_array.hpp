#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <memory>
#include <vector>

#include "timing_wheel/detail/same_build.hpp"

namespace timing_wheel::detail {

/// An array that grows a page at a time: elements never move, and growing by one page costs one page, however long it
/// is.
///
/// Not thread-safe. `PageSize` is a power of two.
template <class T, std::size_t PageSize>
class paged_array {
  static_assert((PageSize & (PageSize - 1)) == 0, "a page holds a power of two of elements");

 public:
  [[nodiscard]] std::size_t size() const noexcept { return pages_.size() * PageSize; }

  [[nodiscard]] T& operator[](std::size_t i) noexcept { return pages_[i / PageSize][i % PageSize]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return pages_[i / PageSize][i % PageSize]; }

  /// Adds a page of value-initialised elements. Strong guarantee: throws `std::bad_alloc` and changes nothing.
  [[gnu::noinline]] void add_page() {
    pages_.push_back(std::make_unique<T[]>(PageSize));
    ++present_;
  }

  /// Whether the page of element `i` is there.
  [[nodiscard]] bool covers(std::size_t i) const noexcept { return i < size() && pages_[i / PageSize] != nullptr; }

  /// Makes the page of element `i`, and leaves gaps before it. On `std::bad_alloc` no element has changed, and it can
  /// be repeated.
  void cover(std::size_t i) {
    if (!covers(i)) {
      make_page_of(i);
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    return present_ * sizeof(T[PageSize]) + pages_.capacity() * sizeof(std::unique_ptr<T[]>);
  }

 private:
  // Kept out of those who ask, which have something better to do nearly always.
  [[gnu::noinline]] void make_page_of(std::size_t i) {
    if (i >= size()) {
      pages_.resize(i / PageSize + 1);
    }
    pages_[i / PageSize] = std::make_unique<T[]>(PageSize);
    ++present_;
  }

  std::vector<std::unique_ptr<T[]>> pages_;
  std::size_t present_ = 0;
};

}  // namespace timing_wheel::detail
