// One class that takes a timer: tested in virtual time, in production on a thread of the timer's, and in a loop.
#include "reservation.hpp"

#include <chrono>
#include <cstdio>
#include <thread>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;

namespace {

bool holds_for_half_an_hour() {
  timing_wheel::manual_timer timer;
  const reservation held(timer);
  timer.advance_by(30min - 1ns);
  const bool too_soon = held.given_back();
  timer.advance_by(1s);
  return !too_soon && held.given_back();
}

bool is_kept_when_paid() {
  timing_wheel::manual_timer timer;
  reservation held(timer);
  timer.advance_by(29min);
  const bool paid = held.pay();
  timer.advance_by(24h);
  return paid && !held.given_back() && !held.pay();
}

bool works_on_a_thread() {
  timing_wheel::timer timer;
  const reservation held(timer, 1ms);
  timer.stop_drain(timer.now() + 10s);
  return held.given_back();
}

bool works_in_a_loop() {
  timing_wheel::loop_timer timer;
  const reservation held(timer, 1ms);
  while (const auto next = timer.next_event()) {
    std::this_thread::sleep_until(*next);
    timer.run_due();
  }
  return held.given_back();
}

}  // namespace

int main() {
  int failures = 0;
  const auto expect = [&](bool holds, const char* what) {
    std::printf("%s: %s\n", holds ? "ok" : "FAILED", what);
    failures += holds ? 0 : 1;
  };
  expect(holds_for_half_an_hour(), "a reservation holds for half an hour of virtual time");
  expect(is_kept_when_paid(), "a reservation that is paid is kept");
  expect(works_on_a_thread(), "it works on a thread of the timer's");
  expect(works_in_a_loop(), "it works in a loop");
  return failures == 0 ? 0 : 1;
}
