#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>

#include "asio/both_asios.hpp"
#include "timing_wheel/asio.hpp"

namespace timing_wheel::test {
namespace {

TEST(BothAsios, AreUsedInOneProgram) {
  boost::asio::io_context context;
  timing_wheel::asio::wheel_timer timer(context, std::chrono::milliseconds(1));
  bool ended = false;
  timer.async_wait([&ended](const boost::system::error_code& error) { ended = !error; });
  context.run();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(waits_on_the_standalone_asio());
}

}  // namespace
}  // namespace timing_wheel::test
