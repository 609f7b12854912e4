// One class that takes a timer: tested in virtual time, in production on a thread of the timer's, and in a loop.
#include "reservation.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <thread>
#include <timing_wheel/timing_wheel.hpp>
#include <unordered_set>

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

bool handles_are_keys_of_a_set() {
  timing_wheel::manual_timer timer;
  std::unordered_set<timing_wheel::timer_handle> open;
  for (int i = 0; i < 100; ++i) {
    open.insert(timer.schedule_after(1s, [&](const timing_wheel::timer_handle& mine) { open.erase(mine); }));
  }
  const bool all_differ = open.size() == 100;
  timer.advance_by(2s);
  return all_differ && open.empty();
}

bool numbers_cancel() {
  timing_wheel::manual_timer timer;
  timing_wheel::manual_timer another;
  std::map<int, std::uint64_t> timeout_of;  // by socket
  for (int socket = 3; socket < 6; ++socket) {
    timeout_of[socket] = timer.schedule_after(1s, [&timeout_of, socket] { timeout_of.erase(socket); }).key();
  }
  using timing_wheel::cancel_result;
  const bool cancelled = another.cancel(timeout_of[4]) == cancel_result::finished &&
                         timer.cancel(timeout_of[4]) == cancel_result::cancelled &&
                         timer.cancel(timeout_of[4]) == cancel_result::finished;
  timer.advance_by(2s);
  return cancelled && timeout_of.size() == 1 && timeout_of.count(4) == 1;
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
  expect(handles_are_keys_of_a_set(), "handles are the keys of a set");
  expect(numbers_cancel(), "a key cancels its timer, and no other service's");
  return failures == 0 ? 0 : 1;
}
