// cpp: statements
#include <sstream>

using timing_wheel::write_prometheus;
extern timing_wheel::timer timer;
