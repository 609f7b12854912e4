#include <chrono>
#include <iostream>
#include <thread>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;

int main() {
  timing_wheel::timer timer{{.tick = 1ms, .wheel_size = 512}};

  const auto give_back = [] { std::cout << "not approved: the stock is given back\n"; };
  auto check = timer.schedule_after(30min, give_back);
  std::cout << check << '\n';           // prints "timer 0/0#1: pending, 1799999 ms left"
  std::cout << check.cancel() << '\n';  // prints "cancelled": its memory and captures are gone

  timer.schedule_after(10ms, give_back);
  timer.schedule_after(1h, give_back, {.tag = 42});
  std::this_thread::sleep_for(50ms);

  for (auto& left : timer.stop()) {
    std::cout << "never ran: number " << left.tag << '\n';  // prints "never ran: number 42"
  }
}
