#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef TIMING_WHEEL_FUZZ_TARGET
#define TIMING_WHEEL_REPLACEMENT
#else
#define TIMING_WHEEL_REPLACEMENT [[gnu::weak]]
#endif

/// \file
/// Replaces the global `operator new` of the test that includes it: it counts, and it fails when told to. The
/// replacements are weak, so that several files of one binary may include this; but not in a fuzz target, which links a
/// sanitizer with weak replacements first, and is one file.

namespace timing_wheel::test {

struct allocation_log {
  std::uint64_t count = 0;
  std::size_t live_bytes = 0;
  std::uint64_t left = UINT64_MAX;  ///< Allocations that still succeed.
  std::uint64_t failures = 0;       ///< Allocations that fail, from now on.
};

/// What this thread has allocated.
inline constinit thread_local allocation_log allocations;

/// While it lives, this thread can allocate `left` times more; after that, `std::bad_alloc`.
class scarce_memory {
 public:
  explicit scarce_memory(std::uint64_t left) noexcept { allocations.left = left; }
  scarce_memory(const scarce_memory&) = delete;
  scarce_memory& operator=(const scarce_memory&) = delete;
  ~scarce_memory() { allocations.left = UINT64_MAX; }
};

/// \returns how often `work` allocates.
template <class Work>
std::uint64_t count_allocations(Work&& work) {
  const std::uint64_t before = allocations.count;
  work();
  return allocations.count - before;
}

/// Calls `work` with memory for `left` allocations. \returns whether it ended without `std::bad_alloc`.
template <class Work>
bool succeeds_with(std::uint64_t left, Work&& work) {
  const scarce_memory limit(left);
  try {
    work();
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

inline void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (allocations.failures > 0) {
    --allocations.failures;
    return nullptr;
  }
  if (allocations.left == 0) {
    return nullptr;
  }
  allocations.left -= allocations.left == UINT64_MAX ? 0 : 1;
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(size) : std::aligned_alloc(alignment, whole);
  ++allocations.count;
  allocations.live_bytes += malloc_usable_size(memory);
  return memory;
}

inline void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size == 0 ? 1 : size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

inline void deallocate(void* memory) noexcept {
  allocations.live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace timing_wheel::test

TIMING_WHEEL_REPLACEMENT void* operator new(std::size_t size) {
  return timing_wheel::test::allocate_or_throw(size, alignof(std::max_align_t));
}
TIMING_WHEEL_REPLACEMENT void* operator new[](std::size_t size) {
  return timing_wheel::test::allocate_or_throw(size, alignof(std::max_align_t));
}
TIMING_WHEEL_REPLACEMENT void* operator new(std::size_t size, std::align_val_t alignment) {
  return timing_wheel::test::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
TIMING_WHEEL_REPLACEMENT void* operator new[](std::size_t size, std::align_val_t alignment) {
  return timing_wheel::test::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
TIMING_WHEEL_REPLACEMENT void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, alignof(std::max_align_t));
}
TIMING_WHEEL_REPLACEMENT void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, alignof(std::max_align_t));
}
TIMING_WHEEL_REPLACEMENT void* operator new(std::size_t size, std::align_val_t alignment,
                                            const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, static_cast<std::size_t>(alignment));
}
TIMING_WHEEL_REPLACEMENT void* operator new[](std::size_t size, std::align_val_t alignment,
                                              const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, static_cast<std::size_t>(alignment));
}
TIMING_WHEEL_REPLACEMENT void operator delete(void* memory) noexcept { timing_wheel::test::deallocate(memory); }
TIMING_WHEEL_REPLACEMENT void operator delete[](void* memory) noexcept { timing_wheel::test::deallocate(memory); }
TIMING_WHEEL_REPLACEMENT void operator delete(void* memory, std::size_t) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete[](void* memory, std::size_t) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete(void* memory, std::align_val_t) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete[](void* memory, std::align_val_t) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete(void* memory, const std::nothrow_t&) noexcept {
  timing_wheel::test::deallocate(memory);
}
TIMING_WHEEL_REPLACEMENT void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  timing_wheel::test::deallocate(memory);
}

#undef TIMING_WHEEL_REPLACEMENT
