#pragma once

#include "timing_wheel/time.hpp"

/// The time that event loops see. They read the system's clock, and libuv and libevent have no other; so this program
/// has its own `clock_gettime`, which shows virtual time as long as a `driving` lives and calls the system's otherwise.
/// What Google Benchmark reads between the operations is therefore the real time, and so are the limits of a single
/// step.
///
/// While driven, a loop also finds that no file is ready, without a call of the kernel: else each of the 1 800 000
/// milliseconds of a half hour would cost one, which has nothing to do with timers.
namespace timing_wheel::bench::virtual_time {

/// Milliseconds since the beginning, which lies before all timers.
[[nodiscard]] tick now();

void pass(tick by);

class driving {
 public:
  driving();
  ~driving();
  driving(const driving&) = delete;
  driving& operator=(const driving&) = delete;

 private:
  bool outer_;  // a timer may be armed while others fire
};

}  // namespace timing_wheel::bench::virtual_time
