#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "asio/asio_worlds.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using timing_wheel::asio::loop_driver;
using timing_wheel::asio::to_error_code;
using timing_wheel::asio::use_timer;
using timing_wheel::asio::wheel_service;
using timing_wheel::asio::wheel_timer;

// What steady_timer has not: the wheel behind it, and its limits.
template <class Timers>
class WheelTimer : public in_world<Timers> {
 public:
  using run_with = our_timers;

 protected:
  [[nodiscard]] timing_wheel::timer& wheel() { return net::use_service<wheel_service>(this->context_).wheel(); }
};

TYPED_TEST_F(WheelTimer, TakesOneTimerOfTheWheelForAllItsWaits) {
  wheel_timer timer(this->context_, 1h);
  EXPECT_EQ(this->wheel().pending(), 0U);
  outcome ends;
  timer.async_wait(ends.note());
  timer.async_wait(ends.note());
  EXPECT_EQ(this->wheel().pending(), 1U);
  timer.cancel_one();
  EXPECT_EQ(this->wheel().pending(), 1U);
  timer.cancel_one();
  EXPECT_EQ(this->wheel().pending(), 0U);
  this->context_.run();
  EXPECT_EQ(ends.aborted, 2);
}

TYPED_TEST_F(WheelTimer, TakesThreeWordsBesideWhatItSharesWithTheWheel) {
  EXPECT_EQ(sizeof(wheel_timer), 3 * sizeof(void*));
  EXPECT_LE(sizeof(timing_wheel::asio::detail::timer_state), 7 * sizeof(void*));
}

TYPED_TEST_F(WheelTimer, MovedFromKeepsItsExecutor) {
  for (const net::any_io_executor& executor :
       {net::any_io_executor(this->context_.get_executor()), net::any_io_executor(net::make_strand(this->context_))}) {
    wheel_timer from(executor, 1h);
    const wheel_timer to(std::move(from));
    outcome ends;
    from.async_wait(ends.note());  // NOLINT(bugprone-use-after-move): it is as a new one
    this->context_.run();
    this->context_.restart();
    EXPECT_EQ(ends.fired, 1);
    EXPECT_EQ(from.get_executor(), executor);
  }
}

TYPED_TEST_F(WheelTimer, EndsItsWaitsWhenTheWheelIsStopped) {
  wheel_timer timer(this->context_, 1h);
  std::vector<error_code> ends;
  timer.async_wait(handler([&](const error_code& error) { ends.push_back(error); }));
  this->wheel().stop();
  EXPECT_EQ(timer.cancel(), 0U);
  timer.async_wait(handler([&](const error_code& error) { ends.push_back(error); }));
  EXPECT_TRUE(ends.empty());
  this->context_.run();
  EXPECT_EQ(ends, std::vector<error_code>(2, to_error_code(timer_errc::stopped)));
}

TYPED_TEST_F(WheelTimer, GivesTheReasonOfARefusalAsItsError) {
  const error_code stopped = to_error_code(timer_errc::stopped);
  const std::error_code same = timer_errc::stopped;
  EXPECT_EQ(stopped.message(), same.message());
  EXPECT_EQ(std::string(stopped.category().name()), same.category().name());
  EXPECT_EQ(stopped.value(), same.value());
  EXPECT_NE(stopped, to_error_code(timer_errc::forked));
}

TYPED_TEST_F(WheelTimer, TheWheelCannotBeChangedAfterTheFirstWait) {
  timing_wheel::timer another;
  wheel_timer timer(this->context_, 1ms);
  outcome ends;
  timer.async_wait(ends.note());
  EXPECT_THROW(use_timer(this->context_, another), timer_error);
  this->context_.run();
  EXPECT_EQ(ends.fired, 1);
}

TYPED_TEST_F(WheelTimer, RunReturnsWhenAWaitThatWasMovedIsCancelled) {
  wheel_timer timer(this->context_, 1h);
  outcome ends;
  timer.async_wait(ends.note());
  timer.expires_after(2h);
  timer.async_wait(ends.note());
  net::post(this->context_, [&] { timer.cancel(); });
  this->context_.run();
  EXPECT_EQ(ends.aborted, 2);
  EXPECT_EQ(this->wheel().pending(), 0U);
}

// Here the context goes within the test.
template <class Timers>
class WheelTimerContext : public testing::Test {
 public:
  using run_with = our_timers;

 protected:
  std::optional<net::io_context> context_{std::in_place};
  std::optional<Timers> world_{std::in_place, *context_};
};

TYPED_TEST_F(WheelTimerContext, MayGoBeforeItsTimers) {
  wheel_timer waiting(*this->context_, 1h);
  wheel_timer fired(*this->context_, 1ms);
  wheel_timer unused(*this->context_, 1ms);
  bool called = false;
  waiting.async_wait(handler([&](const error_code&) { called = true; }));
  fired.async_wait(handler([&](const error_code&) { called = true; }));
  std::this_thread::sleep_for(3ms);
  this->context_.reset();
  EXPECT_EQ(waiting.cancel(), 0U);
  EXPECT_FALSE(called);
}

TYPED_TEST_F(WheelTimerContext, MayGoBeforeOrAfterItsDriver) {
  wheel_timer timer(*this->context_, 2ms);
  outcome ends;
  timer.async_wait(ends.note());
  this->world_.reset();
  this->context_->run();
  EXPECT_EQ(ends.fired, 1);
  timer.expires_after(1ms);
  timer.async_wait(ends.note());
  this->context_->restart();
  this->context_->run();
  EXPECT_EQ(ends.fired, 2);
}

TYPED_TEST_F(WheelTimerContext, MayGoWithAWaitMovedAndNotRun) {
  wheel_timer timer(*this->context_, 1h);
  auto alive = std::make_shared<int>(0);
  timer.async_wait(handler([alive](const error_code&) { ++*alive; }));
  timer.expires_after(2h);
  timer.async_wait(handler([alive](const error_code&) { ++*alive; }));
  this->context_.reset();
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(*alive, 0);
}

// As those of a steady_timer, which Asio destroys as well.
TYPED_TEST_F(WheelTimerContext, MayGoWithHandlersWhoseDestructorsWait) {
  auto used = std::make_shared<wheel_timer>(*this->context_, 1h);
  auto unused = std::make_shared<wheel_timer>(*this->context_, 1ms);
  auto alive = std::make_shared<int>(0);
  used->async_wait(handler([alive](const error_code&) { ++*alive; }));
  const std::weak_ptr<wheel_timer> last = used;
  for (std::shared_ptr<wheel_timer> timer : {std::move(used), std::move(unused)}) {
    const auto wait = [timer = std::move(timer), alive](const void* /*none*/) {
      for (int i = 0; i < 2; ++i) {
        timer->async_wait(handler([timer, alive](const error_code&) { ++*alive; }));
      }
    };
    net::post(*this->context_, [at_its_end = std::shared_ptr<void>(nullptr, wait)] {});
  }
  this->context_.reset();
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(*alive, 0);
  EXPECT_TRUE(last.expired());
}

template <class Timers>
class WheelOfAContext : public testing::Test {};
TYPED_TEST_SUITE(WheelOfAContext, one_world);

TYPED_TEST(WheelOfAContext, IsMadeByTheFirstWait) {
  net::io_context context;
  timing_wheel::timer given({.tick = 100us});
  {
    const wheel_timer unused(context, 1ms);
    EXPECT_NO_THROW(use_timer(context, given));
  }
  EXPECT_THROW(use_timer(context, given), timer_error);
}

TYPED_TEST(WheelOfAContext, MayBeSharedByContexts) {
  timing_wheel::timer given({.tick = 100us});
  net::io_context first;
  net::io_context second;
  use_timer(first, given);
  use_timer(second, given);
  wheel_timer one(first, 1ms);
  wheel_timer other(second, 1ms);
  outcome ends;
  one.async_wait(ends.note());
  other.async_wait(ends.note());
  EXPECT_EQ(given.stats().scheduled, 2U);
  first.run();
  second.run();
  EXPECT_EQ(ends.fired, 2);
}

TYPED_TEST(WheelOfAContext, MayRunItsCallbacksOnAnExecutor) {
  net::thread_pool pool(1);
  timing_wheel::timer given({.executor = asio_executor(pool)});
  net::io_context context;
  use_timer(context, given);
  wheel_timer timer(context, 1ms);
  outcome ends;
  timer.async_wait(ends.note());
  context.run();
  EXPECT_EQ(ends.fired, 1);
}

TYPED_TEST(WheelOfAContext, MayHaveALimit) {
  timing_wheel::timer given({.max_pending = 1});
  net::io_context context;
  use_timer(context, given);
  wheel_timer first(context, 1h);
  wheel_timer second(context, 1h);
  outcome ends;
  error_code refused;
  first.async_wait(ends.note());
  second.async_wait(handler([&](const error_code& error) { refused = error; }));
  context.poll();
  EXPECT_EQ(refused, to_error_code(timer_errc::too_many_pending));
  first.cancel();
  second.async_wait(ends.note());
  second.cancel();
  context.restart();
  context.run();
  EXPECT_EQ(ends.aborted, 2);
}

TYPED_TEST(WheelOfAContext, EndsTheWaitsWhenItGoesFirst) {
  std::optional<timing_wheel::timer> given(std::in_place);
  net::io_context context;
  use_timer(context, *given);
  wheel_timer timer(context, 1h);
  error_code end;
  timer.async_wait(handler([&](const error_code& error) { end = error; }));
  given.reset();
  context.run();
  EXPECT_EQ(end, to_error_code(timer_errc::stopped));
}

// An executor that calls `before` before it posts something.
struct gated_executor {
  net::io_context* context;
  const std::function<void()>* before;

  [[nodiscard]] net::execution_context& query(net::execution::context_t /*which*/) const noexcept { return *context; }
  [[nodiscard]] static constexpr net::execution::blocking_t query(net::execution::blocking_t /*which*/) noexcept {
    return net::execution::blocking.never;
  }
  template <class Work>
  void execute(Work work) const {
    (*before)();
    net::post(*context, std::move(work));
  }
  [[maybe_unused]] friend bool operator==(const gated_executor&, const gated_executor&) noexcept = default;
};

TYPED_TEST(WheelOfAContext, AnExecutorThatThrowsLosesItsHandlerAndNoOther) {
  net::io_context context;
  const std::function<void()> fail_once = [failed = false]() mutable {
    if (!std::exchange(failed, true)) {
      throw std::runtime_error("no room");
    }
  };
  asio::basic_wheel_timer<gated_executor> timer(gated_executor{&context, &fail_once}, 1h);
  outcome ends;
  const auto alive = std::make_shared<int>(0);
  for (int i = 0; i < 3; ++i) {
    timer.async_wait(handler([&ends, alive](const error_code& error) { ends.add(error); }));
  }
  EXPECT_THROW(timer.cancel(), std::runtime_error);
  EXPECT_EQ(alive.use_count(), 3);
  context.run();
  EXPECT_EQ(ends.aborted, 2);
  EXPECT_EQ(alive.use_count(), 1);
}

template <class Timers>
class LoopDriver : public testing::Test {};
TYPED_TEST_SUITE(LoopDriver, one_world);

TYPED_TEST(LoopDriver, KeepsNoContextRunningWhenNothingIsPending) {
  net::io_context context;
  const loop_driver driver(context);
  EXPECT_EQ(context.run(), 0U);
}

TYPED_TEST(LoopDriver, IsWokenForAnEarlierTimerOfAnotherThread) {
  net::io_context context;
  loop_driver driver(context);
  auto late = driver.timer().schedule_after(1h, [] {});
  std::thread other([&] {
    std::this_thread::sleep_for(3ms);
    driver.timer().schedule_after(1ms, [&] { context.stop(); });
  });
  context.run();
  other.join();
  EXPECT_EQ(late.cancel(), cancel_result::cancelled);
}

// The cancel of the last wait posts a look, which fails; a timer that is scheduled meanwhile needs one.
TYPED_TEST(LoopDriver, IsOnTimeThoughALookOfAnotherThreadCouldNotBePosted) {
  net::io_context context;
  std::function<void()> before = [] {};
  loop_driver driver(net::any_io_executor(gated_executor{&context, &before}));
  use_timer(context, driver.timer());
  wheel_timer late(context, 1h);
  late.async_wait(handler([](const error_code&) {}));
  context.poll();
  std::promise<void> posting;
  std::promise<void> scheduled;
  std::atomic_flag failed;
  before = [&] {
    if (failed.test_and_set()) {
      return;
    }
    posting.set_value();
    scheduled.get_future().wait_for(100ms);  // not for ever: the other thread may wait for this post
    throw std::runtime_error("no room");
  };
  std::thread canceller([&] { late.cancel(); });
  posting.get_future().wait();
  bool ran = false;
  driver.timer().schedule_after(1ms, [&] { ran = true; });
  scheduled.set_value();
  canceller.join();
  context.run_for(1min);
  EXPECT_TRUE(ran);
}

TYPED_TEST(LoopDriver, RunsMoreThanOneTurnOfCallbacks) {
  net::io_context context;
  loop_driver driver(context);
  int ran = 0;
  for (int i = 0; i < 5000; ++i) {
    driver.timer().schedule_after(1ms, [&] { ++ran; });
  }
  context.run();
  EXPECT_EQ(ran, 5000);
}

TYPED_TEST(LoopDriver, RunsOnAStrandOfAContextWithThreads) {
  net::thread_pool pool(2);
  loop_driver driver(net::any_io_executor(net::make_strand(pool)));
  use_timer(pool, driver.timer());
  std::vector<wheel_timer> timers;
  std::atomic<int> ended = 0;
  for (int i = 0; i < 200; ++i) {
    timers.emplace_back(pool, 1ms);
    timers.back().async_wait(handler([&](const error_code&) { ++ended; }));
  }
  pool.join();
  EXPECT_EQ(ended, 200);
}

TYPED_TEST(LoopDriver, MayOutliveItsContext) {
  auto context = std::make_unique<net::io_context>();
  loop_driver driver(*context);
  auto handle = driver.timer().schedule_after(1h, [] {});
  context.reset();
  driver.timer().schedule_after(1ms, [] {});
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TYPED_TEST(LoopDriver, RefusesWrongOptions) {
  net::io_context context;
  EXPECT_THROW(loop_driver(context, {.tick = 0ms}), timer_error);
}

}  // namespace
}  // namespace timing_wheel::test
