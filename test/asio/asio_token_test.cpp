#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "asio/asio_worlds.hpp"
#include "asio/counted_allocator.hpp"

namespace timing_wheel::test {
namespace {

// Completion tokens, and what is associated with a handler.
template <class Timers>
class AsioToken : public in_world<Timers> {};

TYPED_TEST_F(AsioToken, AFutureGetsACancelAsAnError) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  std::future<void> end = timer.async_wait(net::use_future);
  timer.cancel();
  this->context_.run();
  EXPECT_THROW(end.get(), system_error);
}

// Clang 14 has no coroutines that Asio can use.
#if defined(BOOST_ASIO_HAS_CO_AWAIT) || defined(ASIO_HAS_CO_AWAIT)
template <class Timer>
net::awaitable<void> wait_twice(Timer& timer, int& waits) {
  for (int i = 0; i < 2; ++i) {
    timer.expires_after(1ms);
    co_await timer.async_wait(net::use_awaitable);
    EXPECT_GE(clock::now(), timer.expiry());
    ++waits;
  }
}

TYPED_TEST_F(AsioToken, ACoroutineWaits) {
  typename TestFixture::timer_type timer(this->context_);
  int waits = 0;
  net::co_spawn(this->context_, wait_twice(timer, waits), net::detached);
  this->context_.run();
  EXPECT_EQ(waits, 2);
}

template <class Timer>
net::awaitable<void> wait_for_long(Timer& timer, error_code& error) {
  co_await timer.async_wait(net::redirect_error(net::use_awaitable, error));
}

TYPED_TEST_F(AsioToken, ACoroutineSeesACancel) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  error_code error;
  net::co_spawn(this->context_, wait_for_long(timer, error), net::detached);
  typename TestFixture::timer_type canceller(this->context_, 2ms);
  canceller.async_wait(handler([&](const error_code&) { timer.cancel(); }));
  this->context_.run();
  EXPECT_EQ(error, net::error::operation_aborted);
}

template <class Timer>
net::awaitable<void> wait_by_default(Timer& timer, bool& ended) {
  co_await timer.async_wait();
  ended = true;
}

TYPED_TEST_F(AsioToken, ATokenMayBeTheDefaultOfTheExecutor) {
  using timer = net::use_awaitable_t<>::as_default_on_t<typename TestFixture::timer_type>;
  timer one(this->context_, 1ms);
  bool ended = false;
  net::co_spawn(this->context_, wait_by_default(one, ended), net::detached);
  this->context_.run();
  EXPECT_TRUE(ended);
}
#endif

TYPED_TEST_F(AsioToken, NobodyNeedsToHearOfAWait) {
  typename TestFixture::timer_type timer(this->context_, 2ms);
  timer.async_wait(net::detached);
  this->context_.run();
  EXPECT_GE(clock::now(), timer.expiry());
}

struct frugal_handler {
  using allocator_type = counted_allocator<char>;
  memory_count& from;
  error_code& ended;

  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(from); }
  void operator()(const error_code& error) const {
    EXPECT_EQ(from.live, 0U);
    ended = error;
  }
};

TYPED_TEST_F(AsioToken, TheHandlersAllocatorHasItsMemoryBackBeforeTheHandlerRuns) {
  memory_count memory;
  error_code ended = net::error::no_memory;
  typename TestFixture::timer_type timer(this->context_, 2ms);
  timer.async_wait(frugal_handler{memory, ended});
  EXPECT_GT(memory.live, 0U);
  this->context_.run();
  EXPECT_FALSE(ended);
  EXPECT_GT(memory.allocations, 0U);
  timer.expires_after(1h);
  timer.async_wait(frugal_handler{memory, ended});
  timer.cancel();
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(ended, net::error::operation_aborted);
  EXPECT_EQ(memory.live, 0U);
}

#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
TYPED_TEST_F(AsioToken, ASignalCancelsItsWaitAndNoOther) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  outcome signalled;
  outcome others;
  net::cancellation_signal signal;
  timer.async_wait(others.note());
  timer.async_wait(net::bind_cancellation_slot(signal.slot(), signalled.note()));
  timer.async_wait(others.note());
  net::post(this->context_, [&] {
    signal.emit(net::cancellation_type::total);
    EXPECT_EQ(signalled.all(), 0);
  });
  while (signalled.all() == 0) {
    this->context_.run_one();
  }
  EXPECT_EQ(signalled.aborted, 1);
  EXPECT_EQ(others.all(), 0);
  EXPECT_EQ(timer.cancel(), 2U);
  this->context_.run();
  EXPECT_EQ(others.aborted, 2);
}

TYPED_TEST_F(AsioToken, ASignalThatIsLateChangesNothing) {
  typename TestFixture::timer_type timer(this->context_, 1ms);
  outcome ends;
  net::cancellation_signal signal;
  timer.async_wait(net::bind_cancellation_slot(signal.slot(), ends.note()));
  this->context_.run();
  signal.emit(net::cancellation_type::terminal);
  timer.expires_after(1ms);
  timer.async_wait(ends.note());
  signal.emit(net::cancellation_type::terminal);
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(ends.fired, 2);
}

#endif

}  // namespace
}  // namespace timing_wheel::test
