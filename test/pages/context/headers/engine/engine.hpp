// cpp: statements; statements
#include <timing_wheel/engine/hashed_wheel.hpp>
#include <timing_wheel/engine/hierarchical_wheel.hpp>

using namespace timing_wheel;
void sleep_until_tick(tick when);
void run(timer_number n);
