// A loop_timer in a libuv loop. A uv_timer wakes the loop for the next event, and a uv_async when another thread has
// scheduled something before it.

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <timing_wheel/timing_wheel.hpp>

#include "story.hpp"

using namespace std::chrono_literals;

void check(int result, const char* call) {
  if (result < 0) {
    throw std::runtime_error(std::string(call) + ": " + uv_strerror(result));
  }
}

class libuv_loop {
 public:
  libuv_loop() {
    check(uv_loop_init(&loop_), "uv_loop_init");
    check(uv_timer_init(&loop_, &alarm_), "uv_timer_init");
    check(uv_async_init(&loop_, &wake_up_, &look_again), "uv_async_init");
    alarm_.data = this;
    wake_up_.data = this;
  }

  /// No other thread may schedule any more.
  ~libuv_loop() {
    uv_close(reinterpret_cast<uv_handle_t*>(&alarm_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&wake_up_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);  // until both are closed
    uv_loop_close(&loop_);
  }
  libuv_loop(const libuv_loop&) = delete;
  libuv_loop& operator=(const libuv_loop&) = delete;

  [[nodiscard]] timing_wheel::timer& timer() noexcept { return timer_; }

  void run() {
    arm();
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  void stop() noexcept { uv_stop(&loop_); }

 private:
  template <class Handle>
  static libuv_loop& of(Handle* handle) noexcept {
    return *static_cast<libuv_loop*>(handle->data);
  }

  // libuv calls these, and is C: what they throw ends the program.

  static void look_again(uv_async_t* handle) noexcept { of(handle).arm(); }

  /// Runs what is due: at most 64 callbacks, so that the sockets have their turn.
  static void run_due(uv_timer_t* handle) noexcept {
    libuv_loop& mine = of(handle);
    mine.timer_.run_due(64);
    mine.arm();
  }

  /// In milliseconds, rounded up. libuv's own clock is rounded down, so that it may wake once in vain.
  void arm() {
    const std::optional<timing_wheel::time_point> next = timer_.next_event();
    if (!next) {
      check(uv_timer_stop(&alarm_), "uv_timer_stop");
      return;
    }
    uv_update_time(&loop_);
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>(std::max(*next - timer_.now(), 0ns));
    check(uv_timer_start(&alarm_, run_due, static_cast<std::uint64_t>(delay.count()), 0), "uv_timer_start");
  }

  uv_loop_t loop_{};
  uv_timer_t alarm_{};
  uv_async_t wake_up_{};
  timing_wheel::loop_timer timer_{{}, [this] { check(uv_async_send(&wake_up_), "uv_async_send"); }};
};

int main() {
  try {
    libuv_loop loop;
    tell_story(loop);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
