#include <chrono>
#include <cstdio>
#include <timing_wheel/timing_wheel.hpp>

#include "plugin.hpp"

int main() {
  using namespace std::chrono_literals;

  bool verified = false;
  timing_wheel::manual_timer timer;
  timer.schedule_after(30min, [&] { verified = true; });
  timer.advance_by(31min);

  std::puts(verified ? "the callback ran" : "the callback did not run");
  return verified && plugin_runs_a_timer() ? 0 : 1;
}
