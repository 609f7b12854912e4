// cpp: statements
#include <chrono>
#include <system_error>

using namespace std::chrono_literals;
using timing_wheel::timer_errc;

extern timing_wheel::timer timer;
extern std::error_code error;
void check();
void try_later();
