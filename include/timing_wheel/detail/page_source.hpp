#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"

namespace timing_wheel::detail {

/// Memory for arrays that grow a page at a time, which is given back all at once.
///
/// The first `ordinary` bytes come from `operator new`, a page at a time: so it never has more than an eighth that is
/// not used. What follows is carved out of regions that are mapped and advised for huge pages, since timers are
/// cancelled in any order, and each reach into far memory costs a walk through page tables as well. Where the system
/// has no such mapping, `operator new` goes on.
///
/// Thread safety: none of its own.
class page_source {
 public:
  /// The size of a region, and of a huge page, in bytes.
  static constexpr std::size_t region_size = std::size_t{2} << 20U;
  /// How much is taken from `operator new` before.
  static constexpr std::size_t ordinary = 8 * region_size;
  /// What it gives is aligned to a cache line.
  static constexpr std::size_t alignment = 64;

  explicit page_source(bool huge_pages = true) noexcept : huge_pages_(huge_pages) {}
  page_source(const page_source&) = delete;
  page_source& operator=(const page_source&) = delete;
  TIMING_WHEEL_EXPORT ~page_source();

  /// Memory for as long as this lives; its content is anything. Strong guarantee on `std::bad_alloc`. Complexity:
  /// O(1); each 2 MiB the system clears a region of that size, at the latest when it is used.
  /// \pre `bytes` is at most `region_size`.
  [[nodiscard]] void* allocate(std::size_t bytes);

  /// Memory that it has, given away or not.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct block {
    void* begin;
    bool mapped;
  };

  [[nodiscard]] bool map_region() noexcept;

  std::vector<block> blocks_;
  std::size_t bytes_ = 0;
  char* next_ = nullptr;  // in the last region
  std::size_t left_ = 0;  // of it
  bool huge_pages_;
};

}  // namespace timing_wheel::detail
