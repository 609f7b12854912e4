#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using testing::UnorderedElementsAre;

void ignore(const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) {}

std::optional<time_point> next_10ms(time_point previous) { return previous + 10ms; }

enum class how { take, run, drain_all, drain_nothing };
constexpr std::array every_how{how::take, how::run, how::drain_all, how::drain_nothing};

/// Stops in one of the ways. \returns the tags of what it returned.
std::vector<std::uint64_t> stop_by(manual_timer& timer, how way) {
  std::vector<pending_task> left;
  switch (way) {
    case how::take:
      left = timer.stop();
      break;
    case how::run:
      timer.stop(run_now);
      break;
    case how::drain_all:
      left = timer.stop(drain, time_point::max());
      break;
    case how::drain_nothing:
      left = timer.stop(drain, timer.now());
      break;
  }
  std::vector<std::uint64_t> tags;
  for (const pending_task& one : left) {
    tags.push_back(one.tag);
  }
  return tags;
}

/// How often each of some timers ran or was returned; it must be once.
class ends {
 public:
  explicit ends(std::size_t timers) : counts_(timers) {}

  [[nodiscard]] auto running(std::size_t which) {
    return [this, which] { ++counts_[which]; };
  }
  void add(std::size_t which) { ++counts_[which]; }
  void add(const std::vector<std::uint64_t>& tags) {
    for (const std::uint64_t tag : tags) {
      ++counts_.at(tag);
    }
  }
  void add(const std::vector<pending_task>& returned) {
    for (const pending_task& one : returned) {
      ++counts_.at(one.tag);
    }
  }
  [[nodiscard]] const std::vector<int>& counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t size() const noexcept { return counts_.size(); }

 private:
  std::vector<int> counts_;
};

/// One timer of each kind, with their tags from 0 on.
std::vector<timer_handle> schedule_some(manual_timer& timer) {
  return {timer.schedule_after(-1ms, nothing, {.tag = 0}),
          timer.schedule_after(5ms, nothing, {.tag = 1}),
          timer.schedule_after(1h, nothing, {.tag = 2}),
          timer.schedule_at(time_point::max(), nothing, {.tag = 3}),
          timer.schedule_every(7ms, nothing, fixed_delay, {.tag = 4}),
          timer.schedule_every(7ms, nothing, fixed_rate_catch_up, {.tag = 5}),
          timer.schedule_with(next_10ms, nothing, {.tag = 6})};
}

// ---- After every kind of stop ----

TEST(Stop, Scenario18_NothingCanBeScheduledAfterIt) {
  for (const how way : every_how) {
    live_captures captures;
    manual_timer timer;
    stop_by(timer, way);
    const auto refused = [](auto action) { return refusal_of(action).code == timer_errc::stopped; };
    EXPECT_TRUE(refused([&] { timer.schedule_after(1ms, [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_at(at(1ms), [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_every(1ms, [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_with(next_10ms, [token = captures.make()] {}); }));
    EXPECT_TRUE(refused([&] { timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = std::stop_token()}); }));
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.stats().rejected, 5U);
    EXPECT_EQ(timer.stats().scheduled, 0U);
  }
}

TEST(Stop, Scenario18_NothingIsPendingAfterIt) {
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

TEST(Stop, Scenario18_NothingRunsAfterIt) {
  for (const how way : every_how) {
    manual_timer timer;
    schedule_some(timer);
    stop_by(timer, way);
    const std::uint64_t fired = timer.stats().fired;
    EXPECT_EQ(timer.advance_by(2h), 0U);
    EXPECT_EQ(timer.stats().fired, fired);
  }
}

TEST(Stop, Scenario18_AnotherOneOfAnyKindFindsNothing) {
  for (const how first : every_how) {
    manual_timer timer;
    schedule_some(timer);
    stop_by(timer, first);
    const timer_stats counts = timer.stats();
    EXPECT_THAT(timer.stop(), IsEmpty());
    EXPECT_EQ(timer.stop(run_now), 0U);
    EXPECT_THAT(timer.stop(drain, time_point::max()), IsEmpty());
    EXPECT_EQ(timer.stats().fired, counts.fired);
    EXPECT_EQ(timer.stats().returned, counts.returned);
  }
}

TEST(Stop, Scenario18_ConservesTheCounts) {
  for (const how way : every_how) {
    manual_timer timer;
    schedule_some(timer);
    timer.advance_by(20ms);
    const std::vector<std::uint64_t> returned = stop_by(timer, way);
    const timer_stats counts = timer.stats();
    EXPECT_TRUE(conserved(counts));
    EXPECT_EQ(counts.returned, returned.size());
    EXPECT_EQ(counts.pending, 0U);
    EXPECT_EQ(counts.due, 0U);
    EXPECT_EQ(counts.running, 0U);
    EXPECT_EQ(counts.early, 0U);
  }
}

TEST(Stop, Scenario18_OfAnEmptyServiceReturnsNothing) {
  for (const how way : every_how) {
    manual_timer timer;
    EXPECT_FALSE(timer.stopped());
    EXPECT_THAT(stop_by(timer, way), IsEmpty());
    EXPECT_TRUE(timer.stopped());
  }
}

TEST(Stop, Scenario18_DestroysEveryCaptureInTheEnd) {
  for (const how way : every_how) {
    live_captures captures;
    manual_timer timer;
    for (int i = 0; i < 600; ++i) {
      timer.schedule_after(i * 1ms, [token = captures.make()] {});
      timer.schedule_every(i * 1ms + 1ns, [token = captures.make()] {});
    }
    timer.advance_by(10ms);
    stop_by(timer, way);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(captures.destroyed(), 1200);
  }
}

TEST(Stop, Scenario18_TakesTheTimersOfAllShards) {
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

TEST(Stop, Scenario18_TakesAllHoweverTheyFillAHoldOfTheLock) {
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
    i % 3 == 2 ? timer.schedule_every(1h, run, fixed_delay, {.tag = i}) : timer.schedule_after(5ms, run, {.tag = i});
  }
  timer.advance_by(5ms);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(Stop, Scenario18_FromACallbackEachTimerHasOneOutcome) {
  for (const how way : every_how) {
    for (const std::size_t stopper : {0U, 1U, 255U, 256U, 300U, 597U, 598U}) {
      expect_each_once_when_stopped_by(stopper, way);
    }
  }
}

TEST(Stop, Scenario18_FromTheOnlyCallbackFindsNothing) {
  for (const how way : every_how) {
    for (const bool periodic : {false, true}) {
      manual_timer timer;
      std::vector<std::uint64_t> returned{99};
      int runs = 0;
      const auto stop = [&] { ++runs, returned = stop_by(timer, way); };
      periodic ? timer.schedule_every(1ms, stop) : timer.schedule_after(1ms, stop);
      timer.advance_by(1h);
      EXPECT_EQ(runs, 1);
      EXPECT_THAT(returned, IsEmpty());
      EXPECT_TRUE(timer.stopped());
      EXPECT_EQ(timer.pending(), 0U);
    }
  }
}

TEST(Stop, Scenario18_FromARuleEndsItsTimer) {
  for (const how way : every_how) {
    manual_timer timer;
    int asked = 0;
    timer.schedule_with(
        [&](time_point previous) {
          ++asked == 2 ? static_cast<void>(stop_by(timer, way)) : void();
          return previous + 1ms;
        },
        nothing);
    EXPECT_EQ(timer.advance_by(1h), 1U);
    EXPECT_EQ(timer.pending(), 0U);
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(Stop, Scenario18_FromACaptureThatDies) {
  for (const how way : every_how) {
    manual_timer timer;
    ends once(10);
    for (std::size_t i = 1; i < once.size(); ++i) {
      timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
    }
    once.add(0U);
    const timer_handle first =
        timer.schedule_after(1h, [last = on_destruction([&] { once.add(stop_by(timer, way)); })] {});
    first.cancel();
    EXPECT_THAT(once.counts(), Each(1));
    EXPECT_TRUE(timer.stopped());
  }
}

TEST(Stop, Scenario18_FromOnErrorAndFromAVisit) {
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

TEST(Stop, ReturnsPeriodicOnesToo) {
  manual_timer timer;
  schedule_some(timer);
  timer.advance_by(5ms);
  EXPECT_THAT(stop_by(timer, how::take), UnorderedElementsAre(2U, 3U, 4U, 5U, 6U));
}

TEST(Stop, WithoutMemoryTakesNoneAndCanBeCalledAgain) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    manual_timer timer;
    ends once(1000);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_every(1h, once.running(i), fixed_delay, {.tag = i});
    }
    enough = succeeds_with(left, [&] { once.add(timer.stop()); });
    EXPECT_EQ(timer.pending(), enough ? 0U : 1000U);
    EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, nothing); }).code, timer_errc::stopped);
    once.add(timer.stop());
    EXPECT_THAT(once.counts(), Each(1));
  }
  EXPECT_TRUE(enough);
}

TEST(Stop, TheReturnedCallablesMayUseTheStoppedService) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  timer.schedule_after(1ms, [&] { codes.push_back(refusal_of([&] { timer.schedule_after(1ms, nothing); }).code); });
  for (pending_task& left : timer.stop()) {
    left.callback();
  }
  EXPECT_THAT(codes, ElementsAre(std::error_code(timer_errc::stopped)));
}

// ---- stop(run_now) ----

TEST(StopRunNow, RunsEachPendingOneOnceWhateverItsDeadline) {
  manual_timer timer;
  ends once(1000);
  for (std::size_t i = 0; i < once.size(); ++i) {
    i % 2 == 0 ? timer.schedule_after(static_cast<int>(i) * 1h, once.running(i))
               : timer.schedule_every(static_cast<int>(i) * 1h, once.running(i));
  }
  timer.schedule_at(time_point::max(), nothing);
  EXPECT_EQ(timer.stop(run_now), 1001U);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.stats().fired, 1001U);
  EXPECT_EQ(timer.stats().returned, 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(StopRunNow, RunsThemOnThisThreadBeforeItReturns) {
  manual_timer timer;
  std::thread::id ran;
  timer.schedule_after(1h, [&] { ran = std::this_thread::get_id(); });
  timer.stop(run_now);
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(StopRunNow, CountsNoneAsEarlyAndNoLatenessBelowZero) {
  manual_timer timer({}, starting_at(1h));
  timer.schedule_after(1h, nothing);
  timer.schedule_every(1h, nothing);
  timer.stop(run_now);
  EXPECT_EQ(timer.stats().early, 0U);
  EXPECT_EQ(timer.stats().lateness.max(), 0ns);
  EXPECT_EQ(timer.now(), at(1h));
}

TEST(StopRunNow, DoesNotArmPeriodicOnesAgain) {
  for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
    live_captures captures;
    manual_timer timer;
    int runs = 0;
    timer.schedule_every(
        1ms, [&runs, token = captures.make()] { ++runs; }, policy);
    timer.advance_by(10ms);
    EXPECT_EQ(timer.stop(run_now), 1U);
    EXPECT_EQ(runs, 11);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.advance_by(1h), 0U);
  }
}

TEST(StopRunNow, ShowsEachItselfAsRunning) {
  manual_timer timer;
  std::vector<std::uint64_t> tags;
  const auto look = [&](const timer_handle& self) {
    EXPECT_EQ(self.status(), timer_status::running);
    EXPECT_EQ(self.cancel(), cancel_result::running);
    EXPECT_EQ(self.cancel_and_wait(), cancel_result::running);
    EXPECT_EQ(timer.stats().running, 1U);
    EXPECT_TRUE(conserved(timer));
    tags.push_back(self.tag().value_or(99));
  };
  timer.schedule_after(1h, look, {.tag = 1});
  timer.schedule_every(1h, look, fixed_delay, {.tag = 2});
  timer.stop(run_now);
  EXPECT_THAT(tags, UnorderedElementsAre(1U, 2U));
}

TEST(StopRunNow, DoesNotRunWhatACallbackCancels) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  std::size_t cancelled = 0;
  for (int i = 0; i < 1000; ++i) {
    handles.push_back(timer.schedule_after(i * 1h, [&] {
      for (const timer_handle& handle : handles) {
        cancelled += handle.cancel() == cancel_result::cancelled ? 1U : 0U;
      }
    }));
  }
  EXPECT_EQ(timer.stop(run_now), 1U);
  EXPECT_EQ(cancelled, 999U);
  EXPECT_EQ(timer.stats().cancelled, 999U);
  EXPECT_TRUE(conserved(timer));
}

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
  EXPECT_EQ(timer.stop(run_now), 500U);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopRunNow, RefusesWhatItsCallbacksSchedule) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  for (int i = 0; i < 3; ++i) {
    timer.schedule_after(1h, [&] {
      codes.push_back(refusal_of([&] { timer.schedule_after(0ms, nothing); }).code);
      codes.push_back(refusal_of([&] { timer.schedule_every(1ms, nothing); }).code);
    });
  }
  EXPECT_EQ(timer.stop(run_now), 3U);
  EXPECT_THAT(codes, AllOf(SizeIs(6), Each(std::error_code(timer_errc::stopped))));
}

TEST(StopRunNow, GoesOnAfterACallbackThatThrows) {
  std::vector<std::uint64_t> tags;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  int runs = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    timer.schedule_after(1h, [&runs, i] { i % 2 == 0 ? throw std::runtime_error("asked for") : ++runs; }, {.tag = i});
  }
  EXPECT_EQ(timer.stop(run_now), 10U);
  EXPECT_EQ(runs, 5);
  EXPECT_THAT(tags, UnorderedElementsAre(0U, 2U, 4U, 6U, 8U));
  EXPECT_EQ(timer.stats().failed, 5U);
}

/// Each callback of a `stop(run_now)` stops again; each timer must have one outcome.
void expect_each_once_when_stopped_within(std::size_t count, how way) {
  manual_timer timer;
  ends once(count);
  for (std::size_t i = 0; i < count; ++i) {
    timer.schedule_after(1h,
                         [&, i] {
                           once.add(i);
                           once.add(stop_by(timer, way));
                         },
                         {.tag = i});
  }
  timer.stop(run_now);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopRunNow, LetsItsCallbacksStopAgain) {
  for (const how way : every_how) {
    for (const std::size_t count : {1U, 2U, 100U}) {
      expect_each_once_when_stopped_within(count, way);
    }
  }
}

TEST(StopRunNow, FromACallbackRunsTheSiblingsAndNotItselfAgain) {
  manual_timer timer;
  std::vector<int> ran;
  std::size_t ran_there = 0;
  timer.schedule_every(1ms, [&] {
    ran.push_back(0);
    ran_there = timer.stop(run_now);
    ran.push_back(10);
  });
  timer.schedule_after(1ms, [&] { ran.push_back(1); });
  timer.schedule_after(1h, [&] { ran.push_back(2); });
  EXPECT_EQ(timer.advance_by(2h), 1U);
  EXPECT_EQ(ran_there, 2U);
  EXPECT_THAT(ran, UnorderedElementsAre(0, 1, 2, 10));
  EXPECT_EQ(ran.back(), 10);
}

TEST(StopRunNow, FromACallbackOfAnotherServiceRunsAllAndEnds) {
  int runs = 0;
  auto other = std::make_unique<manual_timer>();
  other->schedule_after(1h, [&] { ++runs; });
  manual_timer timer;
  timer.schedule_after(1ms, [&] {
    EXPECT_EQ(other->stop(run_now), 1U);
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
  timer.stop(run_now);
  EXPECT_THAT(alive, ElementsAre(5, 4, 3, 2, 1));
}

TEST(StopRunNow, WithoutMemoryCanBeCalledAgain) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    manual_timer timer;
    ends once(1000);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_every(1h, once.running(i), fixed_delay, {.tag = i});
    }
    enough = succeeds_with(left, [&] { timer.stop(run_now); });
    EXPECT_TRUE(conserved(timer));
    timer.stop(run_now);
    EXPECT_THAT(once.counts(), Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

TEST(StopRunNow, HoldsTheLockForFewTimers) {
  manual_timer timer;
  for (int i = 0; i < 3000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  timer.stop(run_now);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

// ---- stop(drain, until) ----

TEST(StopDrain, RunsWhatIsDueBeforeAndReturnsTheRest) {
  manual_timer timer;
  std::vector<nanoseconds> ran;
  for (const int delay : {1, 50, 99, 101, 500}) {
    timer.schedule_after(delay * 1ms, [&] { ran.push_back(timer.now().time_since_epoch()); },
                         {.tag = static_cast<std::uint64_t>(delay)});
  }
  const std::vector<pending_task> left = timer.stop(drain, at(100ms));
  EXPECT_THAT(ran, ElementsAre(1ms, 50ms, 99ms));
  ASSERT_THAT(left, SizeIs(2));
  EXPECT_EQ(left[0].tag + left[1].tag, 601U);
  EXPECT_EQ(std::min(left[0].deadline, left[1].deadline), at(101ms));
  EXPECT_EQ(timer.now(), at(100ms));
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopDrain, ReturnsCallablesThatCanBeCalled) {
  manual_timer timer;
  int runs = 0;
  timer.schedule_after(1h, [&] { ++runs; });
  timer.schedule_every(1h, [&] { ++runs; });
  for (pending_task& left : timer.stop(drain, at(1ms))) {
    left.callback();
  }
  EXPECT_EQ(runs, 2);
}

TEST(StopDrain, EndsWhenNothingIsLeft) {
  manual_timer timer;
  timer.schedule_after(5ms, nothing);
  EXPECT_THAT(timer.stop(drain, at(1h)), IsEmpty());
  EXPECT_THAT(timer.now(), AllOf(Ge(at(5ms)), Le(at(1h))));
  EXPECT_EQ(timer.stats().fired, 1U);
}

TEST(StopDrain, DoesNotArmPeriodicTimersAgain) {
  for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
    live_captures captures;
    manual_timer timer;
    int runs = 0;
    timer.schedule_every(
        10ms, [&runs, token = captures.make()] { ++runs; }, policy);
    EXPECT_THAT(timer.stop(drain, at(1s)), IsEmpty());
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.stats().rearmed, 0U);
  }
}

TEST(StopDrain, ToTheEndOfTimeRunsAllButWhatNeverFires) {
  manual_timer timer;
  int runs = 0;
  for (const nanoseconds delay : {nanoseconds(1ms), nanoseconds(1h), nanoseconds(876600h)}) {
    timer.schedule_after(delay, [&] { ++runs; });
  }
  timer.schedule_at(time_point::max(), [&] { ++runs; }, {.tag = 9});
  const std::vector<pending_task> left = timer.stop(drain, time_point::max());
  EXPECT_EQ(runs, 3);
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].tag, 9U);
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopDrain, UntilAPastTimeRunsNothingOfTheFutureAndLeavesTheClock) {
  for (const time_point until : {time_point::min(), at(1min), at(1h)}) {
    manual_timer timer({}, starting_at(1h));
    ends once(3);
    timer.schedule_after(1ms, once.running(0), {.tag = 0});
    timer.schedule_after(1h, once.running(1), {.tag = 1});
    timer.schedule_after(-1ms, once.running(2), {.tag = 2});
    const std::vector<pending_task> left = timer.stop(drain, until);
    EXPECT_EQ(once.counts()[0] + once.counts()[1], 0);
    once.add(left);
    EXPECT_THAT(once.counts(), Each(1));
    EXPECT_EQ(timer.now(), at(1h));
    EXPECT_TRUE(timer.stopped());
  }
}

TEST(StopDrain, ATimerDueExactlyThenRunsOrIsReturned) {
  manual_timer timer;
  ends once(1);
  timer.schedule_after(10ms, once.running(0), {.tag = 0});
  once.add(timer.stop(drain, at(10ms)));
  EXPECT_THAT(once.counts(), ElementsAre(1));
}

TEST(StopDrain, RefusesWhatItsCallbacksSchedule) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  timer.schedule_after(1ms, [&] {
    codes.push_back(refusal_of([&] { timer.schedule_after(0ms, nothing); }).code);
    codes.push_back(refusal_of([&] { timer.schedule_every(1ms, nothing); }).code);
  });
  timer.schedule_after(1h, nothing);
  timer.stop(drain, at(10ms));
  EXPECT_THAT(codes, AllOf(SizeIs(2), Each(std::error_code(timer_errc::stopped))));
}

TEST(StopDrain, LetsItsCallbacksCancelAndReschedule) {
  manual_timer timer;
  ends once(4);
  std::vector<timer_handle> handles;
  timer.schedule_after(1ms,
                       [&] {
                         once.add(0U);
                         EXPECT_EQ(handles[0].cancel(), cancel_result::cancelled);
                         once.add(1U);
                         EXPECT_TRUE(handles[1].reschedule(at(1h)));
                         EXPECT_TRUE(handles[2].reschedule(at(5ms)));
                       },
                       {.tag = 0});
  handles = {timer.schedule_after(2ms, once.running(1), {.tag = 1}),
             timer.schedule_after(2ms, once.running(2), {.tag = 2}),
             timer.schedule_after(1h, once.running(3), {.tag = 3})};
  const std::vector<pending_task> left = timer.stop(drain, at(10ms));
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].tag, 2U);
  once.add(left);
  EXPECT_THAT(once.counts(), Each(1));
}

TEST(StopDrain, GoesOnAfterACallbackThatThrows) {
  manual_timer timer({.on_error = ignore});
  int runs = 0;
  timer.schedule_after(1ms, [] { throw std::runtime_error("asked for"); });
  timer.schedule_after(2ms, [&] { ++runs; });
  EXPECT_THAT(timer.stop(drain, at(10ms)), IsEmpty());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().failed, 1U);
}

/// A callback of a drain stops again in another way; each timer must have one outcome.
void expect_each_once_when_stopped_during_a_drain(how way) {
  manual_timer timer;
  ends once(100);
  for (std::size_t i = 0; i < once.size(); ++i) {
    timer.schedule_after(static_cast<int>(i / 5) * 1ms,
                         [&, i] {
                           once.add(i);
                           i % 10 == 3 ? once.add(stop_by(timer, way)) : void();
                         },
                         {.tag = i});
  }
  once.add(timer.stop(drain, at(10ms)));
  EXPECT_THAT(once.counts(), Each(1)) << "way " << static_cast<int>(way);
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(StopDrain, LetsItsCallbacksStopAgain) {
  for (const how way : every_how) {
    expect_each_once_when_stopped_during_a_drain(way);
  }
}

TEST(StopDrain, FromACallbackDoesNotThrow) {
  manual_timer timer;
  ends once(5);
  for (std::size_t i = 1; i < once.size(); ++i) {
    timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
  }
  bool threw = false;
  timer.schedule_after(1ms, [&] {
    once.add(0U);
    try {
      once.add(timer.stop(drain, at(3ms)));
    } catch (const std::exception&) {
      threw = true;
    }
  });
  timer.advance_by(1h);
  EXPECT_FALSE(threw);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_TRUE(timer.stopped());
}

TEST(StopDrain, WithoutMemoryLosesNothing) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 200; ++left) {
    manual_timer timer({.wheel_size = 4});
    ends once(500);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_after(static_cast<int>(i) * 1ms, once.running(i), {.tag = i});
    }
    enough = succeeds_with(left, [&] { once.add(timer.stop(drain, at(250ms))); });
    EXPECT_TRUE(conserved(timer));
    once.add(timer.stop());
    EXPECT_THAT(once.counts(), Each(1)) << left;
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

TEST(Stop, Scenario18_AThousandServicesLeaveNothingBehind) {
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

TEST(Stop, Scenario18_EachTimerHasOneEndWhateverHappens) {
  for (std::uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    expect_one_end_each(seed);
  }
}

}  // namespace
}  // namespace timing_wheel::test
