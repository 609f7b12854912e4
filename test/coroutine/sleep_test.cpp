/// \file
/// Coroutines that sleep, in virtual time.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "coroutine/coroutine_types.hpp"
#include "support/allocation.hpp"
#include "support/in_child.hpp"
#include "support/service_audit.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/coroutine.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// How a sleep ended, and where and when.
struct waking {
  int times = 0;
  sleep_result result = sleep_result::failed;
  std::error_code error;
  time_point when;
  std::thread::id where;
};

started sleep_for(timer& by, std::chrono::nanoseconds delay, sleep_options options, waking& end) {
  end.result = co_await by.sleep_for(delay, options, end.error);
  end.when = by.now();
  end.where = std::this_thread::get_id();
  ++end.times;
}

started sleep_or_throw(timer& by, std::chrono::nanoseconds delay, sleep_options options, waking& end) {
  try {
    end.result = co_await by.sleep_for(delay, options);
  } catch (const std::system_error& failure) {
    end.error = failure.code();
  }
  ++end.times;
}

class Sleep : public testing::Test {
 protected:
  manual_timer timer_;
  std::stop_source stop_;
  const std::stop_token token_ = stop_.get_token();
  waking end_;
};

// ---- Time ----

TEST_F(Sleep, EndsWhenTheTimeIsOverAndNotBefore) {
  end_.error = timer_errc::forked;
  const started one = sleep_for(timer_, 30min, {}, end_);
  timer_.advance_by(30min - 1ns);
  EXPECT_EQ(end_.times, 0);
  timer_.advance_by(1ns);
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::elapsed);
  EXPECT_FALSE(end_.error) << "it is cleared";
  EXPECT_EQ(end_.when, at(30min));
  EXPECT_TRUE(one.done());
}

started await(timer& by, sleep_operation nap, waking& end) {
  end.result = co_await nap;
  end.when = by.now();
  ++end.times;
}

TEST_F(Sleep, EndsAtADeadlineOfTheWallClock) {
  const started one = await(timer_, timer_.sleep_until(std::chrono::system_clock::time_point(1h)), end_);
  timer_.advance_by(50min);
  EXPECT_EQ(end_.times, 0);
  timer_.advance_by(11min);
  EXPECT_EQ(end_.times, 1);
}

started sleep_in_turn(timer& by, std::vector<std::chrono::nanoseconds>& log) {
  const sleep_operation nap = by.sleep_for(10s);
  co_await nap;
  log.push_back(by.now() - time_point());
  co_await nap;
  log.push_back(by.now() - time_point());
  co_await by.sleep_until(by.now() + 1s);
  log.push_back(by.now() - time_point());
}

TEST_F(Sleep, MayBeAwaitedAgainAndBeginsEachTimeAnew) {
  std::vector<std::chrono::nanoseconds> log;
  const started one = sleep_in_turn(timer_, log);
  timer_.advance_by(1min);
  EXPECT_EQ(log, (std::vector<std::chrono::nanoseconds>{10s, 20s, 21s}));
  EXPECT_EQ(timer_.stats().fired, 3U);
}

TEST_F(Sleep, IsATimerWithATag) {
  const started one = sleep_for(timer_, 1h, {.tag = 42}, end_);
  std::vector<std::uint64_t> tags;
  timer_.for_each_pending([&](const pending_timer& each) { tags.push_back(each.tag); });
  EXPECT_EQ(tags, std::vector<std::uint64_t>{42});
}

TEST(SleepResult, PrintsItsName) {
  std::ostringstream out;
  out << sleep_result::elapsed << ' ' << sleep_result::stopped << ' ' << sleep_result::failed;
  EXPECT_EQ(out.str(), "elapsed stopped failed");
}

// ---- Memory ----

started sleep_again_and_again(timer& by, std::stop_token stop, executor_ref on, int& turns) {
  for (;;) {
    static_cast<void>(co_await by.sleep_for(1s, {.stop = stop, .on = on}));
    ++turns;
  }
}

TEST_F(Sleep, AllocatesNothingBesideTheFrame) {
  manual_timer timer({.wheel_size = 4});
  auto at_once = [](task&& work) { work(); };
  int turns = 0;
  const started one = sleep_again_and_again(timer, stop_.get_token(), at_once, turns);
  timer.advance_by(100s);
  EXPECT_EQ(count_allocations([&] { timer.advance_by(1000s); }), 0U);
  EXPECT_EQ(turns, 1100);
  const auto begin = [&] { const started another = sleep_again_and_again(timer, stop_.get_token(), {}, turns); };
  begin();
  EXPECT_EQ(count_allocations(begin), 1U) << "the frame";
}

// ---- Stop tokens ----

TEST_F(Sleep, EndsAtTheNextTurnOfTheServiceWhenAStopIsRequested) {
  const started one = sleep_for(timer_, 1h, {.stop = token_}, end_);
  timer_.advance_by(1min);
  stop_.request_stop();
  EXPECT_EQ(end_.times, 0) << "not inside request_stop";
  EXPECT_EQ(timer_.next_event(), at(1min));
  timer_.advance_by(0s);
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::stopped);
  EXPECT_FALSE(end_.error);
  EXPECT_EQ(end_.when, at(1min));
}

TEST_F(Sleep, WithAWindowEndsInItAndStopsAtOnce) {
  waking whole;
  waking stopped;
  std::stop_source source;
  const std::stop_token token = source.get_token();
  const started one = sleep_for(timer_, 1s, {.window = 1s}, whole);
  const started other = sleep_for(timer_, 1s, {.stop = token, .window = 1h}, stopped);
  timer_.advance_by(100ms);
  source.request_stop();
  timer_.advance_by(1ms);
  EXPECT_EQ(stopped.result, sleep_result::stopped);
  timer_.advance_by(2s);
  EXPECT_EQ(whole.result, sleep_result::elapsed);
  EXPECT_GT(whole.when, at(1s));
  EXPECT_LE(whole.when, at(2s));
}

TEST_F(Sleep, DoesNotBeginIfAStopWasRequested) {
  stop_.request_stop();
  const started one = sleep_for(timer_, 1h, {.stop = token_}, end_);
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::stopped);
  EXPECT_EQ(timer_.stats().scheduled, 0U);
}

TEST_F(Sleep, IsNotDisturbedByAStopAfterItsEnd) {
  const started one = sleep_for(timer_, 1s, {.stop = token_}, end_);
  timer_.advance_by(1s);
  stop_.request_stop();
  timer_.advance_by(1h);
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::elapsed);
}

TEST_F(Sleep, OnAnExecutorOfTheServiceIsStoppedWhileItsTaskWaits) {
  kept_tasks kept;
  manual_timer timer({.executor = kept.taking()});
  const started one = sleep_for(timer, 1s, {.stop = token_}, end_);
  timer.advance_by(1s);
  stop_.request_stop();
  timer.advance_by(1s);
  kept.run();
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::stopped);
  kept.run();
  EXPECT_EQ(end_.times, 1);
}

// ---- Refusals ----

TEST_F(Sleep, ThatIsRefusedGoesOnAtOnceWithTheReason) {
  timer_.stop();
  waking told;
  waking thrown;
  const started one = sleep_for(timer_, 1s, {}, told);
  const started other = sleep_or_throw(timer_, 1s, {}, thrown);
  EXPECT_EQ(told.times, 1);
  EXPECT_EQ(told.result, sleep_result::failed);
  EXPECT_EQ(told.error, timer_errc::stopped);
  EXPECT_EQ(thrown.times, 1);
  EXPECT_EQ(thrown.error, timer_errc::stopped);
}

#if !defined(_WIN32)
TEST_F(Sleep, ThatBeganBeforeAForkCanBeDestroyedInTheChild) {
  timer service;
  started one = sleep_for(service, 1h, {}, end_);
  EXPECT_EQ(in_child([&] {
              one.destroy();
              return end_.times == 0 ? 7 : 1;
            }),
            (child_end{true, 7}));
}
#endif

// ---- The end of the service ----

TEST_F(Sleep, WhoseTimerIsDroppedByStopGoesOnWithAnError) {
  waking told;
  waking thrown;
  const started one = sleep_for(timer_, 1h, {}, told);
  const started other = sleep_or_throw(timer_, 1h, {}, thrown);
  {
    const std::vector<pending_task> left = timer_.stop();
    EXPECT_EQ(left.size(), 2U);
    EXPECT_EQ(told.times + thrown.times, 0) << "they are held";
  }
  EXPECT_EQ(told.times, 1);
  EXPECT_EQ(told.result, sleep_result::failed);
  EXPECT_EQ(told.error, timer_errc::stopped);
  EXPECT_EQ(thrown.times, 1);
  EXPECT_EQ(thrown.error, timer_errc::stopped);
}

TEST_F(Sleep, GoesOnWhenTheCallableThatStopReturnedIsCalled) {
  const started one = sleep_for(timer_, 1h, {}, end_);
  std::vector<pending_task> left = timer_.stop();
  ASSERT_EQ(left.size(), 1U);
  task saved = std::move(left.front().callback);
  left.clear();
  EXPECT_EQ(end_.times, 0);
  saved();
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::elapsed);
  saved();
  saved.reset();
  EXPECT_EQ(end_.times, 1) << "never twice";
}

TEST_F(Sleep, GoesOnWithAnErrorWhenTheServiceIsDestroyed) {
  started one;
  {
    std::optional<manual_timer> timer(std::in_place);
    one = [](class timer& by, waking& told) -> started {
      told.result = co_await by.sleep_for(1h, {}, told.error);
      ++told.times;
    }(*timer, end_);
    timer.reset();
  }
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.error, timer_errc::stopped);
}

TEST_F(Sleep, WhoseTimerSomebodyCancelsGoesOnWithAnError) {
  const started one = sleep_for(timer_, 1h, {}, end_);
  timer_.for_each_pending([](const pending_timer& each) { each.handle.cancel(); });
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.error, timer_errc::stopped);
}

TEST_F(Sleep, ThatWasStoppedAndDroppedSaysThatItWasStopped) {
  const started one = sleep_for(timer_, 1h, {.stop = token_}, end_);
  stop_.request_stop();
  timer_.stop();
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::stopped);
}

TEST_F(Sleep, IsNotStoppedByATokenWhileSomebodyHoldsItsCallable) {
  const started one = sleep_for(timer_, 1h, {.stop = token_}, end_);
  std::vector<pending_task> left = timer_.stop();
  stop_.request_stop();
  EXPECT_EQ(end_.times, 0);
  left.clear();
  EXPECT_EQ(end_.result, sleep_result::stopped);
}

// ---- Executors ----

TEST_F(Sleep, GoesOnOnItsExecutorAlsoWhenItIsStoppedOrDropped) {
  kept_tasks kept;
  auto on = kept.taking();
  waking stopped;
  waking dropped;
  const started one = sleep_for(timer_, 1h, {.stop = token_, .on = on}, stopped);
  const started other = sleep_for(timer_, 1h, {.on = on}, dropped);
  stop_.request_stop();
  timer_.advance_by(0s);
  timer_.stop();
  EXPECT_EQ(stopped.times + dropped.times, 0);
  EXPECT_EQ(kept.run(), 2U);
  EXPECT_EQ(stopped.result, sleep_result::stopped);
  EXPECT_EQ(dropped.error, timer_errc::stopped);
}

TEST_F(Sleep, WhoseExecutorThrowsGoesOnWithAnError) {
  auto full = [](task&& work) {
    const task mine = std::move(work);
    throw std::runtime_error("full");
  };
  waking told;
  waking thrown;
  const started one = sleep_for(timer_, 1s, {.on = full}, told);
  const started other = sleep_or_throw(timer_, 1s, {.on = full}, thrown);
  timer_.advance_by(1s);
  EXPECT_EQ(told.times, 1);
  EXPECT_EQ(told.result, sleep_result::failed);
  EXPECT_EQ(told.error, std::errc::resource_unavailable_try_again);
  EXPECT_EQ(thrown.times, 1);
  EXPECT_EQ(thrown.error, std::errc::resource_unavailable_try_again);
}

TEST_F(Sleep, WhoseExecutorDropsItsTaskGoesOnWithAnError) {
  kept_tasks kept;
  auto on = kept.taking();
  const started one = sleep_for(timer_, 1s, {.on = on}, end_);
  timer_.advance_by(1s);
  kept.drop();
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.error, std::errc::resource_unavailable_try_again);
}

// It may be the coroutine's, which the executor has run at once.
TEST_F(Sleep, LetsOnErrorHaveWhatItsExecutorThrows) {
  std::vector<std::string> told;
  timer_options options;
  options.on_error = [&](const std::exception_ptr& error, std::uint64_t /*tag*/) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& what) {
      told.emplace_back(what.what());
    }
  };
  manual_timer timer(options);
  auto throws = [](task&& work) {
    work();
    throw std::runtime_error("lost money");
  };
  const started one = sleep_for(timer, 1s, {.on = throws}, end_);
  timer.advance_by(1s);
  EXPECT_EQ(end_.result, sleep_result::elapsed);
  EXPECT_EQ(told, std::vector<std::string>{"lost money"});
  auto refuses = [](task&& /*work*/) { throw std::runtime_error("full"); };
  const started other = sleep_for(timer, 1s, {.on = refuses}, end_);
  timer.advance_by(1s);
  EXPECT_EQ(end_.error, std::errc::resource_unavailable_try_again);
  EXPECT_EQ(told, (std::vector<std::string>{"lost money", "full"}));
}

struct with_execute {
  int given = 0;
  void execute(task&& work) {
    ++given;
    work();
  }
};

TEST(ExecutorRef, RefersToWhateverTakesATask) {
  manual_timer timer;
  with_execute by_member;
  const executor ours([](task&& work) { work(); });
  const std::function<void(task &&)> function(ours);
  waking ends[3];
  const started first = sleep_for(timer, 1s, {.on = by_member}, ends[0]);
  const started second = sleep_for(timer, 1s, {.on = ours}, ends[1]);
  const started third = sleep_for(timer, 1s, {.on = function}, ends[2]);
  timer.advance_by(1s);
  EXPECT_EQ(by_member.given, 1);
  EXPECT_EQ(ends[0].times + ends[1].times + ends[2].times, 3);
}

TEST(ExecutorRef, OfAnEmptyExecutorRefersToNothing) {
  const executor none;
  const std::function<void(task &&)> no_function;
  EXPECT_FALSE(executor_ref());
  EXPECT_FALSE(executor_ref(none));
  EXPECT_FALSE(executor_ref(no_function));
  const executor some([](task&& /*work*/) {});
  EXPECT_TRUE(executor_ref(some));
}

// ---- Temporaries ----

started sleep_with_a_temporary(timer& by, const std::stop_source& stop, waking& end) {
  end.result = co_await by.sleep_for(1h, {.stop = stop.get_token()}, end.error);
  ++end.times;
}

TEST_F(Sleep, KeepsTheStopTokenThatItWasMadeWith) {
  waking ends[3];
  started sleeps[3];
  std::vector<sleep_operation> naps;
  {
    const std::stop_source stop;
    const std::stop_token token = stop.get_token();
    const sleep_options options{.stop = token};
    naps = {timer_.sleep_for(1h, {.stop = stop.get_token()}), timer_.sleep_until(at(1h), options)};
    sleeps[0] = sleep_with_a_temporary(timer_, stop, ends[0]);
  }
  sleeps[1] = await(timer_, naps[0], ends[1]);
  sleeps[2] = await(timer_, naps[1], ends[2]);
  timer_.advance_by(1h);
  for (const waking& end : ends) {
    EXPECT_EQ(end.times, 1);
    EXPECT_EQ(end.result, sleep_result::elapsed);
  }
}

template <class Token>
concept stop_token_of_options = requires(Token&& token) {
  sleep_options{.stop = std::forward<Token>(token)};
};
template <class Executor>
concept executor_in_braces = requires(timer& by, Executor&& on) {
  by.sleep_for(1s, {.on = std::forward<Executor>(on)});
};

static_assert(stop_token_of_options<std::stop_token&> && stop_token_of_options<const std::stop_token&>);
static_assert(!stop_token_of_options<std::stop_token> && !stop_token_of_options<const std::stop_token>);
static_assert(executor_in_braces<executor&> && executor_in_braces<const executor&> && executor_in_braces<executor_ref>);
static_assert(!executor_in_braces<executor> && !executor_in_braces<const executor>);
static_assert(!executor_in_braces<with_execute>, "or anything else that takes a task");

// ---- Destroying a coroutine that sleeps ----

TEST_F(Sleep, WhoseCoroutineIsDestroyedCancelsItsTimer) {
  started one = sleep_for(timer_, 1h, {.stop = token_}, end_);
  one.destroy();
  EXPECT_EQ(timer_.stats().cancelled, 1U);
  stop_.request_stop();
  timer_.advance_by(2h);
  EXPECT_EQ(end_.times, 0);
}

TEST_F(Sleep, WhoseCoroutineIsDestroyedIsForgottenByTheCallableThatStopReturned) {
  for (const bool call : {false, true}) {
    manual_timer timer;
    waking end;
    started one = sleep_for(timer, 1h, {}, end);
    std::vector<pending_task> left = timer.stop();
    ASSERT_EQ(left.size(), 1U);
    const std::vector<pending_task> moved = std::move(left);
    task saved = std::move(const_cast<pending_task&>(moved.front()).callback);
    one.destroy();
    if (call) {
      saved();
    }
    saved.reset();
    EXPECT_EQ(end.times, 0);
  }
}

TEST_F(Sleep, WhoseCoroutineIsDestroyedIsForgottenByTheTaskOfItsExecutor) {
  for (const bool call : {false, true}) {
    manual_timer timer;
    kept_tasks kept;
    auto on = kept.taking();
    waking end;
    started one = sleep_for(timer, 1s, {.on = on}, end);
    timer.advance_by(1s);
    one.destroy();
    if (call) {
      kept.run();
    }
    kept.drop();
    EXPECT_EQ(end.times, 0);
  }
}

TEST_F(Sleep, WhoseCoroutineIsDestroyedInACallbackWhenDueDoesNotGoOn) {
  started one;
  timer_.schedule_after(1s, [&] { one.destroy(); });
  one = sleep_for(timer_, 1s, {}, end_);
  timer_.advance_by(1s);
  EXPECT_EQ(end_.times, 0);
  EXPECT_TRUE(conserved(timer_));
}

TEST_F(Sleep, WhoseCoroutineIsDestroyedByItsExecutorDoesNotGoOn) {
  started one;
  auto destroys = [&](task&& work) {
    one.destroy();
    work();
  };
  one = sleep_for(timer_, 1s, {.on = destroys}, end_);
  timer_.advance_by(1s);
  EXPECT_EQ(end_.times, 0);
}

// ---- What the coroutine does ----

started sleep_and_throw(timer& by) {
  co_await by.sleep_for(1s);
  throw std::runtime_error("no route");
}

TEST_F(Sleep, LetsWhatTheCoroutineThrowsOutToOnError) {
  int failures = 0;
  manual_timer timer({.on_error = [&](const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) { ++failures; }});
  const started one = sleep_and_throw(timer);
  timer.advance_by(1s);
  EXPECT_EQ(failures, 1);
}

detached sleep_and_stop(timer& by, waking& end) {
  end.result = co_await by.sleep_for(1s);
  by.stop();
  end.result = co_await by.sleep_for(1s, {}, end.error);
  ++end.times;
}

TEST_F(Sleep, MayEndInACoroutineThatStopsTheService) {
  sleep_and_stop(timer_, end_);
  timer_.advance_by(1h);
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.error, timer_errc::stopped);
}

// ---- It ends while it begins ----

TEST_F(Sleep, MayEndWithinTheCallThatSchedulesIt) {
  std::optional<loop_timer> timer;
  timer.emplace(timer_options{}, [&] { timer->stop_run_now(); });
  EXPECT_FALSE(timer->next_event());
  const started one = sleep_for(*timer, 1h, {}, end_);
  EXPECT_EQ(end_.times, 1);
  EXPECT_EQ(end_.result, sleep_result::elapsed);
}

TEST_F(Sleep, MayEndOnItsExecutorWithinTheCallThatSchedulesIt) {
  kept_tasks kept;
  auto on = kept.taking();
  std::optional<loop_timer> timer;
  timer.emplace(timer_options{}, [&] { timer->stop(); });
  EXPECT_FALSE(timer->next_event());
  const started one = sleep_for(*timer, 1h, {.on = on}, end_);
  EXPECT_EQ(end_.times, 0);
  EXPECT_EQ(kept.run(), 1U);
  EXPECT_EQ(end_.error, timer_errc::stopped);
}

}  // namespace
}  // namespace timing_wheel::test
