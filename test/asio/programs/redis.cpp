// A connection of Boost.Redis whose server does not answer: a request is limited by a wheel timer, and a type-erased
// handler waits for one beside it.

#include <boost/asio.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/src.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <timing_wheel/asio.hpp>

namespace net = boost::asio;
namespace redis = boost::redis;
using boost::system::error_code;
using net::ip::tcp;
using namespace std::chrono_literals;

int main() {
  net::io_context context;
  // Takes connections, and says nothing.
  tcp::acceptor silent(context, {net::ip::address_v4::loopback(), 0});

  redis::config config;
  config.addr = {"127.0.0.1", std::to_string(silent.local_endpoint().port())};
  redis::connection connection(context);
  connection.async_run(config, {redis::logger::level::disabled}, net::detached);

  timing_wheel::asio::wheel_timer end(context, 10s);
  bool given_up = false;
  end.async_wait(net::any_completion_handler<void(error_code)>([&](const error_code& error) {
    given_up = !error;
    connection.cancel();
  }));

  const auto begin = std::chrono::steady_clock::now();
  timing_wheel::asio::wheel_timer limit(context);
  redis::request request;
  request.push("PING", "checked");
  redis::response<std::string> response;
  error_code got;
  std::chrono::steady_clock::duration took{};
  connection.async_exec(request, response,
                        timing_wheel::asio::cancel_after(limit, 50ms, [&](const error_code& error, std::size_t) {
                          got = error;
                          took = std::chrono::steady_clock::now() - begin;
                          end.cancel();
                        }));

  context.run();

  std::cout << "after " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
            << " ms: " << got.message() << '\n';
  return got == net::error::operation_aborted && took >= 50ms && !given_up ? EXIT_SUCCESS : EXIT_FAILURE;
}
