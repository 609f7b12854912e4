// cpp: statements; declarations
#include <chrono>

using namespace std::chrono_literals;
using timing_wheel::scoped_timer;
using timing_wheel::timer_handle;

extern timing_wheel::timer timer;
extern timing_wheel::timer timer_;
void close();

struct connection {
  void close();
};
