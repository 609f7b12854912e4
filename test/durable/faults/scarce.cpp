#include "durable/faults/scarce.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace timing_wheel::durable::test {
namespace {

constinit std::atomic<bool> counting{false};
constinit std::atomic<std::uint64_t> count{0};
constinit std::uint64_t first_to_fail = 0;
constinit std::uint64_t first_not_to = 0;
constinit thread_local unsigned without_limit = 0;

bool is_refused() noexcept {
  if (without_limit != 0 || !counting.load(std::memory_order_acquire)) {
    return false;
  }
  const std::uint64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  return number >= first_to_fail && number < first_not_to;
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (is_refused()) {
    return nullptr;
  }
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size + (size == 0 ? 1 : 0))
                                                : std::aligned_alloc(alignment, whole);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const memory = allocate(size, alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void make_scarce(std::uint64_t first, std::uint64_t many) noexcept {
  count = 0;
  first_to_fail = first;
  first_not_to = first + many;
  counting.store(true, std::memory_order_release);
}

std::uint64_t make_plentiful() noexcept {
  counting.store(false, std::memory_order_release);
  return count;
}

unlimited::unlimited() noexcept { ++without_limit; }
unlimited::~unlimited() { --without_limit; }

}  // namespace timing_wheel::durable::test

using timing_wheel::durable::test::allocate;
using timing_wheel::durable::test::allocate_or_throw;

void* operator new(std::size_t size) { return allocate_or_throw(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t& /*how*/) noexcept {
  return allocate(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size, const std::nothrow_t& /*how*/) noexcept {
  return allocate(size, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
