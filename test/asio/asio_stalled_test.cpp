#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>

#include "asio/asio_worlds.hpp"

namespace timing_wheel::test {
namespace {

// A loop whose thread is busy for longer than a time-out. A message comes meanwhile, in time; the loop finds both when
// it goes on, and the message is to be first. Where several threads run a loop, neither is: nor with Asio's own timers.
template <class Timers>
class StalledLoop : public in_world<Timers> {
 protected:
  using timer_type = typename in_world<Timers>::timer_type;
  enum class first { none, message, time_out, late_message };

  StalledLoop() { connect_pair(reader_, writer_); }

  // What comes first to handlers on `executor`, of a context with one thread.
  template <class Executor>
  first stall(timer_type& timer, const Executor& executor) {
    first seen = first::none;
    timer.expires_after(3ms);
    timer.async_wait(net::bind_executor(executor, handler([&](const error_code& error) {
                                          seen = seen == first::none && !error ? first::time_out : seen;
                                        })));
    reader_.async_read_some(net::buffer(room_), net::bind_executor(executor, [&](const error_code&, std::size_t) {
                              seen = seen == first::none ? first::message : seen;
                              timer.cancel();
                            }));
    bool in_time = false;
    net::post(this->context_, [&] {
      net::write(writer_, net::buffer(room_));
      in_time = clock::now() < timer.expiry();
      std::this_thread::sleep_until(timer.expiry() + 5ms);
    });
    this->context_.run();
    this->context_.restart();
    return in_time ? seen : first::late_message;
  }

  // How often the message was first, of those that came in time.
  template <class Executor>
  int stall_often(timer_type& timer, const Executor& executor) {
    int messages = 0;
    for (int round = 0; round < rounds;) {
      const first seen = stall(timer, executor);
      messages += seen == first::message ? 1 : 0;
      round += seen == first::late_message ? 0 : 1;
    }
    return messages;
  }

  static constexpr int rounds = 50;
  net::ip::tcp::socket reader_{this->context_};
  net::ip::tcp::socket writer_{this->context_};
  std::array<char, 1> room_{};
};

TYPED_TEST_F(StalledLoop, FindsAMessageBeforeTheTimeOut) {
  typename TestFixture::timer_type timer(this->context_);
  EXPECT_EQ(this->stall_often(timer, this->context_.get_executor()), TestFixture::rounds);
}

TYPED_TEST_F(StalledLoop, FindsAMessageBeforeTheTimeOutInAStrand) {
  const auto strand = net::make_strand(this->context_);
  typename TestFixture::timer_type timer(this->context_);
  EXPECT_EQ(this->stall_often(timer, strand), TestFixture::rounds);
  typename TestFixture::timer_type of_strand(net::any_io_executor{strand});
  EXPECT_EQ(this->stall_often(of_strand, net::any_io_executor(strand)), TestFixture::rounds);
}

}  // namespace
}  // namespace timing_wheel::test
