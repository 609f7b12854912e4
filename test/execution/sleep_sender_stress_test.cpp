/// \file
/// Threads race for the operation of a sender that sleeps, with each way to run callbacks, thousands of times. Best
/// under a sanitizer: an operation is plain memory, and its completion destroys it.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <stop_token>
#include <system_error>

#include "execution/receivers.hpp"
#include "senders/senders.hpp"
#include "support/driven_service.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// One operation a round, whose token is of one of two types.
template <class Driver>
class SleepSenderRace : public sleeping_rounds<Driver> {
 protected:
  ~SleepSenderRace() override { this->end(); }

  // A source stays until the end: a thread that completes may still leave the one of the last round.
  void renew_stop() {
    sleeping_rounds<Driver>::renew_stop();
    inplace_ = &inplace_sources_.emplace_back();
  }
  void request_stop(std::uint64_t round) { round % 2 == 0 ? this->stop_.request_stop() : inplace_->request_stop(); }
  void begin(std::uint64_t round, std::chrono::nanoseconds delay) {
    const sleep_sender sleep = scheduler(this->service()).schedule_after(delay);
    const auto note = [this, round](signal how, std::error_code /*error*/) {
      EXPECT_TRUE(how == signal::value || how == signal::stopped);
      this->ends_.add(round);
      this->ended_.fetch_add(1, std::memory_order_relaxed);
    };
    if (round % 2 == 0) {
      self_destroying<std::stop_token, decltype(note)>::start(sleep, token_of(this->stop_), note);
    } else {
      self_destroying<senders::inplace_stop_token, decltype(note)>::start(sleep, token_of(*inplace_), note);
    }
  }

 private:
  std::deque<senders::inplace_stop_source> inplace_sources_;
  senders::inplace_stop_source* inplace_ = nullptr;
};
TYPED_TEST_SUITE(SleepSenderRace, drivers);

TYPED_TEST(SleepSenderRace, ExpiryAgainstAStopRequest) {
  race(
      this->rounds(),
      [&](std::uint64_t round) noexcept {
        this->renew_stop();
        this->begin(round, TypeParam::soon);
      },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t round) { this->request_stop(round); });
  this->expect_one_end_each(this->rounds());
}

TYPED_TEST(SleepSenderRace, TheStartAgainstExpiryAgainstAStopRequest) {
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->renew_stop(); },
      [&](std::uint64_t round) { this->begin(round, 0ns); }, [&](std::uint64_t) { this->fire(); },
      [&](std::uint64_t round) { this->request_stop(round); });
  this->expect_one_end_each(this->rounds());
}

TYPED_TEST(SleepSenderRace, TheStartAgainstAStopRequestAgainstTheEndOfTheService) {
  const std::uint64_t rounds = stress_rounds(300);
  race(
      rounds,
      [&](std::uint64_t) noexcept {
        this->restart();
        this->renew_stop();
      },
      [&](std::uint64_t round) { this->begin(round, 1h); }, [&](std::uint64_t round) { this->request_stop(round); },
      [&](std::uint64_t) { this->service().stop(); });
  this->restart();
  this->expect_one_end_each(rounds);
}

TYPED_TEST(SleepSenderRace, ExpiryAgainstAStopRequestAgainstTheEndOfTheService) {
  const std::uint64_t rounds = stress_rounds(300);
  race(
      rounds,
      [&](std::uint64_t round) noexcept {
        this->restart();
        this->renew_stop();
        this->begin(round, TypeParam::soon);
      },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t round) { this->request_stop(round); },
      [&](std::uint64_t) { this->service().stop(); });
  this->restart();
  this->expect_one_end_each(rounds);
}

}  // namespace
}  // namespace timing_wheel::test
