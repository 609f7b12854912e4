/// \file
/// Threads race to the end of a service, thousands of times.
/// Best under the thread sanitizer: what a call must wait for is kept in plain memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_drivers.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "timing_wheel/asio.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// In each round a service of its own, with timers that are due now, soon and never; and what became of each.
/// Compiled once for all drivers of a kind.
template <class Kind>
class ends_of_services : public testing::Test {
 protected:
  using action = std::function<void(std::uint64_t)>;

  static constexpr std::uint64_t timers = 12;
  static constexpr std::uint64_t adders = 8;
  static constexpr std::uint64_t adds = 3;
  static constexpr std::uint64_t span = 40;  // more than the service takes under one lock

  ends_of_services(bool pooled, unsigned pollers) : pooled_(pooled), pollers_(pollers) {}
  ~ends_of_services() override { pool_.join(); }

  static std::uint64_t rounds() { return stress_rounds(200); }

  /// Races `actions` and a look at the counts; with `added` timers beside those that are there first.
  void race_to_the_end(std::uint64_t added, std::vector<action> actions) {
    actions.insert(actions.begin(), [this](std::uint64_t) { audit(); });
    race_all(
        rounds(),
        [this, added](std::uint64_t round) noexcept {
          end_last();
          begin(round, added);
        },
        actions);
    end_last();
  }

  action fires() {
    return [this](std::uint64_t) { Kind::fire(*service_); };
  }
  action cancels() {
    return [this](std::uint64_t) {
      for (std::uint64_t i = 0; i < timers; ++i) {
        each_->add(i, handles_[i].cancel());
      }
    };
  }
  action stops() {
    return [this](std::uint64_t) {
      end([this] { each_->add(service_->stop()); });
      EXPECT_EQ(service_->pending(), 0U);
    };
  }
  action runs_all_now() {
    return [this](std::uint64_t) { end([this] { service_->stop_run_now(); }); };
  }
  action drains() {
    return
        [this](std::uint64_t) { end([this] { each_->add(service_->stop_drain(service_->now() + 4 * Kind::soon)); }); };
  }
  /// Adds until it is refused; the timers that were refused count as over.
  action adds_as(std::uint64_t thread) {
    return [this, thread](std::uint64_t) {
      std::error_code error;
      for (std::uint64_t i = 0; i < adds; ++i) {
        const std::uint64_t which = timers + thread * adds + i;
        if (!schedule(which, error)) {
          EXPECT_EQ(error, timer_errc::stopped);
          each_->add(which);
        }
      }
    };
  }
  /// Adds a span of timers; what the service refuses stays there, and counts as over.
  action adds_a_span() {
    return [this](std::uint64_t) {
      std::vector<pending_task> all(span);
      for (std::uint64_t i = 0; i < span; ++i) {
        all[i] = {.deadline = service_->now() + delay_of(i),
                  .tag = timers + i,
                  .callback = task(callback(timers + i)),
                  .window = window_of(i)};
      }
      std::error_code error;
      const std::size_t done = service_->schedule_many(all, {}, error);
      EXPECT_EQ(error, done < span ? std::error_code(timer_errc::stopped) : std::error_code());
      for (const pending_task& refused : std::span(all).subspan(done)) {
        EXPECT_TRUE(refused.callback);
        each_->add(refused.tag);
      }
    };
  }
  action rearms() {
    return [this](std::uint64_t) {
      std::error_code error;
      service_->schedule_every(Kind::soon, traced(periodic_), {.policy = fixed_rate_catch_up, .tag = timers}, error);
      if (error) {
        EXPECT_EQ(error, timer_errc::stopped);
      }
      has_periodic_ = true;
    };
  }

 private:
  static nanoseconds delay_of(std::uint64_t which) { return which % 3 == 2 ? 1h : which % 3 == 1 ? Kind::soon : 0ns; }

  static nanoseconds window_of(std::uint64_t which) { return which % 4 == 3 ? 2 * Kind::soon : 0ns; }

  auto callback(std::uint64_t which) {
    return [each = each_.get(), which, token = captures_.make()] { each->add(which); };
  }

  timer_handle schedule(std::uint64_t which, std::error_code& error) {
    return service_->schedule_after(delay_of(which), callback(which), {.tag = which, .window = window_of(which)},
                                    error);
  }

  void begin(std::uint64_t round, std::uint64_t added) {
    timer_options options = options_of<Kind>(std::max(static_cast<unsigned>(1 + round % 3), pollers_));
    options.pollers = pollers_;
    if (pooled_) {
      options.executor = asio_executor(pool_);
    }
    timers_ = timers + added;
    each_ = std::make_unique<outcomes>(timers_ + 1);
    service_.emplace(options);
    std::error_code error;
    for (std::uint64_t i = 0; i < timers; ++i) {
      handles_.push_back(schedule(i, error));
    }
  }

  template <class End>
  void end(End end_it) {
    end_it();
    EXPECT_TRUE(service_->stopped());
    fired_at_stop_ = service_->stats().fired;
  }

  void audit() {
    for (int i = 0; i < 3; ++i) {
      const timer_stats now = service_->stats();
      EXPECT_TRUE(conserved(now));
      EXPECT_EQ(now.early, 0U);
      EXPECT_LE(now.largest_hold, max_timers_per_lock);
      EXPECT_LE(now.due, now.pending);
    }
  }

  void end_last() {
    if (!service_) {
      return;
    }
    const timer_stats last = service_->stats();
    EXPECT_TRUE(conserved(last));
    EXPECT_EQ(last.pending, 0U);
    EXPECT_EQ(last.running, 0U);
    EXPECT_EQ(last.fired, fired_at_stop_) << "one began after stop";
    service_.reset();
    EXPECT_EQ(captures_.alive(), 0);
    EXPECT_EQ(each_->wrong(timers_), 0U);
    EXPECT_TRUE(periodic_.is_over() || !has_periodic_);
    periodic_ = {};
    has_periodic_ = false;
    handles_.clear();
  }

  const bool pooled_;
  const unsigned pollers_;
  boost::asio::thread_pool pool_{pool_threads};
  live_captures captures_;
  std::unique_ptr<outcomes> each_;
  std::uint64_t timers_ = 0;
  trace periodic_;
  bool has_periodic_ = false;
  std::atomic<std::uint64_t> fired_at_stop_{0};
  std::vector<timer_handle> handles_;
  std::optional<typename Kind::service_type> service_;
};

template <class Driver>
class EndOfAService : public ends_of_services<typename Driver::kind> {
 protected:
  EndOfAService() : ends_of_services<typename Driver::kind>(Driver::pooled, Driver::pollers) {}
};

TYPED_TEST_SUITE(EndOfAService, drivers);

TYPED_TEST(EndOfAService, StopAgainstEightThreadsThatAdd) {
  this->race_to_the_end(this->adders * this->adds,
                        {this->stops(), this->adds_as(0), this->adds_as(1), this->adds_as(2), this->adds_as(3),
                         this->adds_as(4), this->adds_as(5), this->adds_as(6), this->adds_as(7)});
}

TYPED_TEST(EndOfAService, StopAgainstCancel) { this->race_to_the_end(0, {this->stops(), this->cancels()}); }

TYPED_TEST(EndOfAService, StopAgainstFire) { this->race_to_the_end(0, {this->stops(), this->fires()}); }

TYPED_TEST(EndOfAService, StopAgainstStop) {
  this->race_to_the_end(0, {this->stops(), this->stops(), this->stops(), this->fires()});
}

TYPED_TEST(EndOfAService, StopAgainstTheNextRunOfAPeriodicTimer) {
  this->race_to_the_end(0, {this->stops(), this->rearms(), this->fires()});
}

TYPED_TEST(EndOfAService, RunNowAgainstAdd) {
  this->race_to_the_end(2 * this->adds, {this->runs_all_now(), this->adds_as(0), this->adds_as(1)});
}

TYPED_TEST(EndOfAService, RunNowAgainstFire) { this->race_to_the_end(0, {this->runs_all_now(), this->fires()}); }

TYPED_TEST(EndOfAService, RunNowAgainstCancelAgainstRunNow) {
  this->race_to_the_end(0, {this->runs_all_now(), this->cancels(), this->runs_all_now()});
}

TYPED_TEST(EndOfAService, RunNowAgainstStop) { this->race_to_the_end(0, {this->runs_all_now(), this->stops()}); }

TYPED_TEST(EndOfAService, RunNowAgainstDrain) { this->race_to_the_end(0, {this->runs_all_now(), this->drains()}); }

TYPED_TEST(EndOfAService, RunNowAgainstTheNextRunOfAPeriodicTimer) {
  this->race_to_the_end(0, {this->runs_all_now(), this->rearms(), this->fires()});
}

TYPED_TEST(EndOfAService, DrainAgainstAdd) {
  this->race_to_the_end(2 * this->adds, {this->drains(), this->adds_as(0), this->adds_as(1)});
}

TYPED_TEST(EndOfAService, DrainAgainstFire) { this->race_to_the_end(0, {this->drains(), this->fires()}); }

TYPED_TEST(EndOfAService, DrainAgainstTheNextRunOfAPeriodicTimer) {
  this->race_to_the_end(0, {this->drains(), this->rearms(), this->fires()});
}

TYPED_TEST(EndOfAService, EveryWayToStopAgainstEverything) {
  this->race_to_the_end(2 * this->adds, {this->drains(), this->stops(), this->runs_all_now(), this->fires(),
                                         this->cancels(), this->adds_as(0), this->adds_as(1)});
}

TYPED_TEST(EndOfAService, EveryWayToStopAgainstASpanThatIsAdded) {
  this->race_to_the_end(this->span,
                        {this->drains(), this->stops(), this->runs_all_now(), this->fires(), this->adds_a_span()});
}

TEST(TimerRaces, UseOfAHandleAndItsCopiesAgainstTheDestructorOfTheService) {
  boost::asio::thread_pool pool(pool_threads);
  live_captures captures;
  timer_handle shared;
  std::optional<timer> service;
  const auto copy = [&](std::uint64_t) {
    for (int i = 0; i < 20; ++i) {
      const timer_handle mine = shared;
      const timer_handle another = mine;  // NOLINT(performance-unnecessary-copy-initialization): that is raced for
      EXPECT_NE(another.status(), timer_status::running);
      static_cast<void>(another.deadline());
      static_cast<void>(another.remaining());
      static_cast<void>(another.tag());
      another.reschedule_after(2h);
    }
    EXPECT_NE(shared.cancel_and_wait(), cancel_result::running);
  };
  race(
      stress_rounds(1'000),
      [&](std::uint64_t round) noexcept {
        EXPECT_EQ(captures.alive(), 0);
        service.emplace(timer_options{.shards = 2,
                                      .pollers = static_cast<unsigned>(1 + round % 3 / 2),
                                      .executor = round % 2 == 0 ? executor() : asio_executor(pool)});
        shared = service->schedule_after(1h, [token = captures.make()] {});
      },
      copy, copy, [&](std::uint64_t) { service.reset(); });
  EXPECT_EQ(captures.alive(), 0);
}

}  // namespace
}  // namespace timing_wheel::test
