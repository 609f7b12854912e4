#include <algorithm>
#include <cstring>
#include <new>

#include "engine/system_page.hpp"
#include "system/on_linux.hpp"
#include "system/windows.hpp"
#include "timing_wheel/detail/engine/flat_array.hpp"

#if defined(TIMING_WHEEL_HAS_MAPPINGS)
#include <sys/mman.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIMING_WHEEL_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIMING_WHEEL_SANITIZED
#endif
#endif

namespace timing_wheel::detail {

namespace {

constexpr std::size_t smallest = 1024;
constexpr std::size_t largest_unmapped = std::size_t{64} << 10U;
constexpr std::size_t smallest_sparse = std::size_t{16} << 10U;
constexpr std::size_t mapped_growth = 8;  // an eighth, since that costs no copy

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t to) noexcept { return (bytes + to - 1) / to * to; }

#if defined(TIMING_WHEEL_HAS_MAPPINGS)

void* map(std::size_t size) noexcept {
  void* const made = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return made == MAP_FAILED ? nullptr : made;
}

void* remap(void* old, std::size_t old_size, std::size_t size) noexcept {
#ifdef TIMING_WHEEL_SANITIZED
  // What the sanitizers know of memory does not move with it.
  void* const made = map(size);
  if (made != nullptr) {
    std::memcpy(made, old, old_size);
    munmap(old, old_size);
  }
  return made;
#else
  void* const made = mremap(old, old_size, size, MREMAP_MAYMOVE);
  return made == MAP_FAILED ? nullptr : made;
#endif
}

// \returns whether it could: a part in the middle may be one mapping too many for the system.
bool unmap(void* begin, std::size_t size) noexcept { return munmap(begin, size) == 0; }
void ask_for_huge_pages(void* begin, std::size_t size) noexcept { madvise(begin, size, MADV_HUGEPAGE); }

#elif defined(TIMING_WHEEL_HAS_WINDOWS)

// Addresses cost nothing until there is memory for them.
void* map(std::size_t size) noexcept { return windows::map(size, 8 * size); }

void* remap(void* old, std::size_t old_size, std::size_t size) noexcept {
  if (windows::extend(old, old_size, size)) {
    return old;
  }
  void* const made = map(size);
  if (made != nullptr) {
    std::memcpy(made, old, old_size);
    windows::unmap(old, old_size);
  }
  return made;
}

bool unmap(void* begin, std::size_t size) noexcept { return windows::unmap(begin, size); }
void ask_for_huge_pages(void* /*begin*/, std::size_t /*size*/) noexcept {}

#else

void* map(std::size_t /*size*/) noexcept { return nullptr; }
void* remap(void* /*old*/, std::size_t /*old_size*/, std::size_t /*size*/) noexcept { return nullptr; }
bool unmap(void* /*begin*/, std::size_t /*size*/) noexcept { return false; }
void ask_for_huge_pages(void* /*begin*/, std::size_t /*size*/) noexcept {}

#endif

}  // namespace

growing_memory::~growing_memory() {
  if (mapped_) {
    unmap(data_, size_);
  } else {
    ::operator delete(data_);
  }
}

void growing_memory::grow(std::size_t bytes) {
  void* made = nullptr;
  std::size_t size = 0;
  if (huge_pages_ && bytes > largest_unmapped) {
    size = rounded_up(std::max(bytes, size_ + size_ / mapped_growth), system_page());
    made = mapped_ ? remap(data_, size_, size) : map(size);
  }
  const bool mapped = made != nullptr;
  if (!mapped) {
    size = rounded_up(std::max({bytes, size_ + size_ / 2, smallest}), smallest);
    made = ::operator new(size);
    std::memset(static_cast<char*>(made) + size_, 0, size - size_);
  }
  if (!mapped || !mapped_) {  // else its content has moved with it
    if (size_ != 0) {
      std::memcpy(made, data_, size_);
    }
    if (mapped_) {
      unmap(data_, size_);
    } else {
      ::operator delete(data_);
    }
  }
  data_ = made;
  size_ = size;
  mapped_ = mapped;
  if (mapped) {
    ask_for_huge_pages(data_, size_);
  }
}

void growing_memory::shrink(std::size_t bytes) noexcept {
  if (mapped_) {
    const std::size_t kept = rounded_up(bytes, system_page());
    if (kept < size_ && unmap(static_cast<char*>(data_) + kept, size_ - kept)) {
      size_ = kept;
      if (kept == 0) {
        data_ = nullptr;
        mapped_ = false;
      }
    }
    return;
  }
  const std::size_t kept = rounded_up(bytes, smallest);
  if (kept > largest_unmapped || kept > size_ / 2) {
    return;
  }
  void* const made = kept == 0 ? nullptr : ::operator new(kept, std::nothrow);
  if (kept != 0 && made == nullptr) {
    return;
  }
  if (kept != 0) {
    std::memcpy(made, data_, kept);
  }
  ::operator delete(data_);
  data_ = made;
  size_ = kept;
}

sparse_memory::sparse_memory(std::size_t bytes, bool may_map) : size_(bytes) {
  if (may_map && bytes >= smallest_sparse) {
    data_ = map(bytes);
    mapped_ = data_ != nullptr;
  }
  if (!mapped_) {
    data_ = std::memset(::operator new(bytes), 0, bytes);
  }
}

sparse_memory::~sparse_memory() {
  if (mapped_) {
    unmap(data_, size_);
  } else {
    ::operator delete(data_);
  }
}

}  // namespace timing_wheel::detail
