// cpp: statements
#include <optional>

void wake_the_loop();
void sleep_until_or_woken(std::optional<timing_wheel::time_point> when);
