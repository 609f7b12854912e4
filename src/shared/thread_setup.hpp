#pragma once

#include <csignal>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>

#include "system/on_linux.hpp"
#include "system/windows.hpp"

#if defined(TIMING_WHEEL_HAS_SIGNAL_MASKS) || defined(TIMING_WHEEL_HAS_THREAD_NAMES)
#include <pthread.h>
#endif

namespace timing_wheel::detail {

/// While it lives, this thread blocks all signals, but those that a fault of its own instructions raises; and so does,
/// for good, each thread that it starts. A blocked fault would end the program without the handler that a crash
/// reporter has installed.
class signals_blocked {
 public:
#if defined(TIMING_WHEEL_HAS_SIGNAL_MASKS)
  signals_blocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
#else
  signals_blocked() noexcept {}
  ~signals_blocked() {}
#endif
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
#if defined(TIMING_WHEEL_HAS_SIGNAL_MASKS)
  sigset_t before_{};
#endif
};

/// Gives the calling thread a name, for debuggers and `top`. At most 15 characters.
inline void name_this_thread([[maybe_unused]] const char* name) noexcept {
#if defined(TIMING_WHEEL_HAS_THREAD_NAMES)
  static_cast<void>(pthread_setname_np(pthread_self(), name));
#elif defined(TIMING_WHEEL_HAS_WINDOWS)
  windows::name_this_thread(name);
#endif
}

/// Starts a thread with that name, whose signals `signals_blocked` blocks.
/// \throws std::system_error if a thread cannot be had, std::bad_alloc.
template <class Work>
[[nodiscard]] std::thread start_named_thread(std::string name, Work work) {
  const signals_blocked while_starting;
  return std::thread([name = std::move(name), work = std::move(work)]() mutable {
    name_this_thread(name.c_str());
    work();
  });
}

}  // namespace timing_wheel::detail
