// A loop_timer in an io_uring loop. The wait for completions ends at the next event, and by the read of an eventfd when
// another thread has scheduled something before it. Sockets would be further requests of the same ring.

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <system_error>
#include <timing_wheel/timing_wheel.hpp>

#include "story.hpp"

using namespace std::chrono_literals;

int checked(int result, const char* call) {
  if (result < 0) {
    throw std::system_error(-result, std::generic_category(), call);
  }
  return result;
}

class io_uring_loop {
 public:
  io_uring_loop() {
    checked(io_uring_queue_init(8, &ring_, 0), "io_uring_queue_init");
    read_wake_up();
  }
  ~io_uring_loop() {
    io_uring_queue_exit(&ring_);
    close(wake_up_);
  }
  io_uring_loop(const io_uring_loop&) = delete;
  io_uring_loop& operator=(const io_uring_loop&) = delete;

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
    const auto next = timer_.next_event();
    const auto delay = next ? std::max(*next - timer_.now(), 0ns) : 24h;  // nothing is pending: any long time will do
    __kernel_timespec time_out{.tv_sec = delay / 1s, .tv_nsec = (delay % 1s).count()};
    io_uring_cqe* done = nullptr;
    const int result = io_uring_submit_and_wait_timeout(&ring_, &done, 1, &time_out, nullptr);
    if (result != -ETIME && result != -EINTR) {
      checked(result, "io_uring_submit_and_wait_timeout");
    }
    if (done != nullptr) {
      io_uring_cqe_seen(&ring_, done);
      read_wake_up();
    }
    timer_.run_due(64);
  }

  /// Its end is a completion. It is begun by the next wait.
  void read_wake_up() { io_uring_prep_read(io_uring_get_sqe(&ring_), wake_up_, &count_, sizeof count_, 0); }

  bool stopped_ = false;
  io_uring ring_{};
  std::uint64_t count_ = 0;
  int wake_up_ = eventfd(0, EFD_CLOEXEC);
  timing_wheel::loop_timer timer_{{}, [this] { eventfd_write(wake_up_, 1); }};
};

int main() {
  try {
    io_uring_loop loop;
    tell_story(loop);
  } catch (const std::system_error& e) {
    std::cerr << e.what() << '\n';
    const bool forbidden = e.code() == std::errc::operation_not_permitted;
    return forbidden || e.code() == std::errc::function_not_supported ? 77 : 1;  // 77: the test counts as skipped
  }
}
