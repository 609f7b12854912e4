// Coroutines that sleep, are stopped, and have limits, in virtual time. Nothing here but task.hpp is about the type of
// the coroutines: use your own.

#include <chrono>
#include <iomanip>
#include <iostream>
#include <stop_token>
#include <string>
#include <timing_wheel/coroutine.hpp>
#include <timing_wheel/timing_wheel.hpp>

#include "task.hpp"

using namespace std::chrono_literals;
using example::task;
using timing_wheel::sleep_result;

namespace {

std::ostream& at(const timing_wheel::timer& timer) {
  const std::chrono::duration<double> now = timer.now().time_since_epoch();
  return std::cout << std::fixed << std::setprecision(1) << std::setw(7) << now.count() << " s  ";
}

// snippet verify
task<> verify(timing_wheel::timer& timer, int order, std::stop_token paid) {
  const sleep_result end = co_await timer.sleep_for(30min, {.stop = paid});
  if (end == sleep_result::elapsed) {
    at(timer) << "order " << order << ": not paid, the stock is given back\n";
  } else {
    at(timer) << "order " << order << ": paid in time\n";
  }
}
// end

// A server that takes its time, and heeds its token.
task<int> ask(timing_wheel::timer& timer, std::chrono::seconds latency, std::stop_token stop) {
  const sleep_result result = co_await timer.sleep_for(latency, {.stop = stop});
  co_return result == sleep_result::elapsed ? 200 : 0;
}

// snippet retry
task<bool> ask_with_retries(timing_wheel::timer& timer, std::chrono::seconds latency) {
  for (std::chrono::seconds wait = 1s; wait <= 4s; wait *= 2) {
    const auto once = [&](const std::stop_token& stop) { return ask(timer, latency, stop); };
    if (const auto status = co_await with_timeout(timer, 5s, once)) {
      at(timer) << "answer " << *status << '\n';
      co_return true;
    }
    at(timer) << "no answer, again in " << wait / 1s << " s\n";
    co_await timer.sleep_for(wait);
    latency /= 2;
  }
  co_return false;
}
// end

// snippet shutdown
task<> heartbeat(timing_wheel::timer& timer) {
  std::error_code error;
  while (co_await timer.sleep_for(10s, {}, error) == sleep_result::elapsed) {
    at(timer) << "alive\n";
  }
  at(timer) << "no more heartbeats: " << error.message() << '\n';
}
// end

}  // namespace

int main() {
  timing_wheel::manual_timer timer;

  std::stop_source payment;
  task<> first = verify(timer, 1, payment.get_token());
  task<> second = verify(timer, 2, {});
  first.start();
  second.start();
  timer.advance_by(10min);
  payment.request_stop();
  timer.advance_by(20min);

  task<bool> asked = ask_with_retries(timer, 8s);
  asked.start();
  timer.advance_by(1min);

  task<> beats = heartbeat(timer);
  beats.start();
  timer.advance_by(25s);
  timer.stop();  // what it returns is dropped at once, so the sleep ends
}
