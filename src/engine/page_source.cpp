#include "timing_wheel/detail/page_source.hpp"

#include <cstdint>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace timing_wheel::detail {

namespace {

#ifdef __linux__

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

#else

void* map_aligned(std::size_t /*size*/) noexcept { return nullptr; }
void unmap_region(void* /*begin*/, std::size_t /*size*/) noexcept {}

#endif

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
  if (bytes > left_) {
    if (blocks_.size() == blocks_.capacity()) {
      blocks_.reserve(2 * blocks_.capacity() + 8);
    }
    if (!huge_pages_ || bytes_ + bytes <= ordinary || !map_region()) {
      void* const made = ::operator new (bytes, std::align_val_t{alignment});
      blocks_.push_back({made, false});
      bytes_ += bytes;
      return made;
    }
  }
  char* const given = next_;
  next_ += bytes;
  left_ -= bytes;
  return given;
}

bool page_source::map_region() noexcept {
  void* const made = map_aligned(region_size);
  if (made == nullptr) {
    return false;
  }
  blocks_.push_back({made, true});
  bytes_ += region_size;
  next_ = static_cast<char*>(made);
  left_ = region_size;
  return true;
}

}  // namespace timing_wheel::detail
