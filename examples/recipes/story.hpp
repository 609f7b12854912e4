#pragma once

#include <chrono>
#include <iomanip>
#include <iostream>
#include <timing_wheel/timing_wheel.hpp>

/// Begins a line of the story with the time: `at(timer) << "the reply\n";` prints "    2.5 s  the reply".
inline std::ostream& at(const timing_wheel::manual_timer& timer) {
  const std::chrono::duration<double> now = timer.now().time_since_epoch();
  return std::cout << std::fixed << std::setprecision(1) << std::setw(7) << now.count() << " s  ";
}
