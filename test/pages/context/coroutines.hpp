#include <chrono>
#include <coroutine>
#include <stop_token>
#include <string>
#include <system_error>

using namespace std::chrono_literals;
using namespace timing_wheel;

struct coroutine {
  struct promise_type {
    coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

struct page {
  bool await_ready() const;
  void await_suspend(std::coroutine_handle<> who);
  std::string await_resume();
};

struct worker_pool {
  void execute(task&& work);
};

extern worker_pool pool;
extern std::stop_token token;
page fetch(const std::string& url, std::stop_token stop);
void verify(int id);
void log(const std::error_code& error);
