// Not to be compiled: a service knows the monotonic and the wall clock only. The compiler says so in one line.
#include <chrono>
#include <timing_wheel/timer.hpp>

int main() {
  timing_wheel::timer timer;
  timer.schedule_at(std::chrono::file_clock::now() + std::chrono::hours(1), [] {});
}
