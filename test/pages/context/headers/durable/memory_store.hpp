// cpp: statements
#include <chrono>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

void handler(const durable::job& check);
