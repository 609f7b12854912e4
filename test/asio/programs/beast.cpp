// An HTTP server on Boost.Beast that hangs up on clients that say nothing: one wheel timer for each connection.

#include <utility>  // Boost 1.74 needs it, and does not include it

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <timing_wheel/asio.hpp>

namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using net::ip::tcp;
using namespace std::chrono_literals;

struct counts {
  int answered = 0;
  int hung_up = 0;
};

class session : public std::enable_shared_from_this<session> {
 public:
  session(tcp::socket socket, counts& seen) : socket_(std::move(socket)), idle_(socket_.get_executor()), seen_(seen) {}

  void read() {
    idle_.expires_after(50ms);
    idle_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) {
        ++self->seen_.hung_up;
        self->socket_.cancel();
      }
    });
    http::async_read(socket_, buffer_, request_, [self = shared_from_this()](const error_code& error, std::size_t) {
      if (!error) {
        self->answer();
      }
    });
  }

 private:
  void answer() {
    idle_.cancel();
    response_ = {http::status::ok, request_.version()};
    response_.body() = "checked";
    response_.prepare_payload();
    http::async_write(socket_, response_, [self = shared_from_this()](const error_code& error, std::size_t) {
      self->seen_.answered += error ? 0 : 1;
    });
  }

  tcp::socket socket_;
  timing_wheel::asio::wheel_timer idle_;
  counts& seen_;
  boost::beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

}  // namespace

int main() {
  net::io_context context;
  counts seen;
  tcp::acceptor acceptor(context, {net::ip::address_v4::loopback(), 0});
  const auto accept = [&] {
    acceptor.async_accept([&](const error_code& error, tcp::socket socket) {
      if (!error) {
        std::make_shared<session>(std::move(socket), seen)->read();
      }
    });
  };
  accept();
  accept();

  tcp::socket speaks(context);
  tcp::socket is_silent(context);
  speaks.connect(acceptor.local_endpoint());
  is_silent.connect(acceptor.local_endpoint());
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  net::write(speaks, net::buffer(request));
  context.run();

  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(speaks, buffer, response);
  error_code end;
  char byte = 0;
  is_silent.read_some(net::buffer(&byte, 1), end);
  std::cout << "answered " << seen.answered << ", hung up " << seen.hung_up << ", body \"" << response.body()
            << "\", the silent one sees: " << end.message() << '\n';
  return seen.answered == 1 && seen.hung_up == 1 && response.body() == "checked" && end == net::error::eof
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}
