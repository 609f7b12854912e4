#pragma once

#include <gtest/gtest.h>

#ifdef TIMING_WHEEL_STANDALONE_ASIO
#include <asio.hpp>
#else
#include <boost/asio.hpp>
#endif

#include <chrono>
#include <type_traits>

#include "timing_wheel/asio.hpp"

/// \file
/// The timers that tests of Asio run on: its own, to see that ours agree with it, and ours on either driver.

// Tests of the two Asios differ in the names of these types.
namespace timing_wheel::test {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

using namespace std::chrono_literals;

#ifdef TIMING_WHEEL_STANDALONE_ASIO
namespace net = ::asio;
using error_code = ::asio::error_code;
using system_error = ::asio::system_error;
#else
namespace net = ::boost::asio;
using error_code = ::boost::system::error_code;
using system_error = ::boost::system::system_error;
#endif

using clock = std::chrono::steady_clock;

/// Asio's own.
struct steady_world {
  template <class Executor = net::any_io_executor>
  using timer = net::basic_waitable_timer<clock, net::wait_traits<clock>, Executor>;
  explicit steady_world(net::io_context& /*context*/) {}
};

/// On a thread of the wheel.
struct poller_world {
  template <class Executor = net::any_io_executor>
  using timer = timing_wheel::asio::basic_wheel_timer<Executor>;
  explicit poller_world(net::io_context& /*context*/) {}
};

/// On the context itself.
struct loop_world {
  template <class Executor = net::any_io_executor>
  using timer = timing_wheel::asio::basic_wheel_timer<Executor>;
  explicit loop_world(net::io_context& context) : driver(context) {
    timing_wheel::asio::use_timer(context, driver.timer());
  }
  timing_wheel::asio::loop_driver driver;
};

using all_worlds = testing::Types<steady_world, poller_world, loop_world>;
using wheel_worlds = testing::Types<poller_world, loop_world>;

/// For tests of what is the same on each.
using this_world = testing::Types<poller_world>;

/// A context, and how timers are driven there.
template <class World>
class in_world : public testing::Test {
 protected:
  using timer_type = typename World::template timer<>;

  net::io_context context_;
  World world_{context_};
};

/// How waits have ended.
struct outcome {
  int fired = 0;
  int aborted = 0;
  int otherwise = 0;

  /// A handler that writes it down.
  [[nodiscard]] auto note() {
    return [this](const error_code& error) { add(error); };
  }
  void add(const error_code& error) {
    if (!error) {
      ++fired;
    } else if (error == net::error::operation_aborted) {
      ++aborted;
    } else {
      ++otherwise;
    }
  }
  [[nodiscard]] int all() const { return fired + aborted + otherwise; }
};

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::test
