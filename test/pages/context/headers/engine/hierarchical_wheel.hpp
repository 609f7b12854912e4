// cpp: statements
#include <optional>

using namespace timing_wheel;
void sleep_until_tick(tick when);
void expire(timer_number n);
