#include "peers/virtual_time.hpp"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "workload.hpp"

namespace timing_wheel::bench::virtual_time {

namespace {

// For a loop, zero can mean that it has not read the clock yet.
tick time_now = 1000 * second;

// There is one thread, but the libraries may start others.
thread_local bool driven = false;

}  // namespace

tick now() { return time_now; }

void pass(tick by) { time_now += by; }

driving::driving() : outer_(std::exchange(driven, true)) {}

driving::~driving() { driven = outer_; }

namespace {

timespec as_timespec(tick time) {
  return {.tv_sec = static_cast<time_t>(time / second), .tv_nsec = static_cast<long>(time % second) * 1'000'000};
}

template <class Function>
Function* system_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

}  // namespace timing_wheel::bench::virtual_time

namespace virtual_time = timing_wheel::bench::virtual_time;

// A definition in the program goes before those of the shared libraries, also for calls between these.
extern "C" {

int clock_gettime(clockid_t clock_id, timespec* tp) noexcept {
  static const auto of_system = virtual_time::system_function<decltype(clock_gettime)>("clock_gettime");
  if (!virtual_time::driven) {
    return of_system(clock_id, tp);
  }
  *tp = virtual_time::as_timespec(virtual_time::now());
  return 0;
}

int epoll_wait(int epfd, epoll_event* events, int maxevents, int timeout) {
  static const auto of_system = virtual_time::system_function<decltype(epoll_wait)>("epoll_wait");
  return virtual_time::driven ? 0 : of_system(epfd, events, maxevents, timeout);
}

int epoll_pwait(int epfd, epoll_event* events, int maxevents, int timeout, const sigset_t* ss) {
  static const auto of_system = virtual_time::system_function<decltype(epoll_pwait)>("epoll_pwait");
  return virtual_time::driven ? 0 : of_system(epfd, events, maxevents, timeout, ss);
}

// Asio would leave the timers to such a file, which knows only real time. Without one it looks at its clock.
int timerfd_create(int clock_id, int flags) noexcept {
  static const auto of_system = virtual_time::system_function<decltype(timerfd_create)>("timerfd_create");
  if (!virtual_time::driven) {
    return of_system(clock_id, flags);
  }
  errno = EINVAL;
  return -1;
}

}  // extern "C"
