// Not to be linked with a library that was built with other containers.
#include <timing_wheel/timer.hpp>

int main() {
  timing_wheel::timer_options options;
  options.wheel_sizes = {60, 60, 24};
  const timing_wheel::timer timer(options);
  return static_cast<int>(timer.pending());
}
