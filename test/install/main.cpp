// A timer whose callbacks run on a pool of Boost.Asio.
#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <timing_wheel/asio.hpp>
#include <timing_wheel/timing_wheel.hpp>

using namespace std::chrono_literals;

int main() {
  boost::asio::thread_pool pool(1);
  std::atomic<bool> ran = false;
  timing_wheel::timer timer{{.executor = timing_wheel::asio_executor(pool)}};
  timer.schedule_after(1ms, [&] { ran = true; });
  timer.stop_drain(timer.now() + 10s);
  return ran ? 0 : 1;
}
