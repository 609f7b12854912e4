// Coroutines of a type that the library does not know, on the installed package: each way to sleep, in virtual time,
// and on a thread. What a sleep promises is tested in test/coroutine.
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <future>
#include <stop_token>
#include <system_error>
#include <thread>
#include <timing_wheel/coroutine.hpp>
#include <timing_wheel/manual_timer.hpp>
#include <timing_wheel/timing_wheel.hpp>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using timing_wheel::sleep_result;

namespace {

// Begins at once, and goes when it has ended.
struct coroutine {
  struct promise_type {
    static coroutine get_return_object() noexcept { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept { std::terminate(); }
  };
};

// Until it is over, until it is told to stop, at most an hour instead of two, and until the service ends.
coroutine sleep(timing_wheel::timer& timer, std::stop_token stop, std::vector<sleep_result>& ends,
                std::error_code& error) {
  ends.push_back(co_await timer.sleep_for(30min));
  ends.push_back(co_await timer.sleep_until(timer.now() + 24h, {.stop = stop}));
  const auto in_time = co_await with_timeout(
      timer, 1h, [&timer](const std::stop_token& limit) { return timer.sleep_for(2h, {.stop = limit}); });
  ends.push_back(in_time.value_or(sleep_result::stopped));
  ends.push_back(co_await timer.sleep_for(24h, {}, error));
}

bool sleeps_in_virtual_time() {
  std::vector<sleep_result> ends;
  std::error_code error;
  std::stop_source source;
  timing_wheel::manual_timer timer;
  sleep(timer, source.get_token(), ends, error);
  timer.advance_by(30min - 1ns);
  const bool too_soon = !ends.empty();
  timer.advance_by(1s);
  source.request_stop();
  timer.advance_by(1s);
  timer.advance_by(1h + 1s);
  timer.stop();
  return !too_soon && error == timing_wheel::timer_errc::stopped &&
         ends == std::vector{sleep_result::elapsed, sleep_result::stopped, sleep_result::stopped, sleep_result::failed};
}

// An executor: one task at a time, on a thread that `get` waits for.
struct on_a_thread {
  std::future<void> done;
  void execute(timing_wheel::task work) {
    done = std::async(std::launch::async, [own = std::move(work)]() mutable { own(); });
  }
};

coroutine go_on(timing_wheel::timer& timer, on_a_thread& executor, std::thread::id& where) {
  static_cast<void>(co_await timer.sleep_until(timer.now() + 1ms, {.on = executor}));
  where = std::this_thread::get_id();
}

bool goes_on_where_it_is_asked_to() {
  on_a_thread executor;
  std::thread::id where;
  timing_wheel::manual_timer timer;
  go_on(timer, executor, where);
  timer.advance_by(1s);
  executor.done.get();
  return where != std::thread::id() && where != std::this_thread::get_id();
}

coroutine tell(timing_wheel::timer& timer, std::promise<sleep_result>& end) {
  end.set_value(co_await timer.sleep_for(1ms));
}

bool works_on_the_thread_of_a_service() {
  std::promise<sleep_result> end;
  timing_wheel::timer timer;
  tell(timer, end);
  return end.get_future().get() == sleep_result::elapsed;
}

}  // namespace

int main() {
  const bool good = sleeps_in_virtual_time() && goes_on_where_it_is_asked_to() && works_on_the_thread_of_a_service();
  std::puts(good ? "coroutines sleep" : "a coroutine has not done what it should");
  return good ? 0 : 1;
}
