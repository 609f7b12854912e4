#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <timing_wheel/manual_timer.hpp>
#include <vector>

// Uses timers in virtual time, and prints what each trace point should have shown, one line for each time that it is
// passed. It is no test of its own: trace_points_test.py compares.

using namespace std::chrono_literals;
using timing_wheel::engine_kind;
using timing_wheel::manual_timer;

namespace {

void say(const char* what, std::uint64_t tag, std::int64_t more) {
  std::cout << what << ' ' << tag << ' ' << more << '\n';
}

// From 0 to 14 s: with slots of 1 ms, three wheels of 64.
constexpr std::chrono::nanoseconds delay_of(std::uint64_t i) { return i * i * 9ms; }

void cancel(const timing_wheel::timer_handle& handle, std::uint64_t tag) {
  say("cancel", tag, static_cast<int>(handle.cancel()));
}

void use(engine_kind engine) {
  const auto ignore = [](const std::exception_ptr&, std::uint64_t) {};
  manual_timer timer({.wheel_size = 64, .engine = engine, .on_error = ignore});
  std::vector<timing_wheel::timer_handle> handles;
  for (std::uint64_t tag = 0; tag < 40; ++tag) {
    const std::int64_t deadline = (timer.now() + delay_of(tag)).time_since_epoch().count();
    say("schedule", tag, deadline);
    const auto callback = [&handles, tag, deadline] {
      say("fire_begin", tag, deadline);
      if (tag == 4) {
        cancel(handles[tag], tag);  // it is running
      }
      say("fire_end", tag, 0);
      if (tag == 5) {
        throw std::runtime_error("what throws has ended, too");
      }
    };
    handles.push_back(timer.schedule_after(delay_of(tag), callback, {.tag = tag}));
  }
  for (std::uint64_t tag = 0; tag < handles.size(); tag += 3) {
    cancel(handles[tag], tag);
    cancel(handles[tag], tag);  // it is finished
  }
  timer.advance_by(1h);
  say("moved", static_cast<std::uint64_t>(engine), static_cast<std::int64_t>(timer.stats().moves));
}

}  // namespace

int main() {
  for (const engine_kind engine : {engine_kind::hierarchical, engine_kind::hashed, engine_kind::heap}) {
    use(engine);
  }
}
