#include <asio/io_context.hpp>
#include <chrono>
#include <timing_wheel/asio.hpp>

int main() {
  ::asio::io_context context;
  timing_wheel::asio::loop_driver driver(context);
  timing_wheel::asio::use_timer(context, driver.timer());
  timing_wheel::asio::wheel_timer timer(context, std::chrono::milliseconds(1));
  bool ended = false;
  timer.async_wait([&ended](const ::asio::error_code& error) { ended = !error; });
  context.run();
  return ended ? 0 : 1;
}
