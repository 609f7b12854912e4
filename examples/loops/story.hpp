#pragma once

#include <chrono>
#include <iostream>
#include <thread>
#include <timing_wheel/timing_wheel.hpp>

/// What the loops show: a heartbeat, and the silence after it, on the loop's thread; and two other threads that
/// schedule and cancel all the while. `Loop` has `timer()`, `run()` and `stop()`, which is called on its own thread.
template <class Loop>
void tell_story(Loop& loop) {
  using namespace std::chrono_literals;
  timing_wheel::timer& timer = loop.timer();

  // Callbacks run on the loop's thread, and need no lock there.
  int beats = 0;
  int fired = 0;
  bool silent = false;
  const auto stop_at_the_end = [&] {
    if (silent && fired == 1000) {
      loop.stop();
    }
  };
  const auto idle = timer.schedule_after(1s, [&] {
    silent = true;
    stop_at_the_end();
  });
  timer.schedule_every(5ms, [&](const timing_wheel::timer_handle& heartbeat) {
    idle.reschedule_after(1s);
    if (++beats == 10) {
      heartbeat.cancel();
    }
  });

  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      timer.schedule_after(i % 50 * 1ms, [&] {
        ++fired;
        stop_at_the_end();
      });
      timer.schedule_after(1h, [] {}).cancel();
    }
  };
  std::jthread one(work);
  std::jthread another(work);

  loop.run();
  one.join();
  another.join();
  std::cout << beats << " heartbeats, then silence\n"
            << fired << " timers of other threads fired\n"
            << timer.pending() << " are left, " << timer.stats().early << " were early\n";
}
