/// \file
/// What `stop()` returns and what comes after it, and what a callback throws: on each driver and each engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/meeting.hpp"
#include "support/service_audit.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::uint64_t> tags_of(const std::vector<pending_task>& left) {
  std::vector<std::uint64_t> tags;
  for (const pending_task& one : left) {
    tags.push_back(one.tag);
  }
  return tags;
}

template <class Front>
class EveryFront : public testing::Test {
 protected:
  /// Lets `look` see a service on each engine.
  template <class Look>
  static void on_each_engine(Look look, timer_options options = {.shards = 1}) {
    for (const engine_kind engine : {engine_kind::hierarchical, engine_kind::hashed, engine_kind::heap}) {
      SCOPED_TRACE(testing::Message() << "engine " << static_cast<int>(engine));
      options.engine = engine;
      Front service(options);
      look(service);
    }
  }

  /// Lets `schedule` schedule what is overdue, all of it before any of it runs, and runs it until `done()`.
  template <class Schedule, class Done>
  static void run(Front& service, Schedule schedule, Done done) {
    latch scheduled(1);
    service.schedule_after(-1s, [&] { scheduled.wait(); });
    schedule();
    scheduled.count_down();
    if constexpr (std::same_as<Front, manual_timer>) {
      service.advance_by(2h);
    } else if constexpr (std::same_as<Front, loop_timer>) {
      service.run_due();
    }
    EXPECT_TRUE(eventually(done));
  }
};

using fronts = testing::Types<timer, manual_timer, loop_timer>;
TYPED_TEST_SUITE(EveryFront, fronts);

TYPED_TEST(EveryFront, StopReturnsEachPendingOneOnceAndItCanBeRun) {
  this->on_each_engine([](TypeParam& service) {
    std::vector<int> ran;
    service.schedule_after(1h, [&] { ran.push_back(1); }, {.tag = 1});
    service.schedule_after(2h, [&] { ran.push_back(2); }, {.tag = 2}).cancel();
    service.schedule_every(3h, [&] { ran.push_back(3); }, {.policy = fixed_delay, .tag = 3});
    service.schedule_at(time_point::max(), [&] { ran.push_back(4); }, {.tag = 4});
    std::vector<pending_task> left = service.stop();
    EXPECT_THAT(tags_of(left), UnorderedElementsAre(1, 3, 4));
    EXPECT_EQ(service.pending(), 0U);
    EXPECT_THAT(ran, IsEmpty());
    for (pending_task& one : left) {
      EXPECT_EQ(one.deadline == time_point::max(), one.tag == 4);
      one.callback();
    }
    EXPECT_THAT(ran, UnorderedElementsAre(1, 3, 4));
  });
}

TYPED_TEST(EveryFront, AWindowMakesNoTimerEarlyAndAStopTellsIt) {
  this->on_each_engine([this](TypeParam& service) {
    std::atomic<int> fired{0};
    std::atomic<int> early{0};
    const auto schedule = [&] {
      for (int i = 0; i < 50; ++i) {
        const time_point deadline = service.now() + (i - 40) * 200us;
        const auto check = [&, deadline] {
          early += service.now() < deadline ? 1 : 0;
          ++fired;
        };
        service.schedule_at(deadline, check, {.window = 5ms});
      }
    };
    this->run(service, schedule, [&] {
      if constexpr (std::same_as<TypeParam, loop_timer>) {
        service.run_due();
      }
      return fired == 50;
    });
    EXPECT_EQ(early, 0);
    service.schedule_after(1h, nothing, {.window = 4096ms});
    const std::vector<pending_task> left = service.stop();
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left.front().window, 4096ms);
  });
}

TYPED_TEST(EveryFront, ADrainTakesOutWhatIsDueAtItsEnd) {
  const auto look = [](TypeParam& service) {
    const time_point until = service.now() + 1ms;
    bool ran = false;
    service.schedule_at(until, [&] { ran = true; }, {.tag = 1});
    EXPECT_THAT(tags_of(service.stop_drain(until)), ElementsAre(1));
    EXPECT_FALSE(ran);
    EXPECT_GE(service.now(), until);
  };
  // A poller may run, in the next tick, what a call on another thread is about to take out: so that one is far.
  this->on_each_engine(look, {.tick = std::same_as<TypeParam, timer> ? 1h : 1ms, .shards = 1});
}

TYPED_TEST(EveryFront, StopInACallbackReturnsTheSiblingsThatHaveNotBegunAndTheOthers) {
  this->on_each_engine([this](TypeParam& service) {
    std::vector<std::uint64_t> ran;
    std::vector<std::uint64_t> returned;
    std::atomic<bool> stopped{false};
    const auto schedule = [&] {
      for (std::uint64_t i = 0; i < 10; ++i) {
        const auto stop = [&, i] {
          ran.push_back(i);
          returned = tags_of(service.stop());
          stopped = true;
        };
        service.schedule_after(-1ms, stop, {.tag = i});
      }
      service.schedule_after(1h, nothing, {.tag = 10});
    };
    this->run(service, schedule, [&] { return stopped.load(); });
    EXPECT_THAT(service.stop(), IsEmpty());
    EXPECT_THAT(ran, ElementsAre(0));
    EXPECT_THAT(returned, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    EXPECT_TRUE(conserved(service));
  });
}

TYPED_TEST(EveryFront, StopRunsTheRestOnItsThread) {
  this->on_each_engine([](TypeParam& service) {
    std::vector<std::thread::id> where(10);
    for (std::thread::id& place : where) {
      service.schedule_after(24h, [&] { place = std::this_thread::get_id(); });
    }
    EXPECT_EQ(service.stop_run_now(), 10U);
    EXPECT_THAT(where, testing::Each(std::this_thread::get_id()));
    EXPECT_EQ(service.stop_run_now(), 0U);
    EXPECT_EQ(service.stats().fired, 10U);
  });
}

TYPED_TEST(EveryFront, ACallbackThatThrowsIsReportedAndTheOthersRun) {
  std::vector<std::uint64_t> failed;
  const auto note = [&](const std::exception_ptr& /*failure*/, std::uint64_t tag) { failed.push_back(tag); };
  const auto look = [&, this](TypeParam& service) {
    failed.clear();
    std::atomic<int> runs{0};
    const auto schedule = [&] {
      for (std::uint64_t i = 0; i < 5; ++i) {
        service.schedule_after(-1ms, [&, i] { ++runs, i % 2 == 1 ? throw std::runtime_error("no") : void(); },
                               {.tag = i});
      }
    };
    this->run(service, schedule, [&] { return runs == 5; });
    service.stop();
    EXPECT_THAT(failed, ElementsAre(1, 3));
    EXPECT_EQ(service.stats().failed, 2U);
  };
  this->on_each_engine(look, {.shards = 1, .on_error = note});
}

}  // namespace
}  // namespace timing_wheel::test
