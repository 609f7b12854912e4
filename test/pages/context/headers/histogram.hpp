// cpp: statements
#include <chrono>

using namespace std::chrono_literals;
using timing_wheel::histogram;
