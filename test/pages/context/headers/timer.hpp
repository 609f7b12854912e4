// cpp: statements, given int id
#include <chrono>
#include <cstdint>

using namespace std::chrono_literals;

void verify(int id);
void send_heartbeat();
void save(std::uint64_t tag, timing_wheel::time_point deadline);
