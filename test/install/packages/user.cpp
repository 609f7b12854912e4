// A user of the library, with each engine: what every package is tried with.
#include <chrono>
#include <iostream>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;

namespace {

bool runs_with(timing_wheel::engine_kind engine) {
  timing_wheel::manual_timer timer({.engine = engine});
  bool ran = false;
  timer.schedule_after(30min, [&ran] { ran = true; });
  timer.advance_by(31min);
  return ran;
}

bool refuses() {
  try {
    const timing_wheel::timer timer{{.tick = 0ns}};
  } catch (const timing_wheel::timer_error& error) {
    return error.code() == timing_wheel::timer_errc::invalid_option;
  }
  return false;
}

}  // namespace

int main() {
  using enum timing_wheel::engine_kind;
  const bool good = runs_with(hierarchical) && runs_with(hashed) && runs_with(heap) && refuses();
  std::cout << (good ? "the timers ran\n" : "something is wrong\n");
  return good ? 0 : 1;
}
