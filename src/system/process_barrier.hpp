#pragma once

#include "system/on_linux.hpp"
#include "system/windows.hpp"

#if defined(TIMING_WHEEL_HAS_MEMBARRIER)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#if defined(SYS_membarrier)
#define TIMING_WHEEL_PROCESS_BARRIER
#endif
#endif

/// \file
/// A barrier that one thread makes all threads of the process pass. So a path that is gone often needs no barrier of
/// its own, where one that is gone seldom needs the two to be ordered: the seldom one pays for both.

namespace timing_wheel::detail {

#if defined(TIMING_WHEEL_PROCESS_BARRIER)

/// Says that this process is going to use `pass_process_barrier`. The first time, and only if there are other threads,
/// this takes the kernel some 10 ms; after that less than a microsecond.
inline void prepare_process_barrier() noexcept {
  const int before = errno;
  static_cast<void>(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
  errno = before;
}

/// When it returns true, each thread of this process has passed a full barrier after the call began and before it
/// returned; so has the caller, at both ends. Takes a microsecond or a few. Leaves `errno` alone.
/// \returns false where the system refuses it (an old kernel, a filter of system calls): then nothing is ordered.
[[nodiscard]] inline bool pass_process_barrier() noexcept {
  const int before = errno;
  const auto pass = [] { return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; };
  bool passed = pass();
  if (!passed && errno == EPERM) {  // not prepared in this process
    prepare_process_barrier();
    passed = pass();
  }
  errno = before;
  return passed;
}

#elif defined(TIMING_WHEEL_HAS_WINDOWS)

inline void prepare_process_barrier() noexcept {}
[[nodiscard]] inline bool pass_process_barrier() noexcept { return windows::pass_process_barrier(); }

#else

inline void prepare_process_barrier() noexcept {}
[[nodiscard]] inline bool pass_process_barrier() noexcept { return false; }

#endif

}  // namespace timing_wheel::detail
