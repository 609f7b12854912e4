#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "timing_wheel/detail/engine/page_source.hpp"
#include "timing_wheel/detail/same_build.hpp"

namespace timing_wheel::detail {

/// An array that grows a page at a time: elements never move, and growing by one page costs one page, however long it
/// is. It ends none of its elements.
///
/// Not thread-safe. `PageSize` is a power of two.
template <class T, std::size_t PageSize>
class paged_array {
  static_assert((PageSize & (PageSize - 1)) == 0, "a page holds a power of two of elements");
  static_assert(alignof(T) <= page_source::alignment && sizeof(T) * PageSize <= page_source::region_size);

 public:
  /// Its pages come from `source`, which outlives it.
  explicit paged_array(page_source& source) noexcept : source_(source) {}
  paged_array(const paged_array&) = delete;
  paged_array& operator=(const paged_array&) = delete;
  ~paged_array() = default;

  /// How many elements there is room for.
  [[nodiscard]] std::size_t size() const noexcept { return pages_.size() * PageSize; }

  /// \pre its page is there, and it was made.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return pages_[i / PageSize][i % PageSize]; }
  /// The same, to read.
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return pages_[i / PageSize][i % PageSize]; }

  /// Adds a page of memory, for its user to make the elements of. Strong guarantee: throws `std::bad_alloc` and changes
  /// nothing.
  [[gnu::noinline]] void add_unmade_page() {
    if (pages_.size() == pages_.capacity()) {
      pages_.reserve(2 * pages_.capacity() + 1);
    }
    pages_.push_back(static_cast<T*>(source_.allocate(sizeof(T) * PageSize)));
  }

  /// How many bytes a page takes.
  static constexpr std::size_t page_bytes = sizeof(T) * PageSize;
  /// Where a page is.
  [[nodiscard]] T* page(std::size_t index) const noexcept { return pages_[index]; }
  /// Puts another page in its place, of as many elements; what becomes of the old one is the caller's business.
  void replace_page(std::size_t index, T* with) noexcept { pages_[index] = with; }

  /// Whether the page of element `i` is there.
  [[nodiscard]] bool covers(std::size_t i) const noexcept { return i < size() && pages_[i / PageSize] != nullptr; }

  /// Makes the page of element `i`, of value-initialised ones, and leaves gaps before it. On `std::bad_alloc` no
  /// element has changed, and it can be repeated.
  void cover(std::size_t i) {
    if (!covers(i)) {
      make_page_of(i);
    }
  }

 private:
  [[nodiscard]] T* new_page() {
    static_assert(std::is_nothrow_default_constructible_v<T> && std::is_trivially_destructible_v<T>);
    T* const made = static_cast<T*>(source_.allocate(sizeof(T) * PageSize));
    std::uninitialized_value_construct_n(made, PageSize);
    return made;
  }

  // Not inlined: callers rarely need it.
  [[gnu::noinline]] void make_page_of(std::size_t i) {
    if (i >= size()) {
      pages_.resize(i / PageSize + 1);
    }
    pages_[i / PageSize] = new_page();
  }

  page_source& source_;
  std::vector<T*> pages_;
};

}  // namespace timing_wheel::detail
