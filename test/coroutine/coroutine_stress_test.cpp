/// \file
/// Threads race for a coroutine that sleeps, with each way to run callbacks, thousands of times. Best under the thread
/// sanitizer: a coroutine's frame is plain memory, and goes at its end.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "coroutine/coroutine_types.hpp"
#include "coroutines/task.hpp"
#include "support/driven_service.hpp"
#include "support/service_audit.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/coroutine.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// Sleeps once, and writes down that it went on. What it writes in between is in its frame, in plain memory.
detached sleep_once(timer& by, std::chrono::nanoseconds delay, sleep_options options, outcomes& ends,
                    std::uint64_t round, std::atomic<std::uint64_t>& ended) {
  std::uint64_t mine = round;
  std::error_code error;
  const sleep_result result = co_await by.sleep_for(delay, options, error);
  EXPECT_EQ(result == sleep_result::failed, static_cast<bool>(error));
  mine += static_cast<std::uint64_t>(result);
  ends.add(mine - static_cast<std::uint64_t>(result));
  ended.fetch_add(1, std::memory_order_relaxed);
}

/// One coroutine a round that sleeps until `soon`.
template <class Driver>
class SleepRace : public sleeping_rounds<Driver> {
 protected:
  void begin(std::uint64_t round, std::chrono::nanoseconds delay, executor_ref on = {}) {
    const std::stop_token token = this->stop_.get_token();
    sleep_once(this->service(), delay, {.stop = token, .on = on}, this->ends_, round, this->ended_);
  }

  void expire_against_a_stop_request(executor_ref on) {
    race(
        this->rounds(),
        [&](std::uint64_t round) noexcept {
          this->renew_stop();
          begin(round, Driver::soon, on);
        },
        [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { this->stop().request_stop(); });
    this->expect_one_end_each(this->rounds());
  }
};
TYPED_TEST_SUITE(SleepRace, drivers);

TYPED_TEST(SleepRace, ExpiryAgainstAStopRequest) { this->expire_against_a_stop_request({}); }

TYPED_TEST(SleepRace, ExpiryAgainstAStopRequestOnAnExecutor) { this->expire_against_a_stop_request(this->pool()); }

TYPED_TEST(SleepRace, TheBeginningAgainstExpiryAgainstAStopRequest) {
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->renew_stop(); },
      [&](std::uint64_t round) { this->begin(round, 0ns, round % 2 == 0 ? executor_ref() : this->pool()); },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { this->stop().request_stop(); });
  this->expect_one_end_each(this->rounds());
}

TYPED_TEST(SleepRace, ExpiryAgainstAStopRequestAgainstTheEndOfTheService) {
  const std::uint64_t rounds = stress_rounds(300);
  race(
      rounds,
      [&](std::uint64_t round) noexcept {
        this->restart();
        this->renew_stop();
        this->begin(round, TypeParam::soon, round % 2 == 0 ? executor_ref() : this->pool());
      },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { this->stop().request_stop(); },
      [&](std::uint64_t) { this->service().stop(); });
  this->restart();
  this->expect_one_end_each(rounds);
}

TYPED_TEST(SleepRace, TheBeginningAgainstTheEndOfTheService) {
  const std::uint64_t rounds = stress_rounds(300);
  race(
      rounds,
      [&](std::uint64_t) noexcept {
        this->restart();
        this->renew_stop();
      },
      [&](std::uint64_t round) { this->begin(round, 1h); }, [&](std::uint64_t) { this->service().stop(); });
  this->restart();
  this->expect_one_end_each(rounds);
}

started sleep_for_ever(timer& by, std::stop_token stop, std::atomic<int>& went_on) {
  static_cast<void>(co_await by.sleep_for(24h, {.stop = stop}));
  ++went_on;
}

TYPED_TEST(SleepRace, DestructionOfTheCoroutineAgainstStopWhichReturnsItsCallable) {
  std::atomic<int> went_on{0};
  started one;
  std::vector<pending_task> left;
  race(
      stress_rounds(300),
      [&](std::uint64_t) noexcept {
        left.clear();
        this->restart();
        one = sleep_for_ever(this->service(), {}, went_on);
      },
      [&](std::uint64_t) { one.destroy(); }, [&](std::uint64_t) { left = this->service().stop(); });
  left.clear();
  EXPECT_EQ(went_on, 0);
}

/// The service, and what destroys coroutines in its callbacks: one thread after the other, so that is allowed.
using serial_drivers = testing::Types<by_hand, on_its_thread>;
template <class Driver>
class SerialSleepRace : public SleepRace<Driver> {};
TYPED_TEST_SUITE(SerialSleepRace, serial_drivers);

TYPED_TEST(SerialSleepRace, DestructionInACallbackAgainstAStopRequest) {
  std::atomic<int> went_on{0};
  std::vector<started> sleeping(this->rounds());
  std::atomic<std::uint64_t> destroyed{0};
  race(
      this->rounds(),
      [&](std::uint64_t round) noexcept {
        this->renew_stop();
        sleeping[round] = sleep_for_ever(this->service(), this->stop().get_token(), went_on);
        this->service().schedule_after(TypeParam::soon, [&, round] {
          sleeping[round].destroy();
          ++destroyed;
        });
      },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { this->stop().request_stop(); });
  EXPECT_TRUE(eventually([&] {
    this->go_on();
    return destroyed == this->rounds();
  }));
  EXPECT_EQ(this->service().stop().size(), 0U);
  EXPECT_TRUE(conserved(this->service()));
}

example::task<int> nap(timer& by, std::chrono::nanoseconds delay, std::stop_token stop) {
  std::error_code error;
  co_return co_await by.sleep_for(delay, {.stop = stop}, error) == sleep_result::elapsed ? 1 : 0;
}

detached limit_once(timer& by, std::chrono::nanoseconds time, std::stop_token stop, outcomes& ends, std::uint64_t round,
                    std::atomic<std::uint64_t>& ended) {
  std::error_code error;
  const auto make = [&](std::stop_token mine) { return nap(by, time, std::move(mine)); };
  const std::optional<int> answer = co_await with_timeout(by, time, make, {.stop = stop}, error);
  EXPECT_TRUE(!error || !answer);
  ends.add(round);
  ended.fetch_add(1, std::memory_order_relaxed);
}

TYPED_TEST(SleepRace, TheEndOfWhatIsAwaitedAgainstItsLimitAgainstAStopRequest) {
  outcomes ends(this->rounds());
  std::atomic<std::uint64_t> ended{0};
  race(
      this->rounds(),
      [&](std::uint64_t round) noexcept {
        this->renew_stop();
        limit_once(this->service(), TypeParam::soon, this->stop().get_token(), ends, round, ended);
      },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { this->stop().request_stop(); });
  EXPECT_TRUE(eventually([&] {
    this->go_on();
    return ended == this->rounds();
  }));
  EXPECT_EQ(ends.wrong(this->rounds()), 0U);
}

TYPED_TEST(SleepRace, TheEndOfWhatIsAwaitedAgainstItsLimitAgainstTheEndOfTheService) {
  const std::uint64_t rounds = stress_rounds(300);
  outcomes ends(rounds);
  std::atomic<std::uint64_t> ended{0};
  race(
      rounds,
      [&](std::uint64_t round) noexcept {
        this->restart();
        limit_once(this->service(), TypeParam::soon, {}, ends, round, ended);
      },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { this->service().stop(); });
  EXPECT_TRUE(eventually([&] { return ended == rounds; }));
  EXPECT_EQ(ends.wrong(rounds), 0U);
}

}  // namespace
}  // namespace timing_wheel::test
