#include <atomic>
#include <chrono>
#include <functional>

#include "boundary.hpp"

using namespace std::chrono_literals;

timing_wheel::timer_handle boundary::schedule(timing_wheel::timer& timer, int& runs) {
  return timer.schedule_every(1s, [&runs] { ++runs; }, {.policy = timing_wheel::fixed_rate_skip, .tag = 5});
}

bool boundary::runs_a_timer_of_its_own() {
  std::atomic<bool> ran = false;
  timing_wheel::timer timer;
  timer.schedule_after(1ms, [&] { ran = true; });
  timer.stop_drain(timer.now() + 10s);
  return ran;
}

void boundary::refuse(timing_wheel::timer& timer) { timer.schedule_after(1s, std::function<void()>()); }

const std::error_category& boundary::category() { return timing_wheel::timer_category(); }

const void* boundary::asio_category() {
  return &timing_wheel::asio::to_error_code(timing_wheel::timer_errc::stopped).category();
}

const void* boundary::asio_service() { return &timing_wheel::asio::wheel_service::id; }
