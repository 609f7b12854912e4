// While a connection is open, it says every five seconds that it is alive. Closing it ends that.

#include "story.hpp"

using namespace std::chrono_literals;

int main() {
  timing_wheel::manual_timer timer;

  int sent = 0;
  const auto beat = timer.schedule_every(5s, [&] { at(timer) << "heartbeat " << ++sent << '\n'; });

  timer.schedule_after(22s, [&] {
    at(timer) << "the connection is closed\n";
    beat.cancel();
  });

  timer.advance_by(1min);
  at(timer) << sent << " heartbeats, " << timer.pending() << " timers left\n";
}
