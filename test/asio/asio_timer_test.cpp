#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "asio/asio_worlds.hpp"

namespace timing_wheel::test {
namespace {

// What steady_timer does, and wheel_timer does too.
template <class Timers>
class AsioTimer : public in_world<Timers> {};

TYPED_TEST_F(AsioTimer, HasTheNamesOfAWaitableTimer) {
  using timer = typename TestFixture::timer_type;
  using strand = net::strand<net::any_io_executor>;
  static_assert(std::is_same_v<typename timer::clock_type, clock>);
  static_assert(std::is_same_v<typename timer::duration, clock::duration>);
  static_assert(std::is_same_v<typename timer::time_point, clock::time_point>);
  static_assert(std::is_same_v<typename timer::executor_type, net::any_io_executor>);
  static_assert(std::is_same_v<typename timer::template rebind_executor<strand>::other,
                               typename TypeParam::template timer<strand>>);
  static_assert(!std::is_copy_constructible_v<timer> && !std::is_copy_assignable_v<timer>);
  timer one(this->context_);
  EXPECT_EQ(one.get_executor(), net::any_io_executor(this->context_.get_executor()));
}

TYPED_TEST_F(AsioTimer, IsMadeForAnExecutorOrAContextWithAnExpiryOrADelay) {
  using timer = typename TestFixture::timer_type;
  const auto executor = this->context_.get_executor();
  const clock::time_point when = clock::now() + 1h;
  EXPECT_EQ(timer(this->context_, when).expiry(), when);
  EXPECT_EQ(timer(executor, when).expiry(), when);
  EXPECT_GE(timer(this->context_, 1h).expiry(), when);
  EXPECT_GE(timer(executor, 1h).expiry(), when);
  EXPECT_EQ(timer(this->context_).expiry(), clock::time_point());
  EXPECT_EQ(timer(executor).expiry(), clock::time_point());
}

TYPED_TEST_F(AsioTimer, WaitBlocksUntilTheExpiry) {
  typename TestFixture::timer_type timer(this->context_, 5ms);
  timer.wait();
  EXPECT_GE(clock::now(), timer.expiry());
  timer.expires_after(5ms);
  error_code error = net::error::no_memory;
  timer.wait(error);
  EXPECT_GE(clock::now(), timer.expiry());
  EXPECT_FALSE(error);
}

TYPED_TEST_F(AsioTimer, AWaitEndsNotBeforeTheExpiry) {
  for (const auto delay : {0us, 1us, 900us, 3000us, 7500us}) {
    typename TestFixture::timer_type timer(this->context_, delay);
    std::optional<clock::time_point> ended;
    timer.async_wait(handler([&](const error_code& error) {
      EXPECT_FALSE(error);
      ended = clock::now();
    }));
    this->context_.restart();
    this->context_.run();
    ASSERT_TRUE(ended);
    EXPECT_GE(*ended, timer.expiry());
  }
}

TYPED_TEST_F(AsioTimer, NoHandlerIsCalledWithinTheCallThatStartsItsWait) {
  typename TestFixture::timer_type timer(this->context_);
  outcome ends;
  net::post(this->context_, [&] {
    timer.async_wait(ends.note());
    EXPECT_EQ(ends.all(), 0);
  });
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
}

TYPED_TEST_F(AsioTimer, NoHandlerIsCalledWithinTheCallThatEndsItsWait) {
  auto timer = std::make_optional<typename TestFixture::timer_type>(this->context_, 1h);
  outcome ends;
  net::post(this->context_, [&] {
    timer->async_wait(ends.note());
    timer->cancel();
    timer->async_wait(ends.note());
    timer->cancel_one();
    timer->async_wait(ends.note());
    timer->expires_after(1h);
    timer->async_wait(ends.note());
    timer.reset();
    EXPECT_EQ(ends.all(), 0);
  });
  this->context_.run();
  EXPECT_EQ(ends.aborted, 4);
}

TYPED_TEST_F(AsioTimer, CancelEndsEachWaitOnceAndTellsHowMany) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  outcome ends;
  for (int i = 0; i < 3; ++i) {
    timer.async_wait(ends.note());
  }
  EXPECT_EQ(timer.cancel(), 3U);
  EXPECT_EQ(timer.cancel(), 0U);
  this->context_.run();
  EXPECT_EQ(ends.aborted, 3);
  EXPECT_EQ(ends.all(), 3);
}

TYPED_TEST_F(AsioTimer, CancelLeavesTheExpiry) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  const clock::time_point expiry = timer.expiry();
  outcome ends;
  timer.async_wait(ends.note());
  timer.cancel();
  EXPECT_EQ(timer.expiry(), expiry);
  timer.async_wait(ends.note());
  EXPECT_EQ(timer.expires_after(1ms), 1U);
  timer.async_wait(ends.note());
  this->context_.run();
  EXPECT_EQ(ends.aborted, 2);
  EXPECT_EQ(ends.fired, 1);
}

TYPED_TEST_F(AsioTimer, CancelOneEndsTheOldestWait) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  std::vector<int> ended;
  for (int i = 0; i < 3; ++i) {
    timer.async_wait(handler([&ended, i](const error_code& error) {
      EXPECT_EQ(error, net::error::operation_aborted);
      ended.push_back(i);
    }));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(timer.cancel_one(), 1U);
    this->context_.restart();
    this->context_.poll();
    EXPECT_EQ(static_cast<int>(ended.size()), i + 1);
  }
  EXPECT_EQ(timer.cancel_one(), 0U);
  EXPECT_EQ(ended, (std::vector<int>{0, 1, 2}));
}

TYPED_TEST_F(AsioTimer, ANewExpiryCancelsAndTellsHowMany) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  outcome ends;
  timer.async_wait(ends.note());
  timer.async_wait(ends.note());
  EXPECT_EQ(timer.expires_after(2h), 2U);
  EXPECT_EQ(timer.expires_after(2h), 0U);
  timer.async_wait(ends.note());
  const clock::time_point soon = clock::now() + 2ms;
  EXPECT_EQ(timer.expires_at(soon), 1U);
  EXPECT_EQ(timer.expiry(), soon);
  timer.async_wait(ends.note());
  this->context_.run();
  EXPECT_EQ(ends.aborted, 3);
  EXPECT_EQ(ends.fired, 1);
}

TYPED_TEST_F(AsioTimer, AnExpiryInThePastEndsAWaitAtOnce) {
  typename TestFixture::timer_type timer(this->context_, 1h);
  timer.expires_at(clock::now() - 1h);
  outcome ends;
  timer.async_wait(ends.note());
  timer.expires_after(-1h);
  timer.async_wait(ends.note());
  this->context_.run();
  EXPECT_EQ(ends.aborted + ends.fired, 2);
  EXPECT_GE(ends.fired, 1);
}

TYPED_TEST_F(AsioTimer, AnEndlessDelayCanBeCancelled) {
  typename TestFixture::timer_type timer(this->context_);
  timer.expires_after(clock::duration::max());
  EXPECT_EQ(timer.expiry(), clock::time_point::max());
  outcome ends;
  timer.async_wait(ends.note());
  this->context_.run_for(3ms);
  EXPECT_EQ(ends.all(), 0);
  EXPECT_EQ(timer.cancel(), 1U);
  this->context_.run();
  EXPECT_EQ(ends.aborted, 1);
}

template <class Timer>
outcome cancel_with_errors(net::io_context& context) {
  Timer timer(context, 1h);
  outcome ends;
  for (int i = 0; i < 3; ++i) {
    timer.async_wait(ends.note());
  }
  // Asio has them no longer from 1.33 on.
  if constexpr (requires(Timer & any, error_code & error) { any.cancel_one(error); }) {
    error_code error = net::error::no_memory;
    EXPECT_EQ(timer.cancel_one(error), 1U);
    EXPECT_FALSE(error);
    error = net::error::no_memory;
    EXPECT_EQ(timer.cancel(error), 2U);
    EXPECT_FALSE(error);
    error = net::error::no_memory;
    EXPECT_EQ(timer.expires_at(clock::now(), error), 0U);
    EXPECT_FALSE(error);
  } else {
    timer.cancel();
  }
  context.run();
  return ends;
}

TYPED_TEST_F(AsioTimer, TheFormsWithAnErrorClearIt) {
  EXPECT_EQ(cancel_with_errors<typename TestFixture::timer_type>(this->context_).aborted, 3);
}

TYPED_TEST_F(AsioTimer, AMovedOneTakesItsWaitAlong) {
  typename TestFixture::timer_type first(this->context_, 1h);
  outcome ends;
  first.async_wait(ends.note());
  typename TestFixture::timer_type second(std::move(first));
  EXPECT_GT(second.expiry(), clock::now());
  EXPECT_EQ(first.cancel(), 0U);  // NOLINT(bugprone-use-after-move): it is as a new one
  EXPECT_EQ(first.expiry(), clock::time_point());
  first.async_wait(ends.note());
  this->context_.run_one();
  while (ends.fired == 0) {
    this->context_.run_one();
  }
  EXPECT_EQ(second.cancel(), 1U);
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
  EXPECT_EQ(ends.aborted, 1);
}

TYPED_TEST_F(AsioTimer, MoveAssignmentCancelsTheWaitsOfItsTarget) {
  typename TestFixture::timer_type first(this->context_, 2ms);
  typename TestFixture::timer_type second(this->context_, 1h);
  outcome of_first;
  outcome of_second;
  first.async_wait(of_first.note());
  second.async_wait(of_second.note());
  const clock::time_point expiry = first.expiry();
  second = std::move(first);
  EXPECT_EQ(second.expiry(), expiry);
  this->context_.run();
  EXPECT_EQ(of_first.fired, 1);
  EXPECT_EQ(of_second.aborted, 1);
}

TYPED_TEST_F(AsioTimer, IsMovedToAMoreGeneralExecutor) {
  typename TypeParam::template timer<net::io_context::executor_type> plain(this->context_, 2ms);
  outcome ends;
  plain.async_wait(ends.note());
  typename TestFixture::timer_type any(std::move(plain));
  any.async_wait(ends.note());
  this->context_.run();
  EXPECT_EQ(ends.fired, 2);
}

TYPED_TEST_F(AsioTimer, MayBeDestroyedByItsHandler) {
  auto timer = std::make_shared<typename TestFixture::timer_type>(this->context_, 1ms);
  bool ended = false;
  std::weak_ptr<typename TestFixture::timer_type> seen = timer;
  typename TestFixture::timer_type& kept = *timer;
  kept.async_wait([timer = std::move(timer), &ended](const error_code& error) mutable {
    timer.reset();
    ended = !error;
  });
  this->context_.run();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(seen.expired());
}

TYPED_TEST_F(AsioTimer, RunGoesOnWhileAWaitIsOutstandingAndNoLonger) {
  typename TestFixture::timer_type timer(this->context_, 5ms);
  outcome ends;
  EXPECT_EQ(this->context_.run(), 0U);
  this->context_.restart();
  timer.async_wait(ends.note());
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
  timer.expires_after(1h);
  timer.async_wait(ends.note());
  typename TestFixture::timer_type canceller(this->context_, 2ms);
  canceller.async_wait(handler([&](const error_code&) { timer.cancel(); }));
  this->context_.restart();
  this->context_.run();  // not for an hour
  EXPECT_EQ(ends.aborted, 1);
}

TYPED_TEST_F(AsioTimer, AWaitOutlastsAStopOfTheContext) {
  typename TestFixture::timer_type timer(this->context_, 2ms);
  outcome ends;
  timer.async_wait(ends.note());
  this->context_.stop();
  [[maybe_unused]] const std::size_t ran = this->context_.run();
#if !defined(_WIN32)  // there it still runs the look that was posted before the stop
  EXPECT_EQ(ran, 0U);
#endif
  EXPECT_EQ(ends.all(), 0);
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
}

TYPED_TEST_F(AsioTimer, RunsItsHandlerOnTheAssociatedExecutor) {
  net::io_context other;
  typename TestFixture::timer_type timer(this->context_, 1ms);
  bool ended = false;
  timer.async_wait(net::bind_executor(other, handler([&](const error_code&) { ended = true; })));
  this->context_.run();
  EXPECT_FALSE(ended);
  other.run();
  EXPECT_TRUE(ended);
}

TYPED_TEST_F(AsioTimer, AWaitIsWorkOfTheAssociatedExecutor) {
  net::io_context other;
  typename TestFixture::timer_type timer(this->context_, 5ms);
  bool ended = false;
  timer.async_wait(net::bind_executor(other, handler([&](const error_code&) { ended = true; })));
  std::thread thread([&] { this->context_.run(); });
  other.run();
  EXPECT_TRUE(ended);
  thread.join();
}

TYPED_TEST_F(AsioTimer, OfAStrandRunsItsHandlersThere) {
  const net::strand<net::io_context::executor_type> strand(this->context_.get_executor());
  typename TestFixture::timer_type timer(strand, 1ms);
  bool inside = false;
  timer.async_wait(handler([&](const error_code&) { inside = strand.running_in_this_thread(); }));
  this->context_.run();
  EXPECT_TRUE(inside);
}

TYPED_TEST_F(AsioTimer, GivesBackTheExecutorThatItWasMadeFor) {
  const net::any_io_executor plain = this->context_.get_executor();
  const net::any_io_executor special(net::require(this->context_.get_executor(), net::execution::blocking.never));
  const net::any_io_executor strand = net::make_strand(this->context_);
  ASSERT_NE(plain, special);
  for (const net::any_io_executor& executor : {plain, special, strand}) {
    EXPECT_EQ(typename TestFixture::timer_type(executor).get_executor(), executor);
  }
}

TYPED_TEST_F(AsioTimer, TakesAnotherExecutorByAnAssignment) {
  const net::strand<net::io_context::executor_type> strand(this->context_.get_executor());
  typename TestFixture::timer_type target(this->context_);
  int inside = 0;
  {
    typename TestFixture::timer_type first(strand, 1ms);
    typename TestFixture::timer_type source(std::move(first));
    source.async_wait(handler([&](const error_code&) { inside += strand.running_in_this_thread() ? 1 : 0; }));
    target = std::move(source);
  }
  target.async_wait(handler([&](const error_code&) { inside += strand.running_in_this_thread() ? 1 : 0; }));
  this->context_.run();
  EXPECT_EQ(inside, 2);
  EXPECT_EQ(target.get_executor(), strand);
  target = typename TestFixture::timer_type(this->context_);
  EXPECT_EQ(target.get_executor(), this->context_.get_executor());
}

TYPED_TEST_F(AsioTimer, RunThrowsWhatAHandlerThrows) {
  typename TestFixture::timer_type timer(this->context_, 1ms);
  timer.async_wait(handler([](const error_code&) { throw 42; }));
  EXPECT_THROW(this->context_.run(), int);
  outcome ends;
  timer.async_wait(ends.note());
  this->context_.restart();
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
}

// Here the context goes within the test.
template <class Timers>
class AsioTimerContext : public testing::Test {
 public:
  using run_with = all_timers;
};

TYPED_TEST_F(AsioTimerContext, DestroysHandlersUncalledWhenItGoes) {
  using timer = typename TypeParam::template timer<>;
  auto context = std::make_unique<net::io_context>();
  auto world = std::make_unique<TypeParam>(*context);
  bool called = false;
  std::weak_ptr<timer> seen;
  for (const auto delay : {std::chrono::milliseconds(0), std::chrono::milliseconds(3600'000)}) {
    auto waiting = std::make_shared<timer>(*context, delay);
    seen = waiting;
    timer& kept = *waiting;
    kept.async_wait([waiting = std::move(waiting), &called](const error_code&) { called = true; });
  }
  std::this_thread::sleep_for(3ms);  // time for one to fire
  world.reset();
  context.reset();
  EXPECT_FALSE(called);
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace timing_wheel::test
