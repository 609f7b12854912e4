// cpp: statements; statements
#include <unistd.h>
#include <optional>

extern timing_wheel::loop_timer timer;
void wake_the_loop();
void sleep_until_or_woken(std::optional<timing_wheel::time_point> when);
void serve();
