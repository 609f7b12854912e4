#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"

namespace timing_wheel::detail {

/// Memory for arrays that grow a page at a time. They may give pages back, for others of the same size, or for the
/// system.
///
/// The first `ordinary` bytes come from `operator new`, a page at a time: so it never has more than an eighth that is
/// not used. What follows is carved out of regions that are mapped and advised for huge pages, since timers are
/// cancelled in any order, and each reach into far memory costs a walk through page tables as well. Where the system
/// has no such mapping, `operator new` goes on.
///
/// Example: of 1000 pages of 64 KiB the first 256 are of `operator new`, and 744 lie in 24 regions. When all but one
/// are released, 23 regions have gone, and the first 256; `discard_some` then takes the memory of the others out of the
/// last region, 64 KiB of which stay.
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

  /// Memory for as long as this lives, or until it is released; its content is anything. Strong guarantee on
  /// `std::bad_alloc`. Complexity: O(1), and if any was released O(regions); each 2 MiB the system clears a region of
  /// that size, at the latest when it is used.
  /// \pre `bytes` is at most `region_size`.
  [[nodiscard]] void* allocate(std::size_t bytes);

  /// Takes back what `allocate(bytes)` gave. A region all of which is back goes to the system at once. Complexity:
  /// O(regions).
  void release(void* begin, std::size_t bytes) noexcept;

  /// Gives the system what was released of one more region, which has no huge page from then on until all of it is in
  /// use again. \returns whether there may be more to do. Complexity: O(regions + pages released).
  bool discard_some() noexcept;

  /// Whether it maps memory, where the system can.
  [[nodiscard]] bool may_map() const noexcept { return huge_pages_; }

  /// Memory that it has, given away or not, but for what it has discarded.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct block {
    char* begin;
    std::uint32_t given;  // how many pieces of it are given away
    bool mapped;
  };
  struct piece {
    char* begin;
    std::size_t bytes;
    std::size_t discarded;  // of them
    bool asked;             // whether it was tried
  };

  [[nodiscard]] bool map_region() noexcept;
  [[nodiscard]] void* allocate_anew(std::size_t bytes);
  [[nodiscard]] void* take_released(std::size_t bytes) noexcept;
  [[nodiscard]] std::vector<block>::iterator block_of(const char* begin) noexcept;
  void drop_region(std::vector<block>::iterator region) noexcept;

  std::vector<block> blocks_;
  std::vector<piece> released_;  // parts of regions
  std::size_t bytes_ = 0;
  char* next_ = nullptr;  // in the last region
  std::size_t left_ = 0;  // of it
  bool huge_pages_;
};

}  // namespace timing_wheel::detail
