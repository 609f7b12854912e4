// A pool of Boost.MySQL whose server does not answer: a wait for a connection is limited by a wheel timer, and a
// type-erased handler waits for one beside it.

#include <boost/asio.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/mysql/connection_pool.hpp>
#include <boost/mysql/diagnostics.hpp>
#include <boost/mysql/pool_params.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <timing_wheel/asio.hpp>
#include <utility>

namespace net = boost::asio;
namespace mysql = boost::mysql;
using boost::system::error_code;
using net::ip::tcp;
using namespace std::chrono_literals;

int main() {
  net::io_context context;
  // Takes connections, and says nothing.
  tcp::acceptor silent(context, {net::ip::address_v4::loopback(), 0});

  mysql::pool_params params;
  params.server_address.emplace_host_and_port("127.0.0.1", silent.local_endpoint().port());
  params.username = "nobody";
  mysql::connection_pool pool(context, std::move(params));
  pool.async_run(net::detached);

  timing_wheel::asio::wheel_timer end(context, 10s);
  bool given_up = false;
  end.async_wait(net::any_completion_handler<void(error_code)>([&](const error_code& error) {
    given_up = !error;
    pool.cancel();
  }));

  const auto begin = std::chrono::steady_clock::now();
  timing_wheel::asio::wheel_timer limit(context);
  mysql::diagnostics details;
  error_code got;
  std::chrono::steady_clock::duration took{};
  pool.async_get_connection(details, timing_wheel::asio::cancel_after(
                                         limit, 50ms, [&](const error_code& error, const mysql::pooled_connection&) {
                                           got = error;
                                           took = std::chrono::steady_clock::now() - begin;
                                           end.cancel();
                                         }));

  context.run();

  std::cout << "after " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
            << " ms: " << got.message() << '\n';
  return got && took >= 50ms && !given_up ? EXIT_SUCCESS : EXIT_FAILURE;
}
