/// \file
/// Every kind of `stop`, what they have in common, and the destructor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::Each;

enum class how { take, drop, run, drain_all, drain_nothing };
constexpr std::array every_how{how::take, how::drop, how::run, how::drain_all, how::drain_nothing};

/// Stops in one of the ways. \returns the tags of what it returned or dropped.
std::vector<std::uint64_t> stop_by(manual_timer& timer, how way) {
  std::vector<std::uint64_t> tags;
  std::vector<pending_task> left;
  switch (way) {
    case how::take:
      left = timer.stop();
      break;
    case how::drop:
      timer.for_each_pending([&](const pending_timer& one) { tags.push_back(one.tag); });
      EXPECT_EQ(timer.stop_discard(), tags.size());
      break;
    case how::run:
      timer.stop_run_now();
      break;
    case how::drain_all:
      left = timer.stop_drain(time_point::max());
      break;
    case how::drain_nothing:
      left = timer.stop_drain(timer.now());
      break;
  }
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

// ---- The end ----

TEST(Destructor, NeedsNoMemory) {
  live_captures captures;
  auto timer = std::make_unique<manual_timer>();
  for (int i = 0; i < 1000; ++i) {
    timer->schedule_after(1h, [token = captures.make()] {});
  }
  EXPECT_TRUE(succeeds_with(0, [&] { timer.reset(); }));
  EXPECT_EQ(captures.alive(), 0);
}

// ---- Without what was pending ----

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

TEST(Stop, TakesAllOfEachShardHoweverTheyFillAHoldOfTheLock) {
  for (const how way : every_how) {
    for (const std::size_t count : {1U, 255U, 256U, 257U, 511U, 512U, 513U}) {
      manual_timer timer({.shards = 2});
      ends once(2 * count);
      for (std::size_t worker = 0; worker < 2; ++worker) {
        std::thread([&timer, &once, worker] {
          for (std::size_t i = worker; i < once.size(); i += 2) {
            timer.schedule_after(1s, once.running(i), {.tag = i});
          }
        }).join();
      }
      once.add(stop_by(timer, way));
      EXPECT_THAT(once.counts(), Each(1)) << count << ", way " << static_cast<int>(way);
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

// ---- `stop_drain(until)`: it runs what is due by then, and returns the rest ----

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
