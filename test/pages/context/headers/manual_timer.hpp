// cpp: statements, given int order
#include <cassert>
#include <chrono>

using namespace std::chrono_literals;

struct reservation {
  reservation(timing_wheel::timer& timer, int order);
  bool given_back() const;
};
