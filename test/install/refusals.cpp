// Compiled without exceptions, and without RTTI: every way that a schedule can be refused, by error code.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <system_error>
#include <timing_wheel/asio.hpp>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;
using timing_wheel::timer_errc;

int failures = 0;

void expect(bool holds, const char* what) {
  if (!holds) {
    std::printf("not so: %s\n", what);
    ++failures;
  }
}

bool has_memory = true;

void* operator new(std::size_t size, const std::nothrow_t& /*how*/) noexcept {
  return has_memory ? std::malloc(size) : nullptr;
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, std::size_t /*size*/) noexcept { std::free(place); }
void operator delete(void* place, const std::nothrow_t& /*how*/) noexcept { std::free(place); }

/// Too large for a task itself.
struct needs_a_box {
  std::array<std::byte, 64> captured{};

  void operator()() const {}
};

int main() {
  int runs = 0;
  const auto count = [&runs] { ++runs; };
  const auto never = [](timing_wheel::time_point) { return std::optional<timing_wheel::time_point>(); };
  std::error_code error;
  timing_wheel::manual_timer timer({.max_pending = 2});

  timer.schedule_after(1s, count, {}, error);
  expect(!error, "a one-shot is taken");
  const auto beat = timer.schedule_every(2s, count, {.policy = timing_wheel::fixed_delay, .tag = 7}, error);
  expect(!error, "a periodic timer is taken");
  timer.schedule_at(timer.now() + 1s, count, {}, error);
  expect(error == timer_errc::too_many_pending, "a third is one too many");
  timer.advance_by(2s);
  expect(runs == 2, "both have run");
  expect(beat.cancel() == timing_wheel::cancel_result::cancelled, "the periodic one is pending again");

  timer.schedule_after(1s, std::function<void()>(), {}, error);
  expect(error == timer_errc::empty_callback, "an empty callback is refused");
  timer.schedule_every(0s, count, {.policy = timing_wheel::fixed_delay}, error);
  expect(error == timer_errc::invalid_period, "no period is refused");
  has_memory = false;
  timer.schedule_after(1s, needs_a_box(), {}, error);
  has_memory = true;
  expect(error == std::errc::not_enough_memory, "no memory is an error code");
  expect(!timer.schedule_with(never, count, {}, error) && !error, "a rule without a deadline schedules nothing");

  timer.stop();
  timer.schedule_after(1s, count, {}, error);
  expect(error == timer_errc::stopped, "a stopped service refuses");
  return failures == 0 ? 0 : 1;
}
