#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;

extern timing_wheel::timer timer;
extern timing_wheel::timer other_timer;
extern std::error_code error;
extern std::unique_ptr<int> order;
void verify(int order);
