/// \file
/// Senders that sleep, in virtual time, on the small library of senders of the example.

#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "execution/receivers.hpp"
#include "senders/senders.hpp"
#include "support/allocation.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/execution.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// How a sleep ended, and when.
struct sleep_end {
  int times = 0;
  signal how = signal::none;
  std::error_code error;
  time_point when;
};

/// For a receiver.
auto note_in(sleep_end& end, const timer& by) {
  return [&end, &by](signal how, std::error_code error) { end = {end.times + 1, how, error, by.now()}; };
}

/// An operation that is started, and notes its end.
template <class Token = senders::never_stop_token>
class started_sleep {
  using noting = decltype(note_in(std::declval<sleep_end&>(), std::declval<const timer&>()));

 public:
  started_sleep(const sleep_sender& sleep, const timer& by, sleep_end& end, Token token = {})
      : operation_(sleep.connect(receiver<noting, Token>{note_in(end, by), std::move(token)})) {
    operation_.start();
  }

 private:
  decltype(std::declval<const sleep_sender&>().connect(std::declval<receiver<noting, Token>>())) operation_;
};

// ---- Time ----

TEST(SleepSender, CompletesWhenTheTimeIsOverAndNotBefore) {
  manual_timer timer;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(30min), timer, end);
  timer.advance_by(30min - 1ns);
  EXPECT_EQ(end.times, 0);
  timer.advance_by(1ns);
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::value);
  EXPECT_EQ(end.when, at(30min));
}

TEST(SleepSender, CompletesAtADeadlineOfEitherClock) {
  manual_timer timer;
  sleep_end steady;
  sleep_end wall;
  const started_sleep one(scheduler(timer).schedule_at(at(1h)), timer, steady);
  const started_sleep other(scheduler(timer).schedule_at(std::chrono::system_clock::time_point(1h)), timer, wall);
  timer.advance_by(50min);
  EXPECT_EQ(steady.times + wall.times, 0);
  timer.advance_by(11min);
  EXPECT_EQ(steady.when, at(1h));
  EXPECT_EQ(wall.times, 1);
}

TEST(SleepSender, WithAWindowCompletesInIt) {
  manual_timer timer;
  sleep_end after;
  sleep_end at_deadline;
  const started_sleep one(scheduler(timer).schedule_after(1s, 1s), timer, after);
  const started_sleep other(scheduler(timer).schedule_at(at(900ms), 200ms), timer, at_deadline);
  timer.advance_by(3s);
  EXPECT_GT(after.when, at(1s));
  EXPECT_LE(after.when, at(2s));
  EXPECT_EQ(at_deadline.when, after.when) << "they share a wake-up";
}

TEST(SleepSender, CompletesInTheOrderOfDeadlinesAndAtOnceWithoutADelay) {
  manual_timer timer;
  const scheduler wheel(timer);
  std::vector<int> order;
  const auto note = [&](int number) {
    return wheel.schedule_after(number * 1s).connect(receiver{[&, number](auto...) { order.push_back(number); }});
  };
  auto third = note(3);
  auto first = note(1);
  auto second = note(2);
  auto now = wheel.schedule().connect(receiver{[&](auto...) { order.push_back(0); }});
  third.start();
  first.start();
  second.start();
  now.start();
  timer.advance_by(0s);
  EXPECT_EQ(order, std::vector<int>{0});
  timer.advance_by(1min);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(SleepSender, CountsItsDelayFromEachStart) {
  manual_timer timer;
  const sleep_sender sleep = scheduler(timer).schedule_after(10s);
  sleep_end ends[2];
  timer.advance_by(5s);
  const started_sleep one(sleep, timer, ends[0]);
  timer.advance_by(5s);
  const started_sleep other(sleep, timer, ends[1]);
  timer.advance_by(1min);
  EXPECT_EQ(ends[0].when, at(15s));
  EXPECT_EQ(ends[1].when, at(20s));
}

TEST(SleepSender, IsATimerWithTheTagOfItsScheduler) {
  manual_timer timer;
  sleep_end end;
  const started_sleep one(scheduler(timer, 42).schedule_after(1h), timer, end);
  std::vector<std::uint64_t> tags;
  timer.for_each_pending([&](const pending_timer& each) { tags.push_back(each.tag); });
  EXPECT_EQ(tags, std::vector<std::uint64_t>{42});
  timer.stop();
}

TEST(SleepSender, TellsItsScheduler) {
  manual_timer timer;
  manual_timer other;
  const scheduler wheel(timer, 1);
  const auto told =
      senders::library::get_completion_scheduler_t<senders::set_value_t>()(wheel.schedule_after(1s).get_env());
  EXPECT_EQ(told, wheel);
  EXPECT_NE(told, scheduler(timer, 2));
  EXPECT_NE(told, scheduler(other, 1));
  timer.advance_by(7s);
  EXPECT_EQ(told.now(), at(7s));
}

// ---- Memory ----

TEST(SleepSender, AllocatesNothing) {
  manual_timer timer;
  const scheduler wheel(timer);
  std::stop_source stop;
  const auto sleep_and_stop = [&] {
    for (int i = 0; i < 100; ++i) {
      sleep_end ends[3];
      senders::inplace_stop_source inplace;
      const started_sleep one(wheel.schedule_after(1s), timer, ends[0], stop.get_token());
      const started_sleep other(wheel.schedule_after(1h), timer, ends[1], token_of(inplace));
      const started_sleep late(wheel.schedule_at(timer.now() + 2s), timer, ends[2]);
      inplace.request_stop();
      timer.advance_by(5s);
      EXPECT_TRUE(ends[0].how == signal::value && ends[1].how == signal::stopped && ends[2].how == signal::value);
    }
  };
  sleep_and_stop();
  EXPECT_EQ(count_allocations(sleep_and_stop), 0U);
}

TEST(SleepSender, GivesNoSpaceToATokenThatCannotBeStopped) {
  using without = receiver<void (*)(signal, std::error_code)>;
  using with = receiver<void (*)(signal, std::error_code), senders::inplace_stop_token>;
  using operation_without = decltype(std::declval<sleep_sender>().connect(std::declval<without>()));
  using operation_with = decltype(std::declval<sleep_sender>().connect(std::declval<with>()));
  EXPECT_LE(sizeof(operation_without) + sizeof(std::optional<void*>), sizeof(operation_with));
}

// ---- Stop tokens ----

template <class Source>
class StoppedSleepSender : public testing::Test {};
using sources = testing::Types<std::stop_source, senders::inplace_stop_source>;
TYPED_TEST_SUITE(StoppedSleepSender, sources);

TYPED_TEST(StoppedSleepSender, CompletesInsideTheRequestAndGivesItsTimerBack) {
  manual_timer timer;
  TypeParam stop;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, end, token_of(stop));
  timer.advance_by(1min);
  EXPECT_EQ(end.times, 0);
  stop.request_stop();
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::stopped);
  EXPECT_EQ(timer.stats().pending, 0U);
  EXPECT_EQ(timer.next_event(), std::nullopt);
}

TYPED_TEST(StoppedSleepSender, DoesNotBeginIfAStopWasRequested) {
  manual_timer timer;
  TypeParam stop;
  stop.request_stop();
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, end, token_of(stop));
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::stopped);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

TYPED_TEST(StoppedSleepSender, IsNotDisturbedByAStopAfterItsEnd) {
  manual_timer timer;
  TypeParam stop;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1s), timer, end, token_of(stop));
  timer.advance_by(1s);
  stop.request_stop();
  timer.advance_by(1h);
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::value);
}

TYPED_TEST(StoppedSleepSender, CompletesInTheRequestWhileItsTaskWaitsInAnExecutor) {
  kept_tasks kept;
  manual_timer timer({.executor = kept.taking()});
  TypeParam stop;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1s), timer, end, token_of(stop));
  timer.advance_by(1s);
  stop.request_stop();
  EXPECT_EQ(end.how, signal::stopped);
  kept.run();
  EXPECT_EQ(end.times, 1);
}

TYPED_TEST(StoppedSleepSender, IsNotStoppedWhileSomebodyHoldsItsCallable) {
  manual_timer timer;
  TypeParam stop;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, end, token_of(stop));
  std::vector<pending_task> left = timer.stop();
  stop.request_stop();
  EXPECT_EQ(end.times, 0);
  left.clear();
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::stopped);
}

/// Starts an operation that is destroyed as it ends. \returns how it ended, or none.
template <class Token>
void start_self_destroying(const sleep_sender& sleep, Token token, signal& how) {
  const auto note = [&how](signal as, std::error_code /*error*/) { how = as; };
  self_destroying<Token, decltype(note)>::start(sleep, std::move(token), note);
}

TYPED_TEST(StoppedSleepSender, MayBeDestroyedByItsReceiverInEachWay) {
  std::optional<manual_timer> timer(std::in_place, timer_options{.max_pending = 3});
  const scheduler wheel(*timer);
  TypeParam stop;
  signal fired{};
  signal stopped{};
  signal dropped{};
  signal refused{};
  signal stopped_before{};
  start_self_destroying(wheel.schedule_after(1s), token_of(stop), fired);
  timer->advance_by(1s);
  start_self_destroying(wheel.schedule_after(1s), token_of(stop), stopped);
  start_self_destroying(wheel.schedule_after(1s), senders::never_stop_token(), dropped);
  const scoped_timer third = timer->schedule_after(1h, nothing);
  start_self_destroying(wheel.schedule_after(1s), token_of(stop), refused);
  stop.request_stop();
  start_self_destroying(wheel.schedule_after(1s), token_of(stop), stopped_before);
  timer.reset();
  EXPECT_EQ(fired, signal::value);
  EXPECT_EQ(stopped, signal::stopped);
  EXPECT_EQ(dropped, signal::stopped);
  EXPECT_EQ(refused, signal::error);
  EXPECT_EQ(stopped_before, signal::stopped);
}

// ---- The end of the service, and refusals ----

TEST(SleepSender, IsStoppedByTheServiceBeforeOrAfterItsStart) {
  manual_timer timer;
  sleep_end before;
  sleep_end after;
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, before);
  timer.stop();
  const started_sleep other(scheduler(timer).schedule_after(1h), timer, after);
  EXPECT_EQ(before.how, signal::stopped);
  EXPECT_EQ(after.how, signal::stopped);
  EXPECT_EQ(before.times + after.times, 2);
}

TEST(SleepSender, HasElapsedForWhoRunsWhatStopReturned) {
  manual_timer timer;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, end);
  std::vector<pending_task> left = timer.stop();
  ASSERT_EQ(left.size(), 1U);
  left.front().callback();
  left.clear();
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::value);
}

TEST(SleepSender, IsStoppedWhenSomebodyCancelsItsTimer) {
  manual_timer timer;
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, end);
  timer.for_each_pending([](const pending_timer& each) { each.handle.cancel(); });
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::stopped);
}

TEST(SleepSender, ThatIsRefusedTellsTheReasonAtOnce) {
  manual_timer timer({.max_pending = 1});
  sleep_end ends[2];
  const started_sleep one(scheduler(timer).schedule_after(1h), timer, ends[0]);
  const started_sleep other(scheduler(timer).schedule_after(1h), timer, ends[1]);
  EXPECT_EQ(ends[0].times, 0);
  EXPECT_EQ(ends[1].times, 1);
  EXPECT_EQ(ends[1].how, signal::error);
  EXPECT_EQ(ends[1].error, timer_errc::too_many_pending);
  timer.stop();
}

// ---- Where it completes ----

TEST(SleepSender, CompletesOnTheExecutorOfTheService) {
  kept_tasks kept;
  manual_timer timer({.executor = kept.taking()});
  sleep_end end;
  const started_sleep one(scheduler(timer).schedule_after(1s), timer, end);
  timer.advance_by(1s);
  EXPECT_EQ(end.times, 0);
  EXPECT_EQ(kept.run(), 1U);
  EXPECT_EQ(end.how, signal::value);
}

TEST(SleepSender, MayCompleteWithinItsStart) {
  std::optional<loop_timer> timer;
  timer.emplace(timer_options{}, [&] { timer->stop_run_now(); });
  EXPECT_FALSE(timer->next_event());
  sleep_end end;
  const started_sleep one(scheduler(*timer).schedule_after(1h), *timer, end);
  EXPECT_EQ(end.times, 1);
  EXPECT_EQ(end.how, signal::value);
}

TEST(SleepSender, MayStopAndDestroyTheServiceInItsCompletion) {
  std::optional<manual_timer> timer(std::in_place);
  signal how{};
  const auto destroy = [&](signal as, std::error_code /*error*/) {
    how = as;
    timer.reset();
  };
  self_destroying<senders::never_stop_token, decltype(destroy)>::start(scheduler(*timer).schedule_after(1s), {},
                                                                       destroy);
  timer->advance_by(1s);
  EXPECT_EQ(how, signal::value);
  EXPECT_FALSE(timer);
}

// ---- With algorithms ----

TEST(SleepSender, ThatLosesAgainstAnotherLeavesNoTimer) {
  timer service;
  const scheduler wheel(service);
  const auto after = [&](auto delay, int value) {
    return senders::then(wheel.schedule_after(delay), [=] { return value; });
  };
  const auto first =
      senders::when_any<int>(after(1h, 1), after(1ms, 2), senders::when_any<int>(after(1h, 3), after(2h, 4)));
  EXPECT_EQ(senders::sync_wait<int>(first), 2);
  EXPECT_EQ(service.stats().pending, 0U);
  EXPECT_EQ(service.stats().cancelled, 3U);
}

// ---- What does not compile ----

struct no_error : receiver<void (*)(signal, std::error_code)> {
  void set_error(std::error_code error) && noexcept = delete;
};
struct throwing_move : receiver<void (*)(signal, std::error_code)> {
  throwing_move(throwing_move&& /*other*/) noexcept(false) {}
};
struct no_names {};
template <class R>
concept can_be_connected = requires(const sleep_sender& sleep, R to) {
  sleep.connect(std::move(to));
};
template <class Time>
concept can_be_a_deadline = requires(const scheduler& on, Time when) {
  on.schedule_at(when);
};
template <class R>
concept connected_without_throwing = noexcept(std::declval<const sleep_sender&>().connect(std::declval<R>()));

static_assert(execution::timed_scheduler<scheduler> && !execution::timed_scheduler<manual_timer>);
static_assert(execution::sender_library<senders::library> && !execution::sender_library<no_names>);
static_assert(can_be_connected<receiver<void (*)(signal, std::error_code)>>);
static_assert(!can_be_connected<no_error> && !can_be_connected<int>);
static_assert(can_be_a_deadline<time_point> && can_be_a_deadline<std::chrono::system_clock::time_point>);
static_assert(!can_be_a_deadline<std::chrono::file_clock::time_point> && !can_be_a_deadline<std::chrono::seconds>);
static_assert(!std::constructible_from<scheduler, manual_timer>, "a temporary");
static_assert(!std::convertible_to<timer&, scheduler>);
static_assert(connected_without_throwing<receiver<void (*)(signal, std::error_code)>>);
static_assert(!connected_without_throwing<throwing_move>);
static_assert(std::same_as<sleep_sender::completion_signatures,
                           senders::completion_signatures<senders::set_value_t(), senders::set_error_t(std::error_code),
                                                          senders::set_stopped_t()>>);

}  // namespace
}  // namespace timing_wheel::test
