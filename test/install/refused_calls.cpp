// Not to be compiled. The compiler refuses each of these calls in one line.
#include <chrono>
#include <system_error>
#include <timing_wheel/coroutine.hpp>
#include <timing_wheel/timer.hpp>

int main() {
  using namespace std::chrono_literals;
  timing_wheel::timer timer;
  const auto f = [] {};
  std::error_code error;

  // A service knows the monotonic and the wall clock only.
  const auto deadline = std::chrono::file_clock::now() + std::chrono::hours(1);
  timer.schedule_at(deadline, f);                                     // one line
  timer.schedule_at(deadline, f, {.tag = 7});                         // one line
  timer.schedule_at(deadline, f, {.tag = 7}, error);                  // one line
  static_cast<void>(timer.sleep_until(deadline));                     // one line
  static_cast<void>(timer.sleep_until(deadline, {.tag = 7}));         // one line
  static_cast<void>(timer.sleep_until(deadline, {.tag = 7}, error));  // one line
  timing_wheel::timer_handle().reschedule(deadline);                  // one line
  timing_wheel::timer_handle().reschedule(deadline, error);           // one line

  // Only a periodic timer has a policy.
  timer.schedule_after(1s, f, {.policy = timing_wheel::fixed_delay});         // one line
  timer.schedule_after(1s, f, {.policy = timing_wheel::fixed_delay}, error);  // one line
  timer.schedule_after(1s, f, timing_wheel::periodic_options());              // one line

  // An error code comes after the options.
  timer.schedule_after(1s, f, error);             // one line
  timer.schedule_every(1s, f, error);             // one line
  static_cast<void>(timer.sleep_for(1s, error));  // one line
}
