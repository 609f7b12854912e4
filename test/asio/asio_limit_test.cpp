#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "asio/asio_worlds.hpp"
#include "asio/counted_allocator.hpp"
#include "timing_wheel/timing_wheel.hpp"

#if defined(TIMING_WHEEL_ASIO_HAS_LIMITS) && defined(TIMING_WHEEL_STANDALONE_ASIO)
#if __has_include(<asio/cancel_after.hpp>)
#include <asio/cancel_after.hpp>
#include <asio/cancel_at.hpp>
#define TIMING_WHEEL_ASIO_LIMITS_ITSELF 1
#endif
#elif defined(TIMING_WHEEL_ASIO_HAS_LIMITS)
#if __has_include(<boost/asio/cancel_after.hpp>)
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancel_at.hpp>
#define TIMING_WHEEL_ASIO_LIMITS_ITSELF 1
#endif
#endif

#ifdef TIMING_WHEEL_ASIO_HAS_LIMITS

namespace timing_wheel::test {
namespace {

// Asio's own functions for its timers, where it has them; the others for ours.
using timing_wheel::asio::cancel_after;
using timing_wheel::asio::cancel_at;
#ifdef TIMING_WHEEL_ASIO_LIMITS_ITSELF
using net::cancel_after;
using net::cancel_at;
using limiting_timers = all_timers;
#else
using limiting_timers = our_timers;
#endif

/// How a read has ended.
struct read_end {
  int calls = 0;
  error_code error;
  std::size_t size = 0;

  void operator()(const error_code& how, std::size_t count) {
    ++calls;
    error = how;
    size = count;
  }
  [[nodiscard]] bool was_aborted() const { return calls == 1 && error == net::error::operation_aborted && size == 0; }
};

template <class Timers>
class LimitedOperation : public in_world<Timers> {
 public:
  using run_with = limiting_timers;

  LimitedOperation() { connect_pair(reader_, writer_); }

 protected:
  template <class Token>
  auto read(Token&& token) {
    return reader_.async_read_some(net::buffer(room_), std::forward<Token>(token));
  }
  void write(const std::string& text) { net::write(writer_, net::buffer(text)); }

  net::ip::tcp::socket reader_{this->context_};
  net::ip::tcp::socket writer_{this->context_};
  typename in_world<Timers>::timer_type timer_{this->context_};
  std::array<char, 16> room_{};
  read_end end_;
};

TYPED_TEST_F(LimitedOperation, IsCancelledAtItsLimitAndNotBefore) {
  const clock::time_point begin = clock::now();
  this->read(cancel_after(this->timer_, 5ms, std::ref(this->end_)));
  this->context_.run();
  EXPECT_TRUE(this->end_.was_aborted());
  EXPECT_GE(clock::now(), begin + 5ms);
}

TYPED_TEST_F(LimitedOperation, IsCancelledAtAnInstant) {
  const clock::time_point limit = clock::now() + 5ms;
  this->read(cancel_at(this->timer_, limit, std::ref(this->end_)));
  this->context_.run();
  EXPECT_TRUE(this->end_.was_aborted());
  EXPECT_GE(clock::now(), limit);
}

TYPED_TEST_F(LimitedOperation, EndsBeforeItsLimit) {
  this->read(cancel_after(this->timer_, 1h, std::ref(this->end_)));
  this->write("message");
  this->context_.run();
  EXPECT_EQ(this->end_.calls, 1);
  EXPECT_FALSE(this->end_.error);
  EXPECT_EQ(this->end_.size, 7U);
}

// A message that a busy machine has written after the limit says nothing.
TYPED_TEST_F(LimitedOperation, CountsItsLimitFromItsBegin) {
  for (bool in_time = false; !in_time; this->context_.restart()) {
    const auto token = cancel_after(this->timer_, 300ms, std::ref(this->end_));
    std::this_thread::sleep_for(310ms);
    const clock::time_point limit = clock::now() + 300ms;
    this->read(token);
    net::post(this->context_, [&] {
      this->write("message");
      in_time = clock::now() < limit;
    });
    this->context_.run();
    EXPECT_FALSE(in_time && this->end_.error);
  }
}

TYPED_TEST_F(LimitedOperation, KeepsAResultThatCameBeforeTheLimitButIsHandledAfterIt) {
  for (bool in_time = false; !in_time; this->context_.restart()) {
    const clock::time_point limit = clock::now() + 2ms;
    this->read(cancel_after(this->timer_, 2ms, std::ref(this->end_)));
    this->write("message");
    in_time = clock::now() < limit;
    std::this_thread::sleep_for(10ms);
    this->context_.run();
    if (in_time) {
      EXPECT_FALSE(this->end_.error);
      EXPECT_GE(this->end_.size, 7U);  // and what an earlier read has left
    }
  }
}

TYPED_TEST_F(LimitedOperation, IsCancelledByTheSlotOfItsHandler) {
  net::cancellation_signal signal;
  this->read(cancel_after(this->timer_, 1h, net::bind_cancellation_slot(signal.slot(), std::ref(this->end_))));
  net::post(this->context_, [&] { signal.emit(net::cancellation_type::terminal); });
  this->context_.run();
  EXPECT_TRUE(this->end_.was_aborted());
  signal.emit(net::cancellation_type::terminal);
}

// What ends an operation that only a signal ends.
struct signal_seen {
  net::cancellation_type_t type = net::cancellation_type::none;
  std::thread::id thread;

  [[nodiscard]] auto begin(net::io_context& context) {
    return [this, &context](auto handler) {
      auto slot = net::get_associated_cancellation_slot(handler);
      slot.assign([this, &context,
                   handler = std::make_shared<decltype(handler)>(std::move(handler))](net::cancellation_type_t how) {
        type = how;
        thread = std::this_thread::get_id();
        net::post(context, [handler] { (*handler)(error_code()); });
      });
    };
  }
};

TYPED_TEST_F(LimitedOperation, GetsASignalOfTheTypeThatWasAskedFor) {
  signal_seen seen;
  int calls = 0;
  auto token =
      cancel_after(this->timer_, 1ms, net::cancellation_type::partial, [&](const error_code& /*error*/) { ++calls; });
  net::async_initiate<decltype(token), void(error_code)>(seen.begin(this->context_), token);
  this->context_.run();
  EXPECT_EQ(seen.type, net::cancellation_type::partial);
  EXPECT_EQ(calls, 1);
}

// The executor of `use_future` runs things at once, wherever they come from.
TYPED_TEST_F(LimitedOperation, IsCancelledByAThreadOfItsContext) {
  signal_seen seen;
  auto token = cancel_after(this->timer_, 1ms, net::use_future);
  auto end = net::async_initiate<decltype(token), void(error_code)>(seen.begin(this->context_), token);
  this->context_.run();
  EXPECT_EQ(seen.thread, std::this_thread::get_id());
  end.get();
}

TYPED_TEST_F(LimitedOperation, MayEndInSeveralWays) {
  struct ways {
    std::optional<int> number;
    std::optional<std::string> text;
    void operator()(int value) { number = value; }
    void operator()(std::string value, std::unique_ptr<int> /*moved*/) { text = std::move(value); }
  } ways;
  for (const bool with_number : {true, false}) {
    const auto begin = [&](auto handler) {
      net::post(this->context_, [with_number, handler = std::move(handler)]() mutable {
        if (with_number) {
          handler(7);
        } else {
          handler("seven", std::make_unique<int>(7));
        }
      });
    };
    auto token = cancel_after(this->timer_, 1h, std::ref(ways));
    net::async_initiate<decltype(token), void(int), void(std::string, std::unique_ptr<int>)>(begin, token);
    this->context_.run();
    this->context_.restart();
  }
  EXPECT_EQ(ways.number, 7);
  EXPECT_EQ(ways.text, "seven");
}

// Where it runs, and what memory it takes.
struct associated_handler {
  using executor_type = net::strand<net::io_context::executor_type>;
  using allocator_type = counted_allocator<char>;
  executor_type strand;
  memory_count& memory;
  read_end& end;

  [[nodiscard]] executor_type get_executor() const noexcept { return strand; }
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(memory); }
  void operator()(const error_code& error, std::size_t size) const {
    EXPECT_TRUE(strand.running_in_this_thread());
    EXPECT_EQ(memory.live, 0U);
    end(error, size);
  }
};

TYPED_TEST_F(LimitedOperation, RunsItsHandlerOnItsExecutorWithItsMemoryGivenBack) {
  memory_count memory;
  const auto strand = net::make_strand(this->context_);
  for (const bool in_time : {true, false}) {
    read_end end;
    this->read(cancel_after(this->timer_, in_time ? 1h : 1ms, associated_handler{strand, memory, end}));
    EXPECT_GT(memory.live, 0U);
    if (in_time) {
      this->write("message");
    }
    this->context_.run();
    this->context_.restart();
    EXPECT_EQ(end.calls, 1);
    EXPECT_EQ(end.size, in_time ? 7U : 0U);
  }
}

TYPED_TEST_F(LimitedOperation, GivesAFutureItsEnd) {
  auto late = this->read(cancel_after(this->timer_, 1ms, net::use_future));
  this->context_.run();
  EXPECT_THROW(late.get(), system_error);
  auto in_time = this->read(cancel_after(this->timer_, 1h, net::use_future));
  this->write("message");
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(in_time.get(), 7U);
}

#if defined(BOOST_ASIO_HAS_CO_AWAIT) || defined(ASIO_HAS_CO_AWAIT)
#if TIMING_WHEEL_ASIO_VERSION >= 103200
template <class Socket, class Timer>
net::awaitable<void> read_by_default(Socket& socket, Timer& timer, read_end& end) {
  std::array<char, 16> room{};
  end.size = co_await socket.async_read_some(net::buffer(room), cancel_after(timer, 1h));
  ++end.calls;
}

TYPED_TEST_F(LimitedOperation, NeedsNoTokenWhereTheOperationHasOne) {
  this->write("message");
  net::co_spawn(this->context_, read_by_default(this->reader_, this->timer_, this->end_), net::detached);
  this->context_.run();
  EXPECT_EQ(this->end_.calls, 1);
  EXPECT_EQ(this->end_.size, 7U);
}
#endif
#endif

TYPED_TEST_F(LimitedOperation, MayBeLeftByItsContext) {
  auto alive = std::make_shared<int>(0);
  {
    net::io_context context;
    typename TestFixture::timer_type timer(context);
    net::ip::tcp::socket reader(context);
    net::ip::tcp::socket writer(context);
    connect_pair(reader, writer);
    reader.async_read_some(net::buffer(this->room_),
                           cancel_after(timer, 1h, [alive](const error_code&, std::size_t) { ++*alive; }));
    context.poll();
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(*alive, 0);
}

// What only a wheel has.
template <class Timers>
class LimitedByAWheel : public LimitedOperation<Timers> {
 public:
  using run_with = our_timers;
};

TYPED_TEST_F(LimitedByAWheel, IsCancelledIfTheWheelRefusesTheWait) {
  net::use_service<timing_wheel::asio::wheel_service>(this->context_).wheel().stop();
  this->read(cancel_after(this->timer_, 1h, std::ref(this->end_)));
  this->context_.run();
  EXPECT_TRUE(this->end_.was_aborted());
}

TYPED_TEST_F(LimitedByAWheel, LeavesNothingIfTheOperationDropsItsHandler) {
  net::cancellation_signal signal;
  int calls = 0;
  auto token = cancel_after(this->timer_, 1ms,
                            net::bind_cancellation_slot(signal.slot(), [&](const error_code& /*how*/) { ++calls; }));
  net::async_initiate<decltype(token), void(error_code)>([](const auto& /*handler*/) {}, token);
  this->context_.run();
  signal.emit(net::cancellation_type::terminal);  // the operation is gone, and its memory
  EXPECT_EQ(calls, 0);
}

TYPED_TEST_F(LimitedByAWheel, LeavesNothingIfItsBeginThrows) {
  net::cancellation_signal signal;
  int calls = 0;
  int signals = 0;
  auto token = cancel_after(this->timer_, 1h,
                            net::bind_cancellation_slot(signal.slot(), [&](const error_code& /*how*/) { ++calls; }));
  const auto begin = [&](auto handler) {
    net::get_associated_cancellation_slot(handler).assign([&](net::cancellation_type_t /*type*/) { ++signals; });
    throw std::runtime_error("no room");
  };
  EXPECT_THROW((net::async_initiate<decltype(token), void(error_code)>(begin, token)), std::runtime_error);
  EXPECT_FALSE(signal.slot().has_handler());
  this->context_.run_for(1min);
  EXPECT_TRUE(this->context_.stopped()) << "the wait goes on";
  signal.emit(net::cancellation_type::terminal);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(signals, 0);
}

}  // namespace
}  // namespace timing_wheel::test

#endif
