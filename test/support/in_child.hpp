#pragma once

// Windows has no `fork`, and no test of one.
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>

namespace timing_wheel::test {

/// What a child process made by `fork` did.
struct child_end {
  bool exited = false;  ///< By itself, and not by a signal: an alarm ends one that hangs.
  int code = -1;
  friend bool operator==(const child_end&, const child_end&) = default;
};

inline child_end end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

/// Begins a child that ends with what `work()` returns, or after a minute. \returns its number.
template <class Work>
[[nodiscard]] pid_t begin_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work());
  }
  return child;
}

template <class Work>
[[nodiscard]] child_end in_child(Work work) {
  return end_of(begin_child(work));
}

}  // namespace timing_wheel::test
#endif
