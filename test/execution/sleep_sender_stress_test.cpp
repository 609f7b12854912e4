/// \file
/// Threads race for the operation of a sender that sleeps, with each way to run callbacks, thousands of times. Best
/// under a sanitizer: an operation is plain memory, and its completion destroys it. The environment variable
/// TIMING_WHEEL_STRESS multiplies the rounds.

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <system_error>

#include "execution/receivers.hpp"
#include "senders/senders.hpp"
#include "support/service_audit.hpp"
#include "support/service_drivers.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/asio.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// A service, and one operation a round, whose token is of one of two types.
template <class Driver>
class SleepSenderRace : public testing::Test {
 protected:
  using service_type = typename Driver::service_type;

  SleepSenderRace() { restart(); }
  ~SleepSenderRace() override {
    service_.reset();
    pool_.join();
  }

  static std::uint64_t rounds() { return stress_rounds(Driver::rounds); }
  service_type& service() { return *service_; }

  void restart() {
    timer_options chosen{.tick = Driver::tick, .wheel_size = 4, .shards = 2};
    if (Driver::pooled) {
      chosen.executor = asio_executor(pool_);
    }
    service_.emplace(chosen);
  }
  // A source stays until the end: a thread that completes may still leave the one of the last round.
  void renew_stop() {
    stop_ = std::stop_source();
    inplace_ = &inplace_sources_.emplace_back();
  }
  void fire() { Driver::fire(*service_); }
  void request_stop(std::uint64_t round) { round % 2 == 0 ? stop_.request_stop() : inplace_->request_stop(); }
  void begin(std::uint64_t round, std::chrono::nanoseconds delay) {
    const sleep_sender sleep = scheduler(*service_).schedule_after(delay);
    const auto note = [this, round](signal how, std::error_code /*error*/) {
      EXPECT_TRUE(how == signal::value || how == signal::stopped);
      ends_.add(round);
      ended_.fetch_add(1, std::memory_order_relaxed);
    };
    if (round % 2 == 0) {
      self_destroying<std::stop_token, decltype(note)>::start(sleep, token_of(stop_), note);
    } else {
      self_destroying<senders::inplace_stop_token, decltype(note)>::start(sleep, token_of(*inplace_), note);
    }
  }

  void expect_one_end_each(std::uint64_t operations) {
    EXPECT_TRUE(eventually([&] {
      if constexpr (std::same_as<service_type, manual_timer>) {
        service_->advance_by(1h);
      }
      return ended_.load(std::memory_order_relaxed) == operations;
    }));
    EXPECT_EQ(ends_.wrong(operations), 0U);
    EXPECT_TRUE(eventually([&] { return service_->stats().running == 0; }));
    EXPECT_TRUE(conserved(*service_));
  }

 private:
  boost::asio::thread_pool pool_{pool_threads};
  outcomes ends_{rounds()};
  std::atomic<std::uint64_t> ended_{0};
  std::stop_source stop_;
  std::deque<senders::inplace_stop_source> inplace_sources_;
  senders::inplace_stop_source* inplace_ = nullptr;
  std::optional<service_type> service_;
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
