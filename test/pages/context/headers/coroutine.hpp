// cpp: statements, given int id, returns coroutine; statements, given int url, returns coroutine
#include <chrono>
#include <coroutine>
#include <stop_token>

using namespace std::chrono_literals;
using timing_wheel::sleep_result;

struct coroutine {
  struct promise_type {
    coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

extern timing_wheel::timer timer;
extern std::stop_token token;
void verify(int id);
void give_up();
timing_wheel::sleep_operation fetch(int url, std::stop_token stop);
