// cpp: statements
#include <chrono>

using namespace std::chrono_literals;
using timing_wheel::timer_handle;
extern timing_wheel::timer timer;
void ring();
