// Coroutines of a type that the library does not know, on the installed package: in virtual time, and on a thread.
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <future>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <timing_wheel/coroutine.hpp>
#include <timing_wheel/manual_timer.hpp>
#include <timing_wheel/timing_wheel.hpp>
#include <utility>

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

coroutine sleep(timing_wheel::timer& timer, std::chrono::nanoseconds delay, std::stop_token stop,
                std::optional<sleep_result>& end) {
  end = co_await timer.sleep_for(delay, {.stop = stop});
}

bool sleeps() {
  timing_wheel::manual_timer timer;
  std::optional<sleep_result> end;
  sleep(timer, 30min, {}, end);
  timer.advance_by(30min - 1ns);
  const bool too_soon = end.has_value();
  timer.advance_by(1s);
  return !too_soon && end == sleep_result::elapsed;
}

bool is_stopped() {
  timing_wheel::manual_timer timer;
  std::stop_source source;
  std::optional<sleep_result> end;
  sleep(timer, 30min, source.get_token(), end);
  source.request_stop();
  timer.advance_by(1s);
  return end == sleep_result::stopped && timer.pending() == 0;
}

coroutine sleep_until_dropped(timing_wheel::timer& timer, std::error_code& error, sleep_result& end) {
  end = co_await timer.sleep_for(1h, {}, error);
}

bool is_told_that_the_service_ends() {
  std::error_code error;
  sleep_result end = sleep_result::elapsed;
  timing_wheel::manual_timer timer;
  sleep_until_dropped(timer, error, end);
  timer.stop();
  return end == sleep_result::failed && error == timing_wheel::timer_errc::stopped;
}

// `in_time`: whether an hour was over before the work was.
coroutine work_an_hour_at_most(timing_wheel::timer& timer, std::chrono::nanoseconds work,
                               std::optional<bool>& in_time) {
  const auto ended = co_await with_timeout(
      timer, 1h, [&timer, work](const std::stop_token& stop) { return timer.sleep_for(work, {.stop = stop}); });
  in_time = ended.has_value();
}

bool is_limited() {
  timing_wheel::manual_timer timer;
  std::optional<bool> short_work;
  std::optional<bool> long_work;
  work_an_hour_at_most(timer, 59min, short_work);
  work_an_hour_at_most(timer, 61min, long_work);
  timer.advance_by(60min + 1s);
  return short_work == true && long_work == false;
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
  const bool good = sleeps() && is_stopped() && is_told_that_the_service_ends() && is_limited() &&
                    goes_on_where_it_is_asked_to() && works_on_the_thread_of_a_service();
  std::puts(good ? "coroutines sleep" : "a coroutine has not done what it should");
  return good ? 0 : 1;
}
