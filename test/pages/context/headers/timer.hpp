// cpp: statements, given int id; statements; statements
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;
using timing_wheel::time_point;

extern timing_wheel::timer timer;
extern std::function<void()> f;
extern std::error_code error;

void verify(int id);
void send_heartbeat();
void save(std::uint64_t tag, timing_wheel::time_point deadline);
std::chrono::milliseconds backoff();
void retry();
