// cpp: statements; statements; statements; statements, returns coroutine
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <stop_token>

using namespace std::chrono_literals;
using timing_wheel::sleep_options;

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
extern std::stop_source source;
void check();
void send_heartbeat();
void log_it(const std::exception_ptr& failure, std::uint64_t tag);
