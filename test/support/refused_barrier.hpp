#pragma once

#include "system/process_barrier.hpp"

#if defined(TIMING_WHEEL_PROCESS_BARRIER)

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <array>
#include <cerrno>

namespace timing_wheel::test {

/// From now on the system refuses `membarrier` to the calling thread, and to those that it starts, with `error`, as a
/// container (`EPERM`) or an old kernel (`ENOSYS`) does. \returns whether it does.
inline bool refuse_the_barrier(unsigned error = EPERM) {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace timing_wheel::test

#endif
