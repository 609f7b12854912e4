// cpp: statements
#include <utility>

using timing_wheel::pending_task;
extern timing_wheel::timer timer;
extern timing_wheel::timer next;
