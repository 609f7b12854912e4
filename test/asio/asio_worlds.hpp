#pragma once

#include <gtest/gtest.h>

#ifdef TIMING_WHEEL_STANDALONE_ASIO
#include <asio.hpp>
#else
#include <boost/asio.hpp>
#endif

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

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
constexpr const char* flavour = "standalone_asio::";
#else
namespace net = ::boost::asio;
using error_code = ::boost::system::error_code;
using system_error = ::boost::system::system_error;
constexpr const char* flavour = "boost_asio::";
#endif

using clock = std::chrono::steady_clock;

/// What GoogleTest takes for the type of a test in a world: names of tests of ctest's have it.
inline std::string type_in(std::string_view world) { return std::string(flavour).append(world); }

/// Whether the test that runs is in that world.
inline bool runs_in(std::string_view world) {
  return testing::UnitTest::GetInstance()->current_test_info()->type_param() == type_in(world);
}

/// Connects two sockets; Asio has no pairs of local ones on Windows.
inline void connect_pair(net::ip::tcp::socket& one, net::ip::tcp::socket& other) {
  net::ip::tcp::acceptor acceptor(one.get_executor(), {net::ip::address_v4::loopback(), 0});
  other.connect(acceptor.local_endpoint());
  acceptor.accept(one);
  other.set_option(net::ip::tcp::no_delay(true));
}

/// Asio's own timers.
struct steady_timers {
  template <class Executor = net::any_io_executor>
  using timer = net::basic_waitable_timer<clock, net::wait_traits<clock>, Executor>;
  static constexpr std::array worlds{"steady"};
  explicit steady_timers(net::io_context& /*context*/) {}
};

/// Ours. Who drives them is no type: a test is compiled once for both.
struct wheel_timers {
  template <class Executor = net::any_io_executor>
  using timer = timing_wheel::asio::basic_wheel_timer<Executor>;
  static constexpr std::array worlds{"poller", "loop"};
  explicit wheel_timers(net::io_context& context) {
    if (runs_in("loop")) {
      timing_wheel::asio::use_timer(context, driver.emplace(context).timer());
    } else if (!runs_in("poller")) {
      throw std::logic_error("what drives the timers of this test?");
    }
  }
  std::optional<timing_wheel::asio::loop_driver> driver;
};

template <class... Timers>
struct timers {};
using all_timers = timers<steady_timers, wheel_timers>;
using our_timers = timers<wheel_timers>;

/// For tests of what is the same in each world.
using one_world = testing::Types<wheel_timers>;

/// A context, and how timers are driven there.
template <class Timers>
class in_world : public testing::Test {
 public:
  using run_with = all_timers;

 protected:
  using timer_type = typename Timers::template timer<>;

  net::io_context context_;
  Timers world_{context_};
};

/// Tells GoogleTest of a test for each of the worlds. \returns the number of the next world of the suite.
inline int tell_test(std::span<const char* const> worlds, int number, const std::string& suite, const char* name,
                     const char* file, int line, testing::Test* (*make)()) {
  for (const char* world : worlds) {
    const std::string numbered = suite + '/' + std::to_string(number++);
    testing::RegisterTest(numbered.c_str(), name, type_in(world).c_str(), nullptr, file, line, make);
  }
  return number;
}
template <template <class> class Test, class... Timers>
bool tell_test(timers<Timers...> /*with*/, const char* suite, const char* name, const char* file, int line) {
  int number = 0;
  ((number = tell_test(Timers::worlds, number, suite, name, file, line,
                       []() -> testing::Test* { return new Test<Timers>; })),
   ...);
  return number > 0;
}

/// A test in each world of its suite's timers: as TYPED_TEST, but compiled for each type of timers only.
// NOLINTBEGIN(bugprone-macro-parentheses): a template has none around its name.
#define TYPED_TEST_F(suite, name)                                                                    \
  template <class Timers>                                                                            \
  class suite##_##name : public suite<Timers> {                                                      \
    using TestFixture = suite<Timers>;                                                               \
    using TypeParam = Timers;                                                                        \
    void TestBody() override;                                                                        \
  };                                                                                                 \
  [[maybe_unused]] const bool suite##_##name##_is_told =                                             \
      tell_test<suite##_##name>(suite<wheel_timers>::run_with(), #suite, #name, __FILE__, __LINE__); \
  template <class Timers>                                                                            \
  void suite##_##name<Timers>::TestBody()
// NOLINTEND(bugprone-macro-parentheses)

/// Most tests have handlers of this one type: what Asio makes for another takes longer to compile than all else there.
using handler = std::function<void(const error_code&)>;

/// How waits have ended.
struct outcome {
  int fired = 0;
  int aborted = 0;
  int otherwise = 0;

  /// A handler that writes it down.
  [[nodiscard]] handler note() {
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
