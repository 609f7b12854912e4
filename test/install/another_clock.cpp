// Not to be compiled: a service knows the monotonic and the wall clock only. The compiler says so in one line for each
// of these, with options and without.
#include <chrono>
#include <system_error>
#include <timing_wheel/coroutine.hpp>
#include <timing_wheel/timer.hpp>

int main() {
  timing_wheel::timer timer;
  const auto deadline = std::chrono::file_clock::now() + std::chrono::hours(1);
  const auto f = [] {};
  std::error_code error;
  timer.schedule_at(deadline, f);                                        // one line
  timer.schedule_at(deadline, f, error);                                 // one line
  timer.schedule_at(deadline, f, {.tag = 7});                            // one line
  timer.schedule_at(deadline, f, {.tag = 7}, error);                     // one line
  static_cast<void>(timer.sleep_until(deadline));                        // one line
  static_cast<void>(timer.sleep_until(deadline, {.tag = 7}));            // one line
  static_cast<void>(timer.sleep_until(deadline, {.tag = 7}, error));     // one line
  static_cast<void>(timing_wheel::timer_handle().reschedule(deadline));  // one line
}
