#include <iostream>
#include <sstream>
#include <vector>

extern timing_wheel::timer timer;
extern timing_wheel::timer other;
extern std::ostringstream page;
