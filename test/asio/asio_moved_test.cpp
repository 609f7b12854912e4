#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "asio/asio_worlds.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using timing_wheel::asio::to_error_code;
using timing_wheel::asio::use_timer;
using timing_wheel::asio::wheel_timer;

// In virtual time: a timer whose wait was moved to later leaves that of the wheel where it is.
template <class Timers>
class MovedWheelTimer : public testing::Test {
 protected:
  void wait_until(clock::duration when) {
    timer_.expires_at(start_ + when);
    timer_.async_wait(ends_.note());
  }
  void poll() {
    context_.restart();
    context_.poll();
  }
  void advance_to(clock::duration when) {
    wheel_.advance_to(start_ + when);
    poll();
  }

  timing_wheel::manual_timer wheel_{{.tick = 1ms}};
  const clock::time_point start_ = wheel_.now();
  net::io_context context_;
  const bool used_ = (use_timer(context_, wheel_), true);
  outcome ends_;
  wheel_timer timer_{context_};
};
TYPED_TEST_SUITE(MovedWheelTimer, one_world);

TYPED_TEST(MovedWheelTimer, EndsAtTheLaterExpiryAndNotBefore) {
  this->wait_until(10s);
  this->advance_to(4s);
  this->wait_until(14s);
  this->advance_to(14s - 1ns);
  EXPECT_EQ(this->ends_.aborted, 1);
  EXPECT_EQ(this->ends_.fired, 0);
  this->advance_to(14s);
  EXPECT_EQ(this->ends_.fired, 1);
  EXPECT_EQ(this->wheel_.pending(), 0U);
}

TYPED_TEST(MovedWheelTimer, TakesNoOperationOfTheWheelUntilTheOldExpiryAndOneThere) {
  this->wait_until(10s);
  for (int i = 1; i <= 900; ++i) {
    this->advance_to(i * 10ms);
    this->wait_until(10s + i * 10ms);
  }
  EXPECT_EQ(this->wheel_.stats().scheduled, 1U);
  EXPECT_EQ(this->wheel_.stats().cancelled, 0U);
  this->advance_to(18s);
  EXPECT_EQ(this->wheel_.stats().fired, 1U);
  EXPECT_EQ(this->wheel_.stats().rearmed, 1U);
  EXPECT_EQ(this->ends_.fired, 0);
  this->advance_to(19s);
  EXPECT_EQ(this->wheel_.stats().fired, 2U);
  EXPECT_EQ(this->ends_.fired, 1);
  EXPECT_EQ(this->ends_.aborted, 900);
}

TYPED_TEST(MovedWheelTimer, MovedToAnEarlierExpiryEndsThere) {
  this->wait_until(10s);
  this->wait_until(20s);
  this->wait_until(2s);
  EXPECT_EQ(this->wheel_.pending(), 1U);
  this->advance_to(2s);
  EXPECT_EQ(this->ends_.fired, 1);
  EXPECT_EQ(this->wheel_.pending(), 0U);
  this->wait_until(30s);
  this->advance_to(29s);
  EXPECT_EQ(this->ends_.fired, 1);
  this->advance_to(30s);
  EXPECT_EQ(this->ends_.fired, 2);
}

TYPED_TEST(MovedWheelTimer, KeepsNothingOnceItsHandlerWasCalledAndNobodyWaits) {
  this->wait_until(10s);
  this->timer_.expires_at(this->start_ + 20s);
  EXPECT_EQ(this->wheel_.pending(), 1U);
  this->poll();
  EXPECT_EQ(this->ends_.aborted, 1);
  EXPECT_EQ(this->wheel_.pending(), 0U);
}

TYPED_TEST(MovedWheelTimer, KeepsItForAHandlerThatWaitsAgain) {
  this->timer_.expires_at(this->start_ + 10s);
  this->timer_.async_wait(handler([this](const error_code&) { this->timer_.async_wait(this->ends_.note()); }));
  this->timer_.expires_at(this->start_ + 20s);
  this->poll();
  EXPECT_EQ(this->wheel_.pending(), 1U);
  EXPECT_EQ(this->wheel_.stats().scheduled, 1U);
  this->advance_to(20s);
  EXPECT_EQ(this->ends_.fired, 1);
}

TYPED_TEST(MovedWheelTimer, KeepsNothingWhenItsHandlerThrows) {
  this->timer_.expires_at(this->start_ + 10s);
  this->timer_.async_wait(handler([](const error_code&) { throw 42; }));
  this->timer_.expires_at(this->start_ + 20s);
  EXPECT_THROW(this->poll(), int);
  EXPECT_EQ(this->wheel_.pending(), 0U);
}

TYPED_TEST(MovedWheelTimer, KeepsNothingAfterACancelThatFindsNobody) {
  this->wait_until(10s);
  this->timer_.expires_at(this->start_ + 20s);
  EXPECT_EQ(this->timer_.cancel(), 0U);
  EXPECT_EQ(this->wheel_.pending(), 0U);
  this->poll();
  EXPECT_EQ(this->ends_.aborted, 1);
}

TYPED_TEST(MovedWheelTimer, KeepsNothingWhenItGoes) {
  {
    wheel_timer short_lived(this->context_, this->start_ + 10s);
    short_lived.async_wait(this->ends_.note());
    short_lived.expires_at(this->start_ + 20s);
    EXPECT_EQ(this->wheel_.pending(), 1U);
  }
  EXPECT_EQ(this->wheel_.pending(), 0U);
  this->poll();
  EXPECT_EQ(this->ends_.aborted, 1);
}

TYPED_TEST(MovedWheelTimer, KeepsNothingFromTheOldExpiryOn) {
  this->wait_until(10s);
  this->timer_.expires_at(this->start_ + 20s);
  this->wheel_.advance_to(this->start_ + 10s);  // and the handler is not called yet
  EXPECT_EQ(this->wheel_.pending(), 0U);
  this->timer_.async_wait(this->ends_.note());
  this->advance_to(20s - 1ns);
  EXPECT_EQ(this->ends_.fired, 0);
  this->advance_to(20s);
  EXPECT_EQ(this->ends_.fired, 1);
}

TYPED_TEST(MovedWheelTimer, IsToldOfAStopOfTheWheel) {
  this->wait_until(10s);
  std::vector<error_code> told;
  this->timer_.expires_at(this->start_ + 20s);
  this->timer_.async_wait(handler([&](const error_code& error) { told.push_back(error); }));
  this->wheel_.stop_drain(this->start_ + 30s);
  this->poll();
  EXPECT_EQ(told, std::vector<error_code>{to_error_code(timer_errc::stopped)});
}

TYPED_TEST(MovedWheelTimer, GoesOnInAWheelThatIsFull) {
  timing_wheel::manual_timer full({.max_pending = 1});
  net::io_context context;
  use_timer(context, full);
  wheel_timer timer(context, full.now() + 10s);
  outcome ends;
  timer.async_wait(ends.note());
  timer.expires_at(full.now() + 20s);
  timer.async_wait(ends.note());
  full.advance_by(15s);
  EXPECT_EQ(full.pending(), 1U);
  full.advance_by(5s);
  context.poll();
  EXPECT_EQ(ends.fired, 1);
  EXPECT_EQ(ends.aborted, 1);
}

TYPED_TEST(MovedWheelTimer, OfAContextThatGoesLeavesNothing) {
  auto context = std::make_unique<net::io_context>();
  use_timer(*context, this->wheel_);
  wheel_timer kept(*context, this->start_ + 10s);
  const auto alive = std::make_shared<int>(0);
  kept.async_wait(handler([alive](const error_code&) { ++*alive; }));
  kept.expires_at(this->start_ + 20s);
  context.reset();
  EXPECT_EQ(this->wheel_.pending(), 0U);
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(*alive, 0);
}

TYPED_TEST(MovedWheelTimer, OfAnyExecutorDoesTheSame) {
  const net::strand<net::io_context::executor_type> strand(this->context_.get_executor());
  wheel_timer in_strand(strand, this->start_ + 10s);
  for (const auto when : {10s, 20s, 30s}) {
    in_strand.expires_at(this->start_ + when);
    in_strand.async_wait(this->ends_.note());
    in_strand.async_wait(net::bind_executor(net::any_io_executor(this->context_.get_executor()), this->ends_.note()));
  }
  this->poll();
  EXPECT_EQ(this->ends_.aborted, 4);
  EXPECT_EQ(this->wheel_.stats().scheduled, 1U);
  this->advance_to(30s);
  EXPECT_EQ(this->ends_.fired, 2);
}

TYPED_TEST(MovedWheelTimer, EndsInTheWindowOfItsWait) {
  this->timer_.expires_at(this->start_ + 9'990ms);
  this->timer_.async_wait_within(2s, this->ends_.note());  // 9.990 s + 2 s has 10.240 s, a multiple of 1024 ticks
  this->advance_to(10s);
  EXPECT_EQ(this->ends_.fired, 0);
  this->advance_to(9'990ms + 2s);
  EXPECT_EQ(this->ends_.fired, 1);
  EXPECT_EQ(this->wheel_.stats().moves, 0U);
}

TYPED_TEST(MovedWheelTimer, WaitsThatJoinTheFirstEndInItsWindow) {
  this->timer_.expires_at(this->start_ + 9'990ms);
  this->timer_.async_wait(this->ends_.note());
  this->timer_.async_wait_within(2s, this->ends_.note());
  this->advance_to(9'990ms);
  EXPECT_EQ(this->ends_.fired, 2);
  EXPECT_EQ(this->wheel_.pending(), 0U);
}

TYPED_TEST(MovedWheelTimer, AKeptTimerWithALongerWindowIsGivenUp) {
  this->timer_.expires_at(this->start_ + 9'990ms);
  this->timer_.async_wait_within(2s, this->ends_.note());
  this->wait_until(9'995ms);
  this->advance_to(9'995ms);
  EXPECT_EQ(this->ends_.fired, 1);
  EXPECT_EQ(this->ends_.aborted, 1);
}

}  // namespace
}  // namespace timing_wheel::test
