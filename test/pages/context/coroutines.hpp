#include <chrono>
#include <coroutine>
#include <stop_token>
#include <string>
#include <system_error>

#include "coroutines/task.hpp"

using namespace std::chrono_literals;
using namespace timing_wheel;

using coroutine = example::task<>;

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
