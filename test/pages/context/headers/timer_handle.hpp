// cpp: declarations
#include <chrono>

using namespace timing_wheel;
using namespace std::chrono_literals;

extern timer timer_;
void close();
