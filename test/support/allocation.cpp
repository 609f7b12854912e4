#include "support/allocation.hpp"

#include <malloc.h>

#include <cstdlib>

namespace timing_wheel::test {

constinit thread_local allocation_log allocations;

namespace {

void* allocate(std::size_t size, std::size_t alignment) noexcept {
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

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size == 0 ? 1 : size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void deallocate(void* memory) noexcept {
  allocations.live_bytes -= malloc_usable_size(memory);
  std::free(memory);
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
