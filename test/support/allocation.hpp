#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

/// \file
/// allocation.cpp replaces the global `operator new` of the test that includes this: it counts, and it fails when told
/// to. Those of clang's sanitizers are weak, and the first that the linker sees; so a replacement must not be weak.

namespace timing_wheel::test {

struct allocation_log {
  std::uint64_t count = 0;
  std::size_t live_bytes = 0;
  std::uint64_t left = UINT64_MAX;  ///< Allocations that still succeed.
  std::uint64_t failures = 0;       ///< Allocations that fail, from now on.
};

/// What this thread has allocated.
extern constinit thread_local allocation_log allocations;

/// If a program sets it, while it has one thread: asked at each allocation of any thread, which fails if it is refused.
extern bool (*is_refused)() noexcept;

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

}  // namespace timing_wheel::test
