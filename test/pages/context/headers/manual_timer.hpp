// cpp: statements, given int order; statements
#include <cassert>
#include <chrono>

using namespace std::chrono_literals;

struct reservation {
  reservation(timing_wheel::timer& timer, int order);
  bool given_back() const;
};

extern timing_wheel::manual_timer timer;
void f();
