/// \file
/// Every kind of `stop`, what they have in common, and the destructor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_record.hpp"
#include "support/service_stop.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// ---- The end ----

TEST(Destructor, DropsWhatIsPending) {
  live_captures captures;
  int runs = 0;
  {
    manual_timer timer;
    timer.schedule_after(1ms, [&runs, token = captures.make()] { ++runs; });
    timer.schedule_after(-1ms, [&runs, token = captures.make()] { ++runs; });
    timer.schedule_at(time_point::max(), [&runs, token = captures.make()] { ++runs; });
  }
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Destructor, NeedsNoMemory) {
  live_captures captures;
  auto timer = std::make_unique<manual_timer>();
  for (int i = 0; i < 1000; ++i) {
    timer->schedule_after(1h, [token = captures.make()] {});
  }
  EXPECT_TRUE(succeeds_with(0, [&] { timer.reset(); }));
  EXPECT_EQ(captures.alive(), 0);
}

/// One timer of each kind, with their tags from 0 on.
std::vector<timer_handle> schedule_some(manual_timer& timer) {
  return {timer.schedule_after(-1ms, nothing, {.tag = 0}),
          timer.schedule_after(5ms, nothing, {.tag = 1}),
          timer.schedule_after(1h, nothing, {.tag = 2}),
          timer.schedule_at(time_point::max(), nothing, {.tag = 3}),
          timer.schedule_every(7ms, nothing, {.policy = fixed_delay, .tag = 4}),
          timer.schedule_every(7ms, nothing, {.policy = fixed_rate_catch_up, .tag = 5}),
          timer.schedule_with(next_10ms, nothing, {.tag = 6})};
}

// ---- Without what was pending ----

TEST(StopDiscard, DestroysWhatIsPendingAndSaysHowMany) {
  live_captures captures;
  int runs = 0;
  manual_timer timer;
  const timer_handle far = timer.schedule_after(1h, [&runs, token = captures.make()] { ++runs; });
  timer.schedule_after(-1ms, [&runs, token = captures.make()] { ++runs; });
  timer.schedule_every(1ms, [&runs, token = captures.make()] { ++runs; });
  timer.schedule_after(1ms, [token = captures.make()] {}).cancel();
  EXPECT_EQ(timer.stop_discard(), 3U);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(far.status(), timer_status::finished);
  EXPECT_EQ(timer.stats().returned, 3U);
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stop_discard(), 0U);
}

TEST(StopDiscard, InACallbackLeavesOutTheOneThatRuns) {
  live_captures captures;
  manual_timer timer;
  std::size_t dropped = 0;
  timer.schedule_after(1ms, [&, token = captures.make()] {
    dropped = timer.stop_discard();
    EXPECT_EQ(captures.alive(), 1);
  });
  schedule_far(timer, captures, 1'000);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(dropped, 1'000U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(StopDiscard, TakesMemoryForOneHoldOfTheLockAndWithoutItCanBeCalledAgain) {
  live_captures captures;
  manual_timer timer({.shards = 1});
  schedule_far(timer, captures, 10'000);
  EXPECT_FALSE(succeeds_with(0, [&] { timer.stop_discard(); }));
  EXPECT_EQ(captures.alive(), 10'000);
  std::size_t dropped = 0;
  EXPECT_TRUE(succeeds_with(1, [&] { dropped = timer.stop_discard(); }));
  EXPECT_EQ(dropped, 10'000U);
  EXPECT_EQ(captures.alive(), 0);
}

// ---- After every kind of stop ----

TEST(Stop, NothingCanBeScheduledAfterIt) {
  for (const how way : every_how) {
    live_captures captures;
    manual_timer timer;
    stop_by(timer, way);
    const auto refused = [](auto action) { return refusal_of(action).code == timer_errc::stopped; };
    EXPECT_TRUE(refused([&] { timer.schedule_after(1ms, [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_at(at(1ms), [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_at(std::chrono::system_clock::now(), [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_every(1ms, [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_with(next_10ms, [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = std::stop_token()}); }));
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.stats().rejected, 6U);
    EXPECT_EQ(timer.stats().scheduled, 0U);
  }
}

TEST(Stop, NothingIsPendingAfterIt) {
  for (const how way : every_how) {
    manual_timer timer;
    const std::vector<timer_handle> handles = schedule_some(timer);
    stop_by(timer, way);
    EXPECT_TRUE(timer.stopped());
    EXPECT_EQ(timer.pending(), 0U);
    timer.for_each_pending([](const pending_timer&) { FAIL() << "it is pending"; });
    for (const timer_handle& handle : handles) {
      EXPECT_EQ(handle.status(), timer_status::finished);
      EXPECT_EQ(handle.cancel(), cancel_result::finished);
      EXPECT_FALSE(handle.reschedule_after(1ms));
      EXPECT_EQ(handle.tag(), std::nullopt);
    }
  }
}

TEST(Stop, AnotherOneOfAnyKindFindsNothing) {
  for (const how first : every_how) {
    manual_timer timer;
    schedule_some(timer);
    stop_by(timer, first);
    const timer_stats counts = timer.stats();
    EXPECT_THAT(timer.stop(), IsEmpty());
    EXPECT_EQ(timer.stop_run_now(), 0U);
    EXPECT_THAT(timer.stop_drain(time_point::max()), IsEmpty());
    EXPECT_EQ(timer.stats().fired, counts.fired);
    EXPECT_EQ(timer.stats().returned, counts.returned);
  }
}

TEST(Stop, TakesTheTimersOfAllShards) {
  for (const how way : every_how) {
    manual_timer timer({.shards = 3});
    ends once(900);
    for (std::size_t worker = 0; worker < 3; ++worker) {
      std::thread([&timer, &once, worker] {
        for (std::size_t i = worker; i < once.size(); i += 3) {
          timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
        }
      }).join();
    }
    once.add(stop_by(timer, way));
    EXPECT_THAT(once.counts(), Each(1));
  }
}

TEST(Stop, TakesAllHoweverTheyFillAHoldOfTheLock) {
  for (const how way : every_how) {
    for (const std::size_t count : {1U, 255U, 256U, 257U, 511U, 512U, 513U}) {
      manual_timer timer;
      ends once(count);
      for (std::size_t i = 0; i < count; ++i) {
        timer.schedule_after(1s, once.running(i), {.tag = i});
      }
      once.add(stop_by(timer, way));
      EXPECT_THAT(once.counts(), Each(1));
    }
  }
}

/// The `stopper`-th of the timers due at 5 ms stops the service; each must have one outcome.
void expect_each_once_when_stopped_by(std::size_t stopper, how way) {
  SCOPED_TRACE(testing::Message() << "stopper " << stopper << " way " << static_cast<int>(way));
  manual_timer timer({.wheel_size = 20});
  ends once(600);
  for (std::size_t i = 0; i < once.size(); ++i) {
    const auto run = [&, i] {
      once.add(i);
      i == stopper ? once.add(stop_by(timer, way)) : void();
    };
    i % 3 == 2 ? timer.schedule_every(1h, run, {.policy = fixed_delay, .tag = i})
               : timer.schedule_after(5ms, run, {.tag = i});
  }
  timer.advance_by(5ms);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(Stop, FromACallbackEachTimerHasOneOutcome) {
  for (const how way : every_how) {
    for (const std::size_t stopper : {0U, 1U, 255U, 256U, 300U, 597U, 598U}) {
      expect_each_once_when_stopped_by(stopper, way);
    }
  }
}

TEST(Stop, FromOnErrorAndFromAVisit) {
  for (const how way : every_how) {
    manual_timer* service = nullptr;
    manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) { stop_by(*service, way); }});
    service = &timer;
    timer.schedule_after(1ms, [] { throw std::runtime_error("asked for"); });
    timer.schedule_after(1h, nothing);
    timer.for_each_pending([&](const pending_timer&) { timer.advance_by(1ms); });
    EXPECT_TRUE(timer.stopped());
    EXPECT_EQ(timer.pending(), 0U);
    EXPECT_TRUE(conserved(timer));
  }
}

// ---- stop() ----

TEST(Stop, WithoutMemoryTakesNoneAndCanBeCalledAgain) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    manual_timer timer;
    ends once(1000);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_every(1h, once.running(i), {.policy = fixed_delay, .tag = i});
    }
    enough = succeeds_with(left, [&] { once.add(timer.stop()); });
    EXPECT_EQ(timer.pending(), enough ? 0U : 1000U);
    EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, nothing); }).code, timer_errc::stopped);
    once.add(timer.stop());
    EXPECT_THAT(once.counts(), Each(1));
  }
  EXPECT_TRUE(enough);
}

// ---- Without leaks ----

/// Makes a service, uses it, stops it and destroys it.
void live_and_stop(std::uint64_t seed, live_captures& captures) {
  dice random(seed);
  kept_tasks tasks;
  timer_options options{.wheel_size = 8, .shards = 1 + static_cast<unsigned>(random.below(2)), .on_error = ignore};
  if (random.one_in(3)) {
    options.executor = tasks.taking();
  }
  manual_timer timer(options);
  for (std::uint64_t i = random.below(30); i > 0; --i) {
    timer.schedule_after(random.between(-1ms, 100ms), [token = captures.make()] {});
    timer.schedule_every(random.between(1ms, 100ms),
                         [large = std::array<char, 80>(), token = captures.make()] { static_cast<void>(large); });
  }
  timer.advance_by(random.between(0ms, 50ms));
  if (random.one_in(2)) {
    tasks.run();
  }
  if (random.one_in(3)) {
    timer.schedule_after(0ms, [&] { stop_by(timer, every_how[random.below(4)]); });
    timer.advance_by(1ms);
  } else if (!random.one_in(4)) {
    stop_by(timer, every_how[random.below(4)]);
  }
}

TEST(Stop, AThousandServicesLeaveNothingBehind) {
  live_captures captures;
  live_and_stop(0, captures);
  const std::size_t bytes = allocations.live_bytes;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    live_and_stop(seed, captures);
    ASSERT_EQ(captures.alive(), 0) << seed;
    ASSERT_EQ(allocations.live_bytes, bytes) << seed;
  }
}

// ---- At random ----

/// Timers of all kinds, one of which stops the service in some way when it runs; each has one end.
void expect_one_end_each(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  dice random(seed);
  manual_timer timer({.wheel_size = 8, .on_error = ignore});
  ends once(1 + random.below(100));
  std::vector<timer_handle> handles(once.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    handles[i] =
        timer.schedule_after(random.between(0ms, 100ms),
                             [&, i] {
                               once.add(i);
                               random.one_in(20) ? once.add(stop_by(timer, every_how[random.below(4)])) : void();
                               const std::size_t other = random.below(once.size());
                               handles[other].cancel() == cancel_result::cancelled ? once.add(other) : void();
                               random.one_in(9) ? throw std::runtime_error("asked for") : void();
                             },
                             {.tag = i});
  }
  timer.advance_by(random.between(0ms, 60ms));
  once.add(stop_by(timer, every_how[random.below(4)]));
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(Stop, EachTimerHasOneEndWhateverHappens) {
  for (std::uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    expect_one_end_each(seed);
  }
}

// ---- `stop_drain(until)`: it runs what is due by then, and returns the rest ----

TEST(StopDrain, RunsWhatIsDueBeforeAndReturnsTheRest) {
  manual_timer timer;
  std::vector<nanoseconds> ran;
  for (const int delay : {1, 50, 99, 100, 500}) {
    timer.schedule_after(delay * 1ms, [&] { ran.push_back(timer.now().time_since_epoch()); },
                         {.tag = static_cast<std::uint64_t>(delay)});
  }
  const std::vector<pending_task> left = timer.stop_drain(at(100ms));
  EXPECT_THAT(ran, ElementsAre(1ms, 50ms, 99ms));
  ASSERT_THAT(left, SizeIs(2));
  EXPECT_EQ(left[0].tag + left[1].tag, 600U);
  EXPECT_EQ(std::min(left[0].deadline, left[1].deadline), at(100ms));
  EXPECT_EQ(timer.now(), at(100ms));
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopDrain, ToTheEndOfTimeRunsAllButWhatNeverFires) {
  manual_timer timer;
  int runs = 0;
  for (const nanoseconds delay : {nanoseconds(1ms), nanoseconds(1h), nanoseconds(876600h), nanoseconds::max() - 1ms}) {
    timer.schedule_after(delay, [&] { ++runs; });
  }
  timer.schedule_at(time_point::max(), [&] { ++runs; }, {.tag = 9});
  const std::vector<pending_task> left = timer.stop_drain(time_point::max());
  EXPECT_EQ(runs, 4);
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].tag, 9U);
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopDrain, WithoutMemoryLosesNothing) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 200; ++left) {
    manual_timer timer({.wheel_size = 4});
    ends once(500);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
    }
    enough = succeeds_with(left, [&] { once.add(timer.stop_drain(at(250ms))); });
    EXPECT_TRUE(conserved(timer));
    once.add(timer.stop());
    EXPECT_THAT(once.counts(), Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

// ---- `stop_run_now`: it runs the rest ----

TEST(StopRunNow, RunsOnceWhatACallbackReschedules) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  ends once(500);
  for (std::size_t i = 0; i < once.size(); ++i) {
    handles.push_back(timer.schedule_after(static_cast<int>(i) * 1h, [&, i] {
      once.add(i);
      for (std::size_t other = 0; other < handles.size(); other += 7) {
        static_cast<void>(handles[other].reschedule_after(static_cast<int>(other % 3) * 1h));
      }
    }));
  }
  EXPECT_EQ(timer.stop_run_now(), 500U);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopRunNow, FromACallbackOfAnotherServiceRunsAllAndEnds) {
  int runs = 0;
  auto other = std::make_unique<manual_timer>();
  other->schedule_after(1h, [&] { ++runs; });
  manual_timer timer;
  timer.schedule_after(1ms, [&] {
    EXPECT_EQ(other->stop_run_now(), 1U);
    other.reset();
  });
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(other, nullptr);
}

TEST(StopRunNow, DestroysTheCapturesOfEachBeforeTheNextBegins) {
  live_captures captures;
  manual_timer timer;
  std::vector<std::int64_t> alive;
  for (int i = 0; i < 5; ++i) {
    timer.schedule_after(1h, [&, token = captures.make()] { alive.push_back(captures.alive()); });
  }
  timer.stop_run_now();
  EXPECT_THAT(alive, ElementsAre(5, 4, 3, 2, 1));
}

TEST(StopRunNow, WithoutMemoryCanBeCalledAgain) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    manual_timer timer;
    ends once(1000);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_every(1h, once.running(i), {.policy = fixed_delay, .tag = i});
    }
    enough = succeeds_with(left, [&] { timer.stop_run_now(); });
    EXPECT_TRUE(conserved(timer));
    timer.stop_run_now();
    EXPECT_THAT(once.counts(), Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

TEST(StopRunNow, AfterAStopWithoutMemoryLosesNothing) {
  std::size_t runs = 0;
  manual_timer service;
  for (int i = 0; i < 10; ++i) {
    service.schedule_after(1h, [&] { ++runs; });
  }
  EXPECT_FALSE(succeeds_with(0, [&] { service.stop(); }));
  EXPECT_EQ(service.stop_run_now(), runs);
  EXPECT_EQ(runs + service.stop().size(), 10U) << "neither run nor returned";
}

}  // namespace
}  // namespace timing_wheel::test
