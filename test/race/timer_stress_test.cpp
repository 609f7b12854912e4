// Races, run so often that the rare interleavings come up too. Best under the thread sanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr std::size_t threads = 8;

// ---- Everything at once ----

/// Threads that schedule, cancel and reschedule at random, each timer tagged with its own number.
template <class Service>
class crowd {
 public:
  crowd(Service& service, std::size_t timers_per_thread)
      : service_(service), per_thread_(timers_per_thread), outcomes_(threads * timers_per_thread) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] { work(i); });
    }
  }

  void join() {
    threads_.clear();
    rounds_of_test += threads * per_thread_;
  }
  void add(const std::vector<pending_task>& returned) { outcomes_.add(returned); }
  [[nodiscard]] std::size_t wrong() const { return outcomes_.wrong(threads * per_thread_); }

 private:
  void work(std::size_t thread) {
    dice random(thread);
    std::vector<std::pair<std::uint64_t, timer_handle>> recent;
    for (std::size_t i = 0; i < per_thread_; ++i) {
      recent.emplace_back(schedule(thread * per_thread_ + i, random));
      if (auto& [which, handle] = recent[random.below(recent.size())]; random.one_in(3)) {
        outcomes_.add(which, handle.cancel());
      } else if (random.one_in(2)) {
        handle.reschedule_after(any_delay(random));
      }
      if (recent.size() > 64) {
        recent.erase(recent.begin(), recent.begin() + 32);
      }
    }
  }

  std::pair<std::uint64_t, timer_handle> schedule(std::uint64_t which, dice& random) {
    const nanoseconds window = random.one_in(4) ? random.between(0ms, 10ms) : 0ms;
    return {which, service_.schedule_after(any_delay(random), [this, which] { outcomes_.add(which); },
                                           {.tag = which, .window = window})};
  }

  static nanoseconds any_delay(dice& random) {
    return random.one_in(10) ? random.between(0ms, 10s) : random.between(-1ms, 20ms);
  }

  Service& service_;
  std::size_t per_thread_;
  outcomes outcomes_;
  std::vector<std::jthread> threads_;
};

void expect_one_outcome_each(const timer_options& options) {
  timer service(options);
  crowd<timer> all(service, stress_rounds(200'000));
  {
    const auditor<timer> audit(service);
    all.join();
    std::this_thread::sleep_for(30ms);
    all.add(service.stop());
  }
  EXPECT_EQ(all.wrong(), 0U);
  EXPECT_EQ(service.pending(), 0U);
  EXPECT_TRUE(conserved(service));
}

TEST(TimerStress, EachTimerHasExactlyOneOutcome) { expect_one_outcome_each({}); }

TEST(TimerStress, EachTimerHasExactlyOneOutcomeOnOneShard) {
  expect_one_outcome_each({.tick = 100us, .wheel_size = 4, .shards = 1});
}

TEST(TimerStress, EachTimerHasExactlyOneOutcomeOnManyShards) {
  expect_one_outcome_each({.tick = 1us, .wheel_size = 20, .shards = 16});
}

TEST(TimerStress, EachTimerHasExactlyOneOutcomeWithSeveralPollers) {
  expect_one_outcome_each({.tick = 10us, .wheel_size = 8, .shards = 5, .pollers = 3});
}

TEST(TimerStress, EachTimerHasExactlyOneOutcomeWhenDrivenByHand) {
  manual_timer service({.wheel_size = 8, .shards = 3});
  crowd<manual_timer> all(service, stress_rounds(200'000));
  {
    const auditor<manual_timer> audit(service);
    const std::jthread driver([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        service.advance_by(1ms);
      }
    });
    all.join();
  }
  all.add(service.stop());
  EXPECT_EQ(all.wrong(), 0U);
  EXPECT_TRUE(conserved(service));
}

// ---- The poller falls asleep ----

// The more shards, the longer the poller looks for something to do before it sleeps, and the more there is to hit.
constexpr unsigned many_shards = 64;

/// Spins, since a wait would let the poller fall asleep first. \returns false if `condition()` never came to hold.
template <class Condition>
bool spun_until(Condition condition) {
  const time_point end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
  }
  return true;
}

TEST(TimerStress, AnAddIsNotLostWhileThePollerFallsAsleep) {
  std::atomic<std::uint64_t> runs{0};
  timer service({.tick = 1us, .shards = many_shards});
  service.schedule_after(1h, nothing);
  dice random(17);
  for (std::uint64_t round = 0; round < stress_rounds(20'000); ++round) {
    service.schedule_after(1us, [&] { ++runs; });
    ASSERT_TRUE(spun_until([&] { return runs > round; })) << "in round " << round;
    ++rounds_of_test;
    const time_point next = std::chrono::steady_clock::now() + random.between(0ns, 5us);
    ASSERT_TRUE(spun_until([&] { return std::chrono::steady_clock::now() >= next; }));
  }
}

/// A callable that is slow to move, which happens under the lock of its shard.
struct slow_to_move {
  slow_to_move() = default;
  slow_to_move(slow_to_move&& /*other*/) noexcept { std::this_thread::sleep_for(50us); }
  slow_to_move& operator=(slow_to_move&&) = delete;
  ~slow_to_move() = default;
  void operator()() const {}
};

// The poller's last look at the shards takes long, since one of them is locked most of the time.
TEST(TimerStress, AnAddIsNotLostBetweenThePollersLooks) {
  std::atomic<std::uint64_t> runs{0};
  timer service({.tick = 1us, .shards = 512});
  service.schedule_after(1h, nothing);
  const std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      service.schedule_after(2h, slow_to_move()).cancel();
      std::this_thread::sleep_for(50us);  // so that the poller gets the lock at all
    }
  });
  for (std::uint64_t round = 0; round < stress_rounds(3'000); ++round) {
    service.schedule_after(1us, [&] { ++runs; });
    ASSERT_TRUE(spun_until([&] { return runs > round; })) << "in round " << round;
    ++rounds_of_test;
    std::this_thread::sleep_for(round % 20 * 20us);
  }
}

TEST(TimerStress, AnEarlierDeadlineIsNotLostWhileThePollerFallsAsleep) {
  std::atomic<std::uint64_t> runs{0};
  timer service({.tick = 1us, .shards = many_shards});
  dice random(18);
  for (std::uint64_t round = 0; round < stress_rounds(20'000); ++round) {
    const timer_handle handle = service.schedule_after(1h, [&] { ++runs; });
    const time_point next = std::chrono::steady_clock::now() + random.between(0ns, 5us);
    ASSERT_TRUE(spun_until([&] { return std::chrono::steady_clock::now() >= next; }));
    ASSERT_TRUE(handle.reschedule_after(1us));
    ASSERT_TRUE(spun_until([&] { return runs > round; })) << "in round " << round;
    ++rounds_of_test;
  }
}

// ---- The end of a service ----

TEST(TimerStress, TheDestructorAgainstItsOwnCallbacks) {
  for (std::uint64_t round = 0; round < stress_rounds(500); ++round) {
    std::atomic<bool> dead{false};
    std::atomic<int> late{0};
    {
      timer service({.tick = 1us, .shards = 2});
      for (int i = 0; i < 100; ++i) {
        service.schedule_after(i * 1us, [&] { late += dead; });
      }
      std::this_thread::sleep_for(static_cast<int>(round % 100) * 1us);
    }
    dead = true;
    std::this_thread::yield();
    ASSERT_EQ(late, 0);
    ++rounds_of_test;
  }
}

}  // namespace
}  // namespace timing_wheel::test
