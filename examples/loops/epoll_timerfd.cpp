// A loop_timer in an epoll loop. A timerfd wakes the loop for the next event, and an eventfd when another thread has
// scheduled something before it. Sockets would be watched by the same epoll_wait.

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <system_error>
#include <timing_wheel/timing_wheel.hpp>

#include "story.hpp"

using namespace std::chrono_literals;

template <class Result>
Result checked(Result result, const char* call) {
  if (result < 0) {
    throw std::system_error(errno, std::generic_category(), call);
  }
  return result;
}

/// A file descriptor that it closes.
class descriptor {
 public:
  descriptor(int fd, const char* call) : fd_(checked(fd, call)) {}
  ~descriptor() { close(fd_); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }

  void write_one() const {
    const std::uint64_t one = 1;
    checked(write(fd_, &one, sizeof one), "write");
  }
  /// A timerfd and an eventfd are readable until they are read. Nothing to read: the timer was armed anew meanwhile.
  void clear() const {
    std::uint64_t count = 0;
    if (read(fd_, &count, sizeof count) < 0 && errno != EAGAIN) {
      throw std::system_error(errno, std::generic_category(), "read");
    }
  }

 private:
  int fd_;
};

class epoll_loop {
 public:
  epoll_loop() {
    watch(alarm_);
    watch(wake_up_);
  }

  [[nodiscard]] timing_wheel::timer& timer() noexcept { return timer_; }

  void run() {
    while (!stopped_) {
      run_once();
    }
  }
  void stop() noexcept { stopped_ = true; }

 private:
  /// Waits once, and runs what is due. At most 64 callbacks, so that the sockets have their turn.
  void run_once() {
    arm(timer_.next_event());
    std::array<epoll_event, 8> events{};
    const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (ready < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "epoll_wait");
    }
    for (int i = 0; i < ready; ++i) {
      static_cast<const descriptor*>(events[static_cast<std::size_t>(i)].data.ptr)->clear();
    }
    timer_.run_due(64);
  }

  void watch(descriptor& one) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &one}};
    checked(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one.get(), &event), "epoll_ctl");
  }

  /// The steady clock is CLOCK_MONOTONIC on Linux. All zero would disarm: that is for "nothing is pending".
  void arm(std::optional<timing_wheel::time_point> next) {
    itimerspec when{};
    if (next) {
      const std::chrono::nanoseconds at = std::max(next->time_since_epoch(), 1ns);
      when.it_value.tv_sec = at / 1s;
      when.it_value.tv_nsec = (at % 1s).count();
    }
    checked(timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
  }

  bool stopped_ = false;
  descriptor epoll_{epoll_create1(EPOLL_CLOEXEC), "epoll_create1"};
  descriptor alarm_{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create"};
  descriptor wake_up_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"};
  timing_wheel::loop_timer timer_{{}, [this] { wake_up_.write_one(); }};
};

int main() {
  try {
    epoll_loop loop;
    tell_story(loop);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
