#include "support/allocation.hpp"

#include <malloc.h>

#include <cstdlib>
#include <memory>

namespace timing_wheel::test {

constinit thread_local allocation_log allocations;
bool (*is_refused)() noexcept = nullptr;

namespace {

#if defined(_WIN32)  // which has no size of what is aligned: it stands before it, with the beginning of it all
struct header {
  void* begin;
  std::size_t size;
};
void* allocate_aligned(std::size_t size, std::size_t alignment) {
  void* const begin = std::malloc(size + alignment + sizeof(header));
  if (begin == nullptr) {
    return nullptr;
  }
  void* memory = static_cast<char*>(begin) + sizeof(header);
  std::size_t space = size + alignment;
  std::align(alignment, size, memory, space);
  static_cast<header*>(memory)[-1] = {begin, size};
  return memory;
}
std::size_t size_of(void* memory) { return memory == nullptr ? 0 : static_cast<header*>(memory)[-1].size; }
void free_aligned(void* memory) { memory == nullptr ? void() : std::free(static_cast<header*>(memory)[-1].begin); }
#else
void* allocate_aligned(std::size_t size, std::size_t alignment) {
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size) : std::aligned_alloc(alignment, whole);
}
std::size_t size_of(void* memory) { return malloc_usable_size(memory); }
void free_aligned(void* memory) { std::free(memory); }
#endif

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (is_refused != nullptr && is_refused()) {
    return nullptr;
  }
  if (allocations.failures > 0) {
    --allocations.failures;
    return nullptr;
  }
  if (allocations.left == 0) {
    return nullptr;
  }
  allocations.left -= allocations.left == UINT64_MAX ? 0 : 1;
  void* memory = allocate_aligned(size, alignment);
  ++allocations.count;
  allocations.live_bytes += size_of(memory);
  return memory;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size == 0 ? 1 : size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void deallocate(void* memory) noexcept {
  allocations.live_bytes -= size_of(memory);
  free_aligned(memory);
}

}  // namespace
}  // namespace timing_wheel::test

void* operator new(std::size_t size) { return timing_wheel::test::allocate_or_throw(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) {
  return timing_wheel::test::allocate_or_throw(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return timing_wheel::test::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return timing_wheel::test::allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return timing_wheel::test::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete[](void* memory) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete(void* memory, std::size_t) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete[](void* memory, std::size_t) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { timing_wheel::test::deallocate(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { timing_wheel::test::deallocate(memory); }
