#include "plugin.hpp"

#include <atomic>
#include <chrono>
#include <timing_wheel/timing_wheel.hpp>

bool plugin_runs_a_timer() {
  std::atomic<bool> ran{false};
  timing_wheel::timer timer;
  timer.schedule_after(std::chrono::milliseconds(1), [&] {
    ran = true;
    ran.notify_one();
  });
  ran.wait(false);
  return ran;
}
