#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "timing_wheel/histogram.hpp"

namespace echo {

using boost::asio::ip::tcp;
using boost::system::error_code;

/// What a server has seen.
struct figures {
  std::uint64_t connections = 0;
  std::uint64_t messages = 0;
  std::uint64_t timed_out = 0;                     ///< Connections closed because they were idle.
  std::uint64_t early = 0;                         ///< Waits that ended before their expiry. It has to be 0.
  timing_wheel::histogram lateness;                ///< Of the time-outs.
  std::chrono::steady_clock::time_point first{};   ///< When the first message came.
  std::chrono::steady_clock::time_point latest{};  ///< When the last one came.
};

/// A connection: sends back what it gets, and is closed when it has got nothing for `limit`. `Timer` is Asio's
/// steady_timer, or a wheel_timer: nothing else differs.
template <class Timer>
class session : public std::enable_shared_from_this<session<Timer>> {
 public:
  session(tcp::socket socket, std::chrono::nanoseconds limit, figures& seen)
      : socket_(std::move(socket)), idle_(socket_.get_executor()), limit_(limit), seen_(seen) {}

  void start() {
    ++seen_.connections;
    read();
  }

 private:
  void read() {
    expect();
    socket_.async_read_some(boost::asio::buffer(bytes_),
                            [self = this->shared_from_this()](const error_code& error, std::size_t size) {
                              error ? self->end() : self->answer(size);
                            });
  }

  void answer(std::size_t size) {
    seen_.latest = std::chrono::steady_clock::now();
    if (seen_.messages++ == 0) {
      seen_.first = seen_.latest;
    }
    boost::asio::async_write(socket_, boost::asio::buffer(bytes_, size),
                             [self = this->shared_from_this()](const error_code& error, std::size_t /*size*/) {
                               error ? self->end() : self->read();
                             });
  }

  // Each message moves the time-out.
  void expect() {
    idle_.expires_after(limit_);
    idle_.async_wait([self = this->shared_from_this(), expiry = idle_.expiry()](const error_code& error) {
      if (!error) {
        self->time_out(expiry);
      }
    });
  }

  void time_out(std::chrono::steady_clock::time_point expiry) {
    const auto now = std::chrono::steady_clock::now();
    seen_.early += now < expiry ? 1U : 0U;
    if (idle_.expiry() != expiry) {
      return;  // a message came when this was posted already
    }
    ++seen_.timed_out;
    seen_.lateness.record(now - expiry);
    end();
  }

  void end() {
    error_code ignored;
    socket_.close(ignored);  // NOLINT(bugprone-unused-return-value): it is closed, whatever it answers
    idle_.cancel();
  }

  tcp::socket socket_;
  Timer idle_;
  const std::chrono::nanoseconds limit_;
  figures& seen_;
  std::array<char, 64> bytes_{};
};

/// Accepts `connections` of them; `io_context::run` returns when the last one is over.
template <class Timer>
class server {
 public:
  server(boost::asio::io_context& context, std::size_t connections, std::chrono::nanoseconds limit, figures& seen)
      : acceptor_(context, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        left_(connections),
        limit_(limit),
        seen_(seen) {
    acceptor_.listen(boost::asio::socket_base::max_listen_connections);
    accept();
  }

  [[nodiscard]] unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    if (left_-- == 0) {
      acceptor_.close();
      return;
    }
    acceptor_.async_accept([this](const error_code& error, tcp::socket accepted) {
      if (!error) {
        accepted.set_option(tcp::no_delay(true));
        std::make_shared<session<Timer>>(std::move(accepted), limit_, seen_)->start();
        accept();
      }
    });
  }

  tcp::acceptor acceptor_;
  std::size_t left_;
  const std::chrono::nanoseconds limit_;
  figures& seen_;
};

}  // namespace echo
