#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <timing_wheel/asio.hpp>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;

bool pool_runs_a_timer() {
  boost::asio::thread_pool pool(1);
  std::atomic<bool> ran = false;
  timing_wheel::timer timer{{.executor = timing_wheel::asio_executor(pool)}};
  timer.schedule_after(1ms, [&] { ran = true; });
  timer.stop_drain(timer.now() + 10s);
  return ran;
}

int main() {
  bool verified = false;
  timing_wheel::manual_timer timer;
  timer.schedule_after(30min, [&] { verified = true; });
  timer.advance_by(31min);

  std::puts(verified ? "the callback ran" : "the callback did not run");
  return verified && pool_runs_a_timer() ? 0 : 1;
}
