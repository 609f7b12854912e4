#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "asio/asio_worlds.hpp"

// What this Asio has of what is tried here, beside what its version says.
#ifdef TIMING_WHEEL_STANDALONE_ASIO
#if __has_include(<asio/any_completion_handler.hpp>)
#include <asio/any_completion_handler.hpp>
#define TIMING_WHEEL_ASIO_HAS_ANY_HANDLER 1
#endif
#if __has_include(<asio/consign.hpp>)
#include <asio/consign.hpp>
#define TIMING_WHEEL_ASIO_HAS_CONSIGN 1
#endif
#if __has_include(<asio/experimental/channel.hpp>)
#include <asio/experimental/channel.hpp>
#define TIMING_WHEEL_ASIO_HAS_CHANNEL 1
#endif
#else
#if __has_include(<boost/asio/any_completion_handler.hpp>)
#include <boost/asio/any_completion_handler.hpp>
#define TIMING_WHEEL_ASIO_HAS_ANY_HANDLER 1
#endif
#if __has_include(<boost/asio/consign.hpp>)
#include <boost/asio/consign.hpp>
#define TIMING_WHEEL_ASIO_HAS_CONSIGN 1
#endif
#if __has_include(<boost/asio/experimental/channel.hpp>)
#include <boost/asio/experimental/channel.hpp>
#define TIMING_WHEEL_ASIO_HAS_CHANNEL 1
#endif
#endif
#if defined(BOOST_ASIO_HAS_CO_AWAIT) || defined(ASIO_HAS_CO_AWAIT)
#ifdef TIMING_WHEEL_STANDALONE_ASIO
#if __has_include(<asio/experimental/awaitable_operators.hpp>)
#include <asio/experimental/awaitable_operators.hpp>
#define TIMING_WHEEL_ASIO_HAS_AWAITABLE_OPERATORS 1
#endif
#elif __has_include(<boost/asio/experimental/awaitable_operators.hpp>)
#include <boost/asio/experimental/awaitable_operators.hpp>
#define TIMING_WHEEL_ASIO_HAS_AWAITABLE_OPERATORS 1
#endif
#endif
// `deferred` has left `experimental` with Asio 1.24.
#if TIMING_WHEEL_ASIO_VERSION >= 102400
#define TIMING_WHEEL_ASIO_DEFERRED net::deferred
#elif TIMING_WHEEL_ASIO_VERSION >= 102200 && defined(TIMING_WHEEL_STANDALONE_ASIO)
#include <asio/experimental/deferred.hpp>
#define TIMING_WHEEL_ASIO_DEFERRED net::experimental::deferred
#endif

namespace timing_wheel::test {
namespace {

/// An executor that promises nothing about blocking, as those of type-erased handlers: nothing can be posted to it.
class plain_executor {
 public:
  plain_executor(net::io_context::executor_type on, int& runs) : on_(std::move(on)), runs_(&runs) {}

  template <class Work>
  void execute(Work work) const {
    ++*runs_;
    net::post(on_, [work = std::move(work)]() mutable { std::move(work)(); });  // not where the work would go
  }
  [[nodiscard]] net::execution_context& query(net::execution::context_t /*which*/) const noexcept {
    return net::query(on_, net::execution::context);
  }
  friend bool operator==(const plain_executor&, const plain_executor&) noexcept = default;

 private:
  net::io_context::executor_type on_;
  int* runs_;
};

struct plain_handler {
  using executor_type = plain_executor;
  executor_type executor;
  outcome* ends;
  std::shared_ptr<int> alive = std::make_shared<int>(0);

  [[nodiscard]] executor_type get_executor() const noexcept { return executor; }
  void operator()(const error_code& error) const { ends->add(error); }
};

template <class Timers>
class ErasedWait : public in_world<Timers> {};

TYPED_TEST_F(ErasedWait, RunsOnAnExecutorThatNothingCanBePostedTo) {
  int runs = 0;
  outcome ends;
  typename TestFixture::timer_type timer(this->context_, 2ms);
  const plain_handler handler{plain_executor(this->context_.get_executor(), runs), &ends};
  timer.async_wait(handler);
  EXPECT_EQ(handler.alive.use_count(), 2);
  this->context_.run();
  EXPECT_GE(clock::now(), timer.expiry());
  EXPECT_EQ(ends.fired, 1);
  EXPECT_EQ(runs, 1);
  timer.expires_after(1h);
  timer.async_wait(handler);
  timer.cancel();
  EXPECT_EQ(ends.all(), 1);
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(ends.aborted, 1);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(handler.alive.use_count(), 1);
}

TYPED_TEST_F(ErasedWait, RunsOnTheStrandBehindAnyExecutor) {
  const auto strand = net::make_strand(this->context_);
  const net::any_io_executor any = strand;
  typename TestFixture::timer_type timer(any, 1ms);
  bool inside = false;
  const handler note([&](const error_code&) { inside = strand.running_in_this_thread(); });
  timer.async_wait(note);
  this->context_.run();
  EXPECT_TRUE(inside);
  inside = false;
  typename TestFixture::timer_type on_context(this->context_, 1ms);
  on_context.async_wait(net::bind_executor(any, note));
  this->context_.restart();
  this->context_.run();
  EXPECT_TRUE(inside);
}

#ifdef TIMING_WHEEL_ASIO_HAS_ANY_HANDLER
using any_handler = net::any_completion_handler<void(error_code)>;

/// A wait in a source of its own, as libraries have it that are compiled once.
template <class Timer, class Token>
auto wait_erased(Timer& timer, Token&& token) {
  return net::async_initiate<Token, void(error_code)>(
      [](any_handler handler, Timer* on) { on->async_wait(std::move(handler)); }, token, &timer);
}

TYPED_TEST_F(ErasedWait, EndsWithAnyHandler) {
  outcome ends;
  typename TestFixture::timer_type timer(this->context_, 2ms);
  timer.async_wait(any_handler(ends.note()));
  this->context_.run();
  EXPECT_GE(clock::now(), timer.expiry());
  EXPECT_EQ(ends.fired, 1);
  timer.expires_after(1h);
  timer.async_wait(any_handler(ends.note()));
  timer.cancel();
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(ends.aborted, 1);
}

TYPED_TEST_F(ErasedWait, RunsOnTheExecutorOfAnyHandler) {
  const auto strand = net::make_strand(this->context_);
  typename TestFixture::timer_type timer(this->context_, 1ms);
  bool inside = false;
  timer.async_wait(
      any_handler(net::bind_executor(strand, [&](error_code) { inside = strand.running_in_this_thread(); })));
  this->context_.run();
  EXPECT_TRUE(inside);
}

TYPED_TEST_F(ErasedWait, IsCancelledBySlotOfAnyHandler) {
  outcome ends;
  net::cancellation_signal signal;
  typename TestFixture::timer_type timer(this->context_, 1h);
  wait_erased(timer, net::bind_cancellation_slot(signal.slot(), ends.note()));
  net::post(this->context_, [&] { signal.emit(net::cancellation_type::terminal); });
  this->context_.run();
  EXPECT_EQ(ends.aborted, 1);
}

TYPED_TEST_F(ErasedWait, IsLeftByItsContextWithAnyHandler) {
  auto alive = std::make_shared<int>(0);
  {
    net::io_context context;
    typename TestFixture::timer_type timer(context, 1h);
    typename TestFixture::timer_type cancelled(context, 1h);
    timer.async_wait(any_handler([alive](error_code) { ++*alive; }));
    cancelled.async_wait(any_handler([alive](error_code) { ++*alive; }));
    cancelled.cancel();
    EXPECT_EQ(alive.use_count(), 3);
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(*alive, 0);
}
#endif

#ifdef TIMING_WHEEL_ASIO_HAS_CONSIGN
TYPED_TEST_F(ErasedWait, KeepsWhatIsConsignedToItsHandlerUntilItIsCalled) {
  auto kept = std::make_shared<int>(0);
  outcome ends;
  typename TestFixture::timer_type timer(this->context_, 1ms);
  timer.async_wait(net::consign(ends.note(), kept));
  EXPECT_EQ(kept.use_count(), 2);
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
  EXPECT_EQ(kept.use_count(), 1);
}
#endif

#ifdef TIMING_WHEEL_ASIO_DEFERRED
TYPED_TEST_F(ErasedWait, BeginsWhenItIsNoLongerDeferred) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  auto later = timer.async_wait(TIMING_WHEEL_ASIO_DEFERRED);
  EXPECT_EQ(timer.cancel(), 0U);
  timer.expires_after(1ms);
  outcome ends;
  std::move(later)(ends.note());
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
}
#endif

#ifdef TIMING_WHEEL_ASIO_HAS_CHANNEL
TYPED_TEST_F(ErasedWait, SendsToAChannel) {
  net::experimental::channel<void(error_code, int)> channel(this->context_, 1);
  typename TestFixture::timer_type timer(this->context_, 1ms);
  timer.async_wait(handler([&](const error_code& error) { channel.try_send(error, 7); }));
  int received = 0;
  channel.async_receive([&](const error_code& error, int value) { received = error ? -1 : value; });
  this->context_.run();
  EXPECT_EQ(received, 7);
}
#endif

#ifdef TIMING_WHEEL_ASIO_HAS_AWAITABLE_OPERATORS
using namespace net::experimental::awaitable_operators;  // NOLINT(google-build-using-namespace)

template <class Timer>
net::awaitable<void> wait_on(Timer& timer, clock::duration delay) {
  timer.expires_after(delay);
  co_await timer.async_wait(net::use_awaitable);
}

template <class Timer>
net::awaitable<void> wait_for_one_and_both(Timer& first, Timer& second, std::vector<std::size_t>& ends) {
  const auto one = co_await (wait_on(first, 1ms) || wait_on(second, 1h));
  const auto other = co_await (wait_on(first, 1h) || wait_on(second, 1ms));
  ends = {one.index(), other.index()};
  co_await (wait_on(first, 1ms) && wait_on(second, 2ms));
  EXPECT_GE(clock::now(), second.expiry());
  ends.push_back(2);
}

TYPED_TEST_F(ErasedWait, IsOneOfTwoAndBothInACoroutine) {
  typename TestFixture::timer_type first(this->context_);
  typename TestFixture::timer_type second(this->context_);
  std::vector<std::size_t> ends;
  net::co_spawn(this->context_, wait_for_one_and_both(first, second, ends), net::detached);
  this->context_.run();
  EXPECT_EQ(ends, (std::vector<std::size_t>{0, 1, 2}));
}
#endif

}  // namespace
}  // namespace timing_wheel::test
