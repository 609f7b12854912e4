#include "timing_wheel/detail/engine/page_source.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

#include "engine/system_page.hpp"
#include "system/on_linux.hpp"
#include "system/windows.hpp"

#if defined(TIMING_WHEEL_HAS_MAPPINGS)
#include <sys/mman.h>
#endif

namespace timing_wheel::detail {

namespace {

#if defined(TIMING_WHEEL_HAS_MAPPINGS)

// Twice the size is asked for, because only the upper or the lower part is aligned; the rest is given back.
void* map_aligned(std::size_t size) noexcept {
  void* const mapped = mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  char* const begin = static_cast<char*>(mapped);
  const std::size_t before = (size - reinterpret_cast<std::uintptr_t>(begin) % size) % size;
  if (before != 0) {
    munmap(begin, before);
  }
  munmap(begin + before + size, size - before);
  // Refused where the system has none; then these are ordinary pages.
  madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

void unmap_region(void* begin, std::size_t size) noexcept { munmap(begin, size); }

// Without the first, the system would make a huge page again of what is left in the region.
void refuse_huge_page(void* begin, std::size_t size) noexcept { madvise(begin, size, MADV_NOHUGEPAGE); }
void ask_for_huge_page(void* begin, std::size_t size) noexcept { madvise(begin, size, MADV_HUGEPAGE); }
bool discard_pages(void* begin, std::size_t size) noexcept { return madvise(begin, size, MADV_DONTNEED) == 0; }

#elif defined(TIMING_WHEEL_HAS_WINDOWS)

// Huge pages need a right there that few programs have.
void* map_aligned(std::size_t size) noexcept { return windows::map(size, size); }
void unmap_region(void* begin, std::size_t size) noexcept { windows::unmap(begin, size); }
void refuse_huge_page(void* /*begin*/, std::size_t /*size*/) noexcept {}
void ask_for_huge_page(void* /*begin*/, std::size_t /*size*/) noexcept {}
bool discard_pages(void* begin, std::size_t size) noexcept { return windows::discard(begin, size); }

#else

void* map_aligned(std::size_t /*size*/) noexcept { return nullptr; }
void unmap_region(void* /*begin*/, std::size_t /*size*/) noexcept {}
void refuse_huge_page(void* /*begin*/, std::size_t /*size*/) noexcept {}
void ask_for_huge_page(void* /*begin*/, std::size_t /*size*/) noexcept {}
bool discard_pages(void* /*begin*/, std::size_t /*size*/) noexcept { return false; }

#endif

// Whole pages of the system only. \returns how much that was.
std::size_t discard(char* begin, std::size_t size) noexcept {
  const std::size_t page = system_page();
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
  const std::size_t whole = before < size ? (size - before) / page * page : 0;
  return whole != 0 && discard_pages(begin + before, whole) ? whole : 0;
}

}  // namespace

page_source::~page_source() {
  for (const block& one : blocks_) {
    if (one.mapped) {
      unmap_region(one.begin, region_size);
    } else {
      ::operator delete (one.begin, std::align_val_t{alignment});
    }
  }
}

void* page_source::allocate(std::size_t bytes) {
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void* const again = released_.empty() ? nullptr : take_released(bytes);
  return again != nullptr ? again : allocate_anew(bytes);
}

void* page_source::allocate_anew(std::size_t bytes) {
  if (bytes > left_) {
    if (blocks_.size() == blocks_.capacity()) {
      blocks_.reserve(2 * blocks_.capacity() + 8);
    }
    if (!huge_pages_ || bytes_ + bytes <= ordinary || !map_region()) {
      void* const made = ::operator new (bytes, std::align_val_t{alignment});
      blocks_.push_back({static_cast<char*>(made), 1, false});
      bytes_ += bytes;
      return made;
    }
  }
  char* const given = next_;
  next_ += bytes;
  left_ -= bytes;
  ++block_of(given)->given;
  return given;
}

bool page_source::map_region() noexcept {
  void* const made = map_aligned(region_size);
  if (made == nullptr) {
    return false;
  }
  blocks_.push_back({static_cast<char*>(made), 0, true});
  bytes_ += region_size;
  next_ = static_cast<char*>(made);
  left_ = region_size;
  return true;
}

// Null if there is none of that size.
void* page_source::take_released(std::size_t bytes) noexcept {
  const auto last =
      std::find_if(released_.rbegin(), released_.rend(), [&](const piece& p) { return p.bytes == bytes; });
  if (last == released_.rend()) {
    return nullptr;
  }
  const piece taken = *last;
  *last = released_.back();
  released_.pop_back();
  bytes_ += taken.discarded;
  block& region = *block_of(taken.begin);
  ++region.given;
  const bool whole = std::none_of(released_.begin(), released_.end(), [&](const piece& p) {
    return p.asked && p.begin >= region.begin && p.begin < region.begin + region_size;
  });
  if (taken.asked && whole) {
    ask_for_huge_page(region.begin, region_size);
  }
  return taken.begin;
}

// The last ones are asked for most.
std::vector<page_source::block>::iterator page_source::block_of(const char* begin) noexcept {
  const auto found = std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const block& b) {
    return b.mapped ? begin >= b.begin && begin < b.begin + region_size : begin == b.begin;
  });
  return found.base() - 1;
}

void page_source::release(void* begin, std::size_t bytes) noexcept {
  bytes = (bytes + alignment - 1) / alignment * alignment;
  const auto from = block_of(static_cast<char*>(begin));
  if (!from->mapped) {
    ::operator delete (begin, std::align_val_t{alignment});
    bytes_ -= bytes;
    *from = blocks_.back();
    blocks_.pop_back();
  } else if (--from->given == 0) {
    drop_region(from);
  } else {
    try {
      released_.push_back({static_cast<char*>(begin), bytes, 0, false});
    } catch (const std::bad_alloc&) {
      // It stays unused until its region goes.
    }
  }
}

void page_source::drop_region(std::vector<block>::iterator region) noexcept {
  char* const begin = region->begin;
  std::erase_if(released_, [&](const piece& p) {
    const bool gone = p.begin >= begin && p.begin < begin + region_size;
    bytes_ += gone ? p.discarded : 0;
    return gone;
  });
  bytes_ -= region_size;
  if (next_ >= begin && next_ < begin + region_size) {
    next_ = nullptr;
    left_ = 0;
  }
  *region = blocks_.back();
  blocks_.pop_back();
  unmap_region(begin, region_size);
}

bool page_source::discard_some() noexcept {
  const auto first = std::find_if(released_.begin(), released_.end(), [](const piece& p) { return !p.asked; });
  if (first == released_.end()) {
    return false;
  }
  char* const region = block_of(first->begin)->begin;
  refuse_huge_page(region, region_size);
  for (piece& p : released_) {
    if (!p.asked && p.begin >= region && p.begin < region + region_size) {
      p.asked = true;
      p.discarded = discard(p.begin, p.bytes);
      bytes_ -= p.discarded;
    }
  }
  return true;
}

}  // namespace timing_wheel::detail
