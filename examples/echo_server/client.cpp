#include "client.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>
#include <vector>

namespace echo {

namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using message = std::array<char, 16>;

class client {
 public:
  client(boost::asio::io_context& context, unsigned short port, std::size_t connections, std::chrono::nanoseconds time)
      : end_(std::chrono::steady_clock::now() + time), answers_(connections) {
    const tcp::endpoint server(boost::asio::ip::address_v4::loopback(), port);
    for (std::size_t i = 0; i < connections; ++i) {
      sockets_.emplace_back(context);
      sockets_.back().connect(server);
      sockets_.back().set_option(tcp::no_delay(true));
    }
    end_ = std::chrono::steady_clock::now() + time;
  }

  // The next message, on the next connection.
  void send() {
    if (std::chrono::steady_clock::now() >= end_) {
      return;
    }
    const std::size_t which = next_++ % sockets_.size();
    boost::asio::async_write(sockets_[which], boost::asio::buffer(sent_),
                             [this, which](const error_code& error, std::size_t /*size*/) {
                               check(error);
                               receive(which);
                             });
  }

  // Until the server closes each of them.
  void wait() {
    for (tcp::socket& each : sockets_) {
      error_code error;
      std::array<char, 1> byte{};
      each.read_some(boost::asio::buffer(byte), error);
      if (!error) {
        throw std::runtime_error("the server says something that nobody asked for");
      }
    }
  }

 private:
  void receive(std::size_t which) {
    boost::asio::async_read(sockets_[which], boost::asio::buffer(answers_[which]),
                            [this, which](const error_code& error, std::size_t /*size*/) {
                              check(error);
                              if (answers_[which] != sent_) {
                                throw std::runtime_error("an answer is not what was sent");
                              }
                              send();
                            });
  }

  static void check(const error_code& error) {
    if (error) {
      throw boost::system::system_error(error);
    }
  }

  std::chrono::steady_clock::time_point end_;
  std::vector<tcp::socket> sockets_;
  std::vector<message> answers_;
  const message sent_ = {'t', 'i', 'm', 'i', 'n', 'g', ' ', 'w', 'h', 'e', 'e', 'l', ' ', '1', '2', '3'};
  std::size_t next_ = 0;
};

}  // namespace

void load(unsigned short port, std::size_t connections, std::size_t at_once, std::chrono::nanoseconds time) {
  boost::asio::io_context context(1);
  client mine(context, port, connections, time);
  for (std::size_t i = 0; i < std::min(at_once, connections); ++i) {
    mine.send();
  }
  context.run();
  mine.wait();
}

}  // namespace echo
