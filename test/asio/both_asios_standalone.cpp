#include <asio/io_context.hpp>
#include <chrono>

#include "asio/both_asios.hpp"
#include "timing_wheel/asio.hpp"

namespace timing_wheel::test {

bool waits_on_the_standalone_asio() {
  ::asio::io_context context;
  timing_wheel::asio::wheel_timer timer(context, std::chrono::milliseconds(1));
  bool ended = false;
  timer.async_wait([&ended](const ::asio::error_code& error) { ended = !error; });
  context.run();
  return ended;
}

}  // namespace timing_wheel::test
