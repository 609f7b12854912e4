/// \file
/// Threads race through executors, thousands of times.
/// Best under the thread sanitizer: what a call must wait for is kept in plain memory.

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_drivers.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/asio.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(ExecutorRaces, AnExecutorThatRefusesUnderLoadLosesNothing) {
  constexpr std::uint64_t adders = 4;
  const std::uint64_t timers = stress_rounds(20'000);
  boost::asio::thread_pool pool(pool_threads);
  std::atomic<std::uint64_t> given{0};
  std::atomic<std::uint64_t> thrown{0};
  std::atomic<std::uint64_t> reported{0};
  outcomes each(adders * timers);
  timer service({.tick = 10us,
                 .shards = 2,
                 .executor =
                     [&](task&& work) {
                       switch (given++ % 5) {
                         case 0:
                           ++thrown;
                           throw std::runtime_error("full");
                         case 1:
                           task(std::move(work)).reset();
                           break;
                         default:
                           boost::asio::post(pool, std::move(work));
                       }
                     },
                 .on_error = [&](const std::exception_ptr&, std::uint64_t) { ++reported; }});
  const auditor audit(service);
  const auto add = [&](std::uint64_t adder) {
    dice random(adder);
    std::vector<timer_handle> mine;
    for (std::uint64_t i = 0; i < timers; ++i) {
      const std::uint64_t which = adder * timers + i;
      mine.push_back(
          service.schedule_after(random.between(-10us, 300us), [&each, which] { each.add(which); }, {.tag = which}));
      if (const std::uint64_t other = random.below(i + 1); random.one_in(3)) {
        each.add(adder * timers + other, mine[other].cancel());
      } else {
        mine[other].reschedule_after(random.between(0us, 500us));
      }
      if (i % 64 == 0) {
        std::this_thread::yield();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < adders; ++i) {
      threads.emplace_back(add, i);
    }
  }
  rounds_of_test += adders * timers;
  EXPECT_TRUE(eventually([&] { return service.pending() == 0; }));
  EXPECT_TRUE(service.stop().empty());
  EXPECT_EQ(each.wrong(adders * timers), 0U);
  EXPECT_EQ(thrown, reported);
  EXPECT_GT(service.stats().refused, 0U);
  EXPECT_LE(service.stats().refused, given);
}

TEST(ExecutorRaces, APoolThatIsStoppedWhileTasksAreQueuedLosesNothing) {
  constexpr std::uint64_t timers = 40;
  std::optional<boost::asio::thread_pool> pool;
  std::optional<timer> service;
  std::optional<outcomes> each;
  live_captures captures;
  const auto end_last = [&]() noexcept {
    if (service) {
      each->add(service->stop());
      EXPECT_EQ(each->wrong(timers), 0U);
      EXPECT_EQ(service->stats().running, 0U);
      EXPECT_TRUE(conserved(*service));
      EXPECT_EQ(captures.alive(), 0);
      service.reset();
    }
  };
  race(
      stress_rounds(400),
      [&](std::uint64_t) noexcept {
        end_last();
        pool.emplace(2U);
        each.emplace(timers);
        service.emplace(timer_options{.tick = 1us, .shards = 2, .executor = asio_executor(*pool)});
      },
      [&](std::uint64_t) {
        for (std::uint64_t which = 0; which < timers; ++which) {
          service->schedule_after(1us, [&each, which, token = captures.make()] { each->add(which); }, {.tag = which});
        }
      },
      [&](std::uint64_t round) {
        spin(round * 37 % 3000);
        pool->stop();
      });
  end_last();
}

TEST(ExecutorRaces, AServiceThatDiesWhileThePoolStillHoldsItsTasks) {
  constexpr int timers = 40;
  boost::asio::thread_pool pool(pool_threads);
  live_captures captures;
  trace after;  // plain: no callback may touch it any more
  std::optional<timer> service;
  std::atomic<int> begun{0};
  race(
      stress_rounds(1'000),
      [&](std::uint64_t) noexcept {
        service.emplace(timer_options{.tick = 1us, .shards = 2, .executor = asio_executor(pool)});
        for (int i = 0; i < timers; ++i) {
          service->schedule_after(i % 4 * 1us, [&begun, &after, token = captures.make()] {
            ++begun;
            spin(100);
            EXPECT_EQ(after.destroyed, 0);
          });
        }
      },
      [&](std::uint64_t round) {
        spin(round * 61 % 5000);
        const int before = begun;
        service.reset();
        after.destroyed = 1;
        EXPECT_GE(begun, before);
        EXPECT_EQ(captures.alive(), 0);
        after.destroyed = 0;
      },
      [&](std::uint64_t round) { spin(round * 61 % 5000); });
  pool.join();
}

/// Plain memory, which the next run must see, wherever it runs.
struct run_log {
  std::uint64_t runs = 0;
  std::atomic<bool> inside{false};
  std::atomic<std::uint64_t> overlaps{0};
};

TEST(ExecutorRaces, RunsOfAPeriodicTimerNeverOverlapOnAPool) {
  constexpr std::size_t timers = 6;
  const std::uint64_t wanted = stress_rounds(20'000);
  boost::asio::thread_pool pool(4);
  std::vector<run_log> logs(timers);
  std::atomic<std::uint64_t> runs{0};
  timer service({.tick = 1us, .shards = 2, .executor = asio_executor(pool)});
  const auditor audit(service);
  std::vector<timer_handle> handles;
  for (run_log& log : logs) {
    const std::size_t i = handles.size();
    handles.push_back(service.schedule_every(1us,
                                             [&log, &runs] {
                                               log.overlaps += log.inside.exchange(true, std::memory_order_relaxed);
                                               ++log.runs;
                                               spin(50);
                                               log.inside.store(false, std::memory_order_relaxed);
                                               ++runs;
                                             },
                                             {.policy = static_cast<period_policy>(i % 3)}));
  }
  dice random(21);
  const time_point end = steady_clock::now() + patience;
  while (runs < wanted && steady_clock::now() < end) {
    handles[random.below(timers)].reschedule_after(random.between(-1us, 5us));
  }
  rounds_of_test += runs;
  for (std::size_t i = 0; i < timers; ++i) {
    handles[i].cancel_and_wait();
    EXPECT_EQ(logs[i].overlaps, 0U);
    EXPECT_GT(logs[i].runs, 0U);
  }
  EXPECT_GE(runs, wanted);
  EXPECT_EQ(service.stats().running, 0U);
  EXPECT_EQ(service.stats().fired, runs);
}

TEST(ExecutorRaces, CallbacksOnAPoolThatWaitForEachOtherInOneDirection) {
  boost::asio::thread_pool pool(2);
  timer service({.tick = 1us, .shards = 2, .executor = asio_executor(pool)});
  trace waited_for;
  timer_handle second;
  timer_handle first;
  race(
      stress_rounds(2'000),
      [&](std::uint64_t) noexcept {
        first.cancel_and_wait();
        EXPECT_TRUE(!second || waited_for.is_over());
        waited_for = {};
        second = service.schedule_after(20us, traced(waited_for));
        first = service.schedule_after(20us, [&] {
          second.cancel_and_wait();
          EXPECT_TRUE(waited_for.is_over());
        });
      },
      [&](std::uint64_t) { EXPECT_TRUE(eventually([&] { return first.status() == timer_status::finished; })); },
      [&](std::uint64_t round) { spin(round % 500); });
}

}  // namespace
}  // namespace timing_wheel::test
