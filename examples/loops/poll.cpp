// A loop_timer on one thread, with nothing but the time-out of poll(). Nobody else schedules, and the loop asks each
// time before it sleeps; so it needs no on_earlier.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <iostream>
#include <limits>
#include <optional>
#include <system_error>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;

/// Milliseconds for poll(), rounded up: rounded down, the last one would be spent asking again and again.
int time_out(const timing_wheel::timer& timer, std::optional<timing_wheel::time_point> next) {
  if (!next) {
    return -1;  // for ever
  }
  const auto delay = std::chrono::ceil<std::chrono::milliseconds>(std::max(*next - timer.now(), 0ns));
  return static_cast<int>(std::min<std::chrono::milliseconds::rep>(delay.count(), std::numeric_limits<int>::max()));
}

/// Waits once, and runs what is due. Sockets would be the first argument of poll().
void run_once(timing_wheel::loop_timer& timer) {
  if (poll(nullptr, 0, time_out(timer, timer.next_event())) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }
  timer.run_due();
}

int run_with_poll() {
  timing_wheel::loop_timer timer;

  int beats = 0;
  bool silent = false;
  const auto idle = timer.schedule_after(1s, [&] { silent = true; });
  const auto reply = timer.schedule_after(1h, [] { std::cout << "no reply\n"; });
  timer.schedule_every(5ms, [&](const timing_wheel::timer_handle& heartbeat) {
    idle.reschedule_after(1s);
    if (++beats == 3) {
      reply.cancel();
    }
    if (beats == 10) {
      heartbeat.cancel();
    }
  });

  while (!silent) {
    run_once(timer);
  }
  std::cout << beats << " heartbeats, then silence\n"
            << timer.pending() << " timers are left, " << timer.stats().early << " were early\n";
  return 0;
}

int main() {
  try {
    return run_with_poll();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
