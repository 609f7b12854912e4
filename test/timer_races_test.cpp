// Two or more that meet at one timer, or at the end of a service, thousands of times: each race of the contract by name. On the
// thread of the service, on a pool and by hand. Best under the thread sanitizer: what a call must wait for is kept in plain memory.
// The environment variable TIMING_WHEEL_STRESS multiplies the rounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/asio.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::size_t pool_threads = 3;

// ---- Who runs the callbacks ----

/// The thread that moves the clock.
struct by_hand {
  using service_type = manual_timer;
  static constexpr bool pooled = false;
  static constexpr nanoseconds soon = 1ms;
  static constexpr nanoseconds tick = 1ms;
  static constexpr std::uint64_t rounds = 3'000;

  /// Runs what is due `soon`, unless another thread is at it.
  static void fire(manual_timer& service) {
    try {
      service.advance_by(soon);
    } catch (const timer_error& e) {
      EXPECT_EQ(e.code(), timer_errc::nested_advance);
    }
  }
};

/// A pool; the clock is moved by hand.
struct by_hand_on_a_pool : by_hand {
  static constexpr bool pooled = true;
  static constexpr std::uint64_t rounds = 3'000;
};

/// The thread of the service.
struct on_its_thread {
  using service_type = timer;
  static constexpr bool pooled = false;
  static constexpr nanoseconds soon = 10us;
  static constexpr nanoseconds tick = 1us;
  static constexpr std::uint64_t rounds = 3'000;

  /// Keeps its processor until what is due `soon` has probably fired.
  static void fire(timer& service) {
    const time_point end = service.now() + soon;
    while (service.now() < end) {
    }
  }
};

/// A pool.
struct on_a_pool : on_its_thread {
  static constexpr bool pooled = true;
};

using drivers = testing::Types<by_hand, by_hand_on_a_pool, on_its_thread, on_a_pool>;

/// What a callback leaves behind, in plain memory: to read it is a race, unless the reader is ordered behind it.
struct trace {
  int begun = 0;
  int ended = 0;
  int destroyed = 0;

  /// No callback is in the middle, and none can come.
  [[nodiscard]] bool is_over() const { return begun == ended && destroyed == 1; }
};

/// The runs that have begun, of any timer. Memory order: relaxed; a hint, which must not order what is raced for.
std::atomic<std::uint64_t> begun_runs{0};

/// In every other round, waits a little for a run to begin, so that what comes next meets it.
void meet_a_run(std::uint64_t round) {
  const std::uint64_t before = begun_runs.load(std::memory_order_relaxed);
  const std::uint64_t limit = round % 2 * 20'000;
  for (std::uint64_t i = 0; i < limit && begun_runs.load(std::memory_order_relaxed) == before; ++i) {
  }
}

/// A callback that takes some time, and leaves a trace.
class traced {
 public:
  explicit traced(trace& to) noexcept : to_(&to) {}
  traced(traced&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
  traced& operator=(traced&&) = delete;
  ~traced() {
    if (to_ != nullptr) {
      ++to_->destroyed;
    }
  }
  void operator()() {
    begun_runs.fetch_add(1, std::memory_order_relaxed);
    ++to_->begun;
    spin(1'000);
    ++to_->ended;
  }

 private:
  trace* to_;
};

// ---- One timer ----

/// A service, and one timer a round, which is due `soon`.
template <class Driver>
class TimerRace : public testing::Test {
 protected:
  using service_type = typename Driver::service_type;

  TimerRace() {
    timer_options options{.tick = Driver::tick, .wheel_size = 4, .shards = 2};
    if (Driver::pooled) {
      options.executor = asio_executor(pool_);
    }
    service_.emplace(options);
  }
  ~TimerRace() override {
    service_.reset();
    pool_.join();
  }

  static std::uint64_t rounds() { return stress_rounds(Driver::rounds); }

  service_type& service() { return *service_; }
  const timer_handle& handle() const { return handle_; }
  trace& seen() { return trace_; }

  void fire(std::uint64_t) { Driver::fire(*service_); }

  /// \pre the timer of the round before is over.
  void arm(timer_handle made) { handle_ = std::move(made); }
  void arm_traced() noexcept {
    end_last();
    arm(service_->schedule_after(Driver::soon, traced(trace_)));
  }
  void arm_counted(std::uint64_t round) noexcept {
    arm(service_->schedule_after(Driver::soon, [this, round, token = captures_.make()] { outcomes_.add(round); },
                                 {.tag = round}));
  }
  void arm_periodic(period_policy policy) noexcept {
    end_last();
    arm(service_->schedule_every(Driver::soon, traced(trace_), policy));
  }

  /// After it, nothing of the timer of the round before touches the trace. \returns whether it ran.
  bool end_last() noexcept {
    handle_.cancel_and_wait();
    EXPECT_TRUE(trace_.is_over() || !handle_);
    return std::exchange(trace_, {}).begun > 0;
  }

  void cancel(std::uint64_t round) { outcomes_.add(round, timer_handle(handle_).cancel()); }

  void cancel_and_wait(std::uint64_t round) {
    const timer_handle copy = handle_;
    meet_a_run(round);
    const cancel_result answer = copy.cancel_and_wait();
    EXPECT_EQ(trace_.begun, trace_.ended);
    EXPECT_EQ(copy.status(), timer_status::finished);
    if (answer == cancel_result::running) {
      EXPECT_GE(trace_.ended, 1);
    }
    // Of a timer that another one has just cancelled, that one may still be destroying the captures.
    if (answer != cancel_result::finished) {
      EXPECT_EQ(trace_.destroyed, 1);
    }
  }

  /// Each of the timers from `arm_counted`.
  void expect_one_outcome_each(std::uint64_t timers) {
    run_down();
    EXPECT_EQ(outcomes_.wrong(timers), 0U);
    expect_all_over();
    EXPECT_EQ(captures_.alive(), 0);
  }

  void expect_all_over() {
    run_down();
    EXPECT_EQ(service_->stats().early, 0U);
    EXPECT_TRUE(conserved(*service_));
  }

 private:
  void run_down() {
    handle_ = {};
    if constexpr (std::same_as<service_type, manual_timer>) {
      service_->advance_by(1h);
    }
    EXPECT_TRUE(eventually([&] { return service_->pending() == 0 && service_->stats().running == 0; }));
    EXPECT_TRUE(service_->stop().empty());
  }

  boost::asio::thread_pool pool_{pool_threads};
  live_captures captures_;
  outcomes outcomes_{rounds()};
  trace trace_;
  timer_handle handle_;
  std::optional<service_type> service_;
};

TYPED_TEST_SUITE(TimerRace, drivers);

TYPED_TEST(TimerRace, CancelAgainstCancelAgainstFire) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t round) noexcept { this->arm_counted(round); },
      [&](std::uint64_t round) { this->fire(round); }, [&](std::uint64_t round) { this->cancel(round); },
      [&](std::uint64_t round) { this->cancel(round); });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, CancelAgainstRescheduleAgainstFire) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t round) noexcept { this->arm_counted(round); },
      [&](std::uint64_t round) { this->fire(round); }, [&](std::uint64_t round) { this->cancel(round); },
      [&](std::uint64_t round) {
        const timer_handle copy = this->handle();
        copy.reschedule_after(static_cast<int>(round % 5) * TypeParam::soon);
      });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, RescheduleAgainstRescheduleAgainstFire) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t round) noexcept { this->arm_counted(round); },
      [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t) { timer_handle(this->handle()).reschedule_after(3 * TypeParam::soon); },
      [&](std::uint64_t) { timer_handle(this->handle()).reschedule_after(-TypeParam::soon); });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, ATimerThatWasRescheduledInTimeFiresNotBeforeItsNewDeadline) {
  time_point ran_at;
  time_point moved_to;
  const auto end_last = [&]() noexcept {
    if (this->end_last()) {
      EXPECT_GE(ran_at, moved_to);
    }
    moved_to = time_point::min();
  };
  race(
      this->rounds(),
      [&](std::uint64_t) noexcept {
        end_last();
        this->arm(this->service().schedule_after(TypeParam::soon, [&, trace = traced(this->seen())]() mutable {
          ran_at = this->service().now();
          trace();
        }));
      },
      [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t) {
        const time_point later = this->service().now() + 2 * TypeParam::soon;
        if (timer_handle(this->handle()).reschedule(later)) {
          moved_to = later;
        }
      },
      [&](std::uint64_t round) { this->fire(round); });
  end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, DropOfTheHandleAgainstFire) {
  timer_handle dropped;
  race(
      this->rounds(),
      [&](std::uint64_t round) noexcept {
        this->arm_counted(round);
        dropped = this->handle();
        this->arm({});
      },
      [&](std::uint64_t round) { this->fire(round); }, [&](std::uint64_t) { dropped = {}; });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, CancelAndWaitAgainstTheEndOfTheCallback) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->arm_traced(); },
      [&](std::uint64_t round) { this->fire(round); }, [&](std::uint64_t round) { this->cancel_and_wait(round); });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, CancelAndWaitAgainstCancelAndWaitAgainstTheEndOfTheCallback) {
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->arm_traced(); },
      [&](std::uint64_t round) { this->fire(round); }, [&](std::uint64_t round) { this->cancel_and_wait(round); },
      [&](std::uint64_t round) { this->cancel_and_wait(round); });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, DestructionOfAScopedTimerAgainstFire) {
  std::optional<scoped_timer> owner;
  race(
      this->rounds(),
      [&](std::uint64_t) noexcept {
        this->arm_traced();
        owner.emplace(this->handle());
      },
      [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t round) {
        meet_a_run(round);
        owner.reset();
        EXPECT_TRUE(this->seen().is_over());
      });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, RequestStopAgainstFire) {
  std::unique_ptr<std::stop_source> source;
  race(
      this->rounds(),
      [&](std::uint64_t) noexcept {
        this->end_last();
        source = std::make_unique<std::stop_source>();
        this->arm(this->service().schedule_after(TypeParam::soon, traced(this->seen()), {.stop = source->get_token()}));
      },
      [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t round) {
        const timer_handle copy = this->handle();
        meet_a_run(round);
        source->request_stop();
        EXPECT_NE(copy.status(), timer_status::pending);
      },
      [&](std::uint64_t) { static_cast<void>(timer_handle(this->handle()).cancel()); });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, RequestStopAgainstScheduling) {
  std::unique_ptr<std::stop_source> source;
  race(
      this->rounds(),
      [&](std::uint64_t) noexcept {
        this->end_last();
        source = std::make_unique<std::stop_source>();
      },
      [&](std::uint64_t) { source->request_stop(); }, [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t round) {
        const std::stop_token token = source->get_token();
        if (round % 2 == 0) {
          this->arm(this->service().schedule_after(0ns, traced(this->seen()), {.stop = token}));
        } else {
          this->arm(this->service().schedule_every(TypeParam::soon, traced(this->seen()), {.stop = token}));
        }
      });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, APeriodicTimerNeverRunsAfterCancelAndWaitReturned) {
  const auditor audit(this->service());
  race(
      this->rounds(),
      [&](std::uint64_t round) noexcept { this->arm_periodic(round % 2 == 0 ? fixed_delay : fixed_rate_catch_up); },
      [&](std::uint64_t round) {
        this->fire(round);
        this->fire(round);
      },
      [&](std::uint64_t round) { this->cancel_and_wait(round); });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, APeriodicTimerIsOverAfterACancelWhileItRuns) {
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->arm_periodic(fixed_rate_skip); },
      [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t round) {
        const timer_handle copy = this->handle();
        meet_a_run(round);
        static_cast<void>(copy.cancel());
        EXPECT_NE(copy.cancel(), cancel_result::cancelled);
        EXPECT_NE(copy.status(), timer_status::pending);
        EXPECT_FALSE(copy.reschedule_after(0ns));
      });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, RescheduleAgainstTheNextRunOfAPeriodicTimer) {
  const auditor audit(this->service());
  race(
      this->rounds(),
      [&](std::uint64_t round) noexcept {
        if (round % 16 == 0) {
          this->arm_periodic(fixed_rate_skip);
        }
      },
      [&](std::uint64_t round) { this->fire(round); },
      [&](std::uint64_t) { timer_handle(this->handle()).reschedule_after(0ns); },
      [&](std::uint64_t) { timer_handle(this->handle()).reschedule_after(2 * TypeParam::soon); });
  const timer_stats counts = this->service().stats();
  EXPECT_EQ(counts.scheduled, counts.rearmed + (this->rounds() + 15) / 16);
  this->end_last();
  this->expect_all_over();
}

// ---- Timers on their way down the wheels ----

TEST(TimerRaces, CancelAgainstCascade) {
  constexpr std::uint64_t timers = 16;
  const std::uint64_t rounds = stress_rounds(4'000);
  outcomes each(rounds * timers);
  std::vector<timer_handle> handles(timers);
  manual_timer service({.wheel_size = 2, .shards = 2});
  dice random(10);
  const auditor audit(service);
  const auto cancel = [&](std::uint64_t round, std::uint64_t i) {
    each.add(round * timers + i, timer_handle(handles[i]).cancel());
  };
  race(
      rounds,
      [&](std::uint64_t round) noexcept {
        for (std::uint64_t i = 0; i < timers; ++i) {
          const std::uint64_t which = round * timers + i;
          handles[i] =
              service.schedule_after(random.between(16ms, 64ms), [&each, which] { each.add(which); }, {.tag = which});
        }
      },
      [&](std::uint64_t) {
        for (int i = 0; i < 16; ++i) {
          service.advance_by(4ms);
        }
      },
      [&](std::uint64_t round) {
        for (std::uint64_t i = 0; i < timers; i += 2) {
          cancel(round, i);
        }
      },
      [&](std::uint64_t round) {
        for (std::uint64_t i = timers; i > 0; i -= 3 < i ? 3 : i) {
          cancel(round, i - 1);
        }
      });
  service.advance_by(1h);
  EXPECT_EQ(each.wrong(rounds * timers), 0U);
  EXPECT_GT(service.stats().moves, rounds);
  EXPECT_TRUE(conserved(service));
}

TEST(TimerRaces, CancelAgainstReschedule) {
  const std::uint64_t rounds = stress_rounds(10'000);
  live_captures captures;
  manual_timer service({.wheel_size = 4});
  timer_handle handle;
  const auto move = [&](std::uint64_t round) {
    const timer_handle copy = handle;
    for (std::uint64_t i = 0; i < 4; ++i) {
      copy.reschedule_after(((round + 7 * i) % 100) * 1ms);
    }
  };
  race(
      rounds,
      [&](std::uint64_t) noexcept {
        EXPECT_EQ(captures.alive(), 0);
        EXPECT_EQ(service.pending(), 0U);
        handle = service.schedule_after(10ms, [token = captures.make()] {});
      },
      move, move,
      [&](std::uint64_t) {
        const timer_handle copy = handle;
        EXPECT_EQ(copy.cancel(), cancel_result::cancelled);
        EXPECT_FALSE(copy.reschedule_after(1ms));
      });
  EXPECT_EQ(service.stats().cancelled, rounds);
  EXPECT_TRUE(conserved(service));
}

// ---- The end of a service ----

/// In each round a service of its own, with timers that are due now, soon and never; and what became of each.
template <class Driver>
class EndOfAService : public testing::Test {
 protected:
  static constexpr std::uint64_t timers = 12;
  static constexpr std::uint64_t adders = 8;
  static constexpr std::uint64_t adds = 3;

  ~EndOfAService() override { pool_.join(); }

  static std::uint64_t rounds() { return stress_rounds(Driver::rounds / 15); }

  /// Races `ends` and other actions; with `added` timers beside those that are there first.
  template <class... Actions>
  void race_to_the_end(std::uint64_t added, Actions... actions) {
    race(
        rounds(),
        [this, added](std::uint64_t round) noexcept {
          end_last();
          begin(round, added);
        },
        [this](std::uint64_t) { audit(); }, actions...);
    end_last();
  }

  auto fires() {
    return [this](std::uint64_t) { Driver::fire(*service_); };
  }
  auto cancels() {
    return [this](std::uint64_t) {
      for (std::uint64_t i = 0; i < timers; ++i) {
        each_->add(i, handles_[i].cancel());
      }
    };
  }
  auto stops() {
    return [this](std::uint64_t) {
      end([this] { each_->add(service_->stop()); });
      EXPECT_EQ(service_->pending(), 0U);
    };
  }
  auto runs_all_now() {
    return [this](std::uint64_t) { end([this] { service_->stop(run_now); }); };
  }
  auto drains() {
    return [this](std::uint64_t) {
      end([this] { each_->add(service_->stop(drain, service_->now() + 4 * Driver::soon)); });
    };
  }
  /// Adds until it is refused; the timers that were refused count as over.
  auto adds_as(std::uint64_t thread) {
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
  auto rearms() {
    return [this](std::uint64_t) {
      std::error_code error;
      service_->schedule_every(Driver::soon, traced(periodic_), fixed_rate_catch_up, {.tag = timers}, error);
      if (error) {
        EXPECT_EQ(error, timer_errc::stopped);
      }
      has_periodic_ = true;
    };
  }

 private:
  timer_handle schedule(std::uint64_t which, std::error_code& error) {
    const nanoseconds delay = which % 3 == 2 ? 1h : which % 3 == 1 ? Driver::soon : 0ns;
    return service_->schedule_after(
        delay, [each = each_.get(), which, token = captures_.make()] { each->add(which); }, {.tag = which}, error);
  }

  void begin(std::uint64_t round, std::uint64_t added) {
    timer_options options{.tick = Driver::tick, .wheel_size = 4, .shards = static_cast<unsigned>(1 + round % 3)};
    if (Driver::pooled) {
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

  boost::asio::thread_pool pool_{pool_threads};
  live_captures captures_;
  std::unique_ptr<outcomes> each_;
  std::uint64_t timers_ = 0;
  trace periodic_;
  bool has_periodic_ = false;
  std::atomic<std::uint64_t> fired_at_stop_{0};
  std::vector<timer_handle> handles_;
  std::optional<typename Driver::service_type> service_;
};

TYPED_TEST_SUITE(EndOfAService, drivers);

TYPED_TEST(EndOfAService, StopAgainstEightThreadsThatAdd) {
  this->race_to_the_end(this->adders * this->adds, this->stops(), this->adds_as(0), this->adds_as(1), this->adds_as(2),
                        this->adds_as(3), this->adds_as(4), this->adds_as(5), this->adds_as(6), this->adds_as(7));
}

TYPED_TEST(EndOfAService, StopAgainstCancel) { this->race_to_the_end(0, this->stops(), this->cancels()); }

TYPED_TEST(EndOfAService, StopAgainstFire) { this->race_to_the_end(0, this->stops(), this->fires()); }

TYPED_TEST(EndOfAService, StopAgainstStop) {
  this->race_to_the_end(0, this->stops(), this->stops(), this->stops(), this->fires());
}

TYPED_TEST(EndOfAService, StopAgainstTheNextRunOfAPeriodicTimer) {
  this->race_to_the_end(0, this->stops(), this->rearms(), this->fires());
}

TYPED_TEST(EndOfAService, RunNowAgainstAdd) {
  this->race_to_the_end(2 * this->adds, this->runs_all_now(), this->adds_as(0), this->adds_as(1));
}

TYPED_TEST(EndOfAService, RunNowAgainstFire) { this->race_to_the_end(0, this->runs_all_now(), this->fires()); }

TYPED_TEST(EndOfAService, RunNowAgainstCancelAgainstRunNow) {
  this->race_to_the_end(0, this->runs_all_now(), this->cancels(), this->runs_all_now());
}

TYPED_TEST(EndOfAService, RunNowAgainstStop) { this->race_to_the_end(0, this->runs_all_now(), this->stops()); }

TYPED_TEST(EndOfAService, RunNowAgainstDrain) { this->race_to_the_end(0, this->runs_all_now(), this->drains()); }

TYPED_TEST(EndOfAService, RunNowAgainstTheNextRunOfAPeriodicTimer) {
  this->race_to_the_end(0, this->runs_all_now(), this->rearms(), this->fires());
}

TYPED_TEST(EndOfAService, DrainAgainstAdd) {
  this->race_to_the_end(2 * this->adds, this->drains(), this->adds_as(0), this->adds_as(1));
}

TYPED_TEST(EndOfAService, DrainAgainstFire) { this->race_to_the_end(0, this->drains(), this->fires()); }

TYPED_TEST(EndOfAService, DrainAgainstTheNextRunOfAPeriodicTimer) {
  this->race_to_the_end(0, this->drains(), this->rearms(), this->fires());
}

TYPED_TEST(EndOfAService, EveryWayToStopAgainstEverything) {
  this->race_to_the_end(2 * this->adds, this->drains(), this->stops(), this->runs_all_now(), this->fires(),
                        this->cancels(), this->adds_as(0), this->adds_as(1));
}

TEST(TimerRaces, CopiesOfAHandleAgainstTheDestructorOfTheService) {
  boost::asio::thread_pool pool(pool_threads);
  live_captures captures;
  timer_handle shared;
  std::optional<timer> service;
  const auto copy = [&](std::uint64_t) {
    for (int i = 0; i < 20; ++i) {
      const timer_handle mine = shared;
      const timer_handle another = mine;  // NOLINT(performance-unnecessary-copy-initialization): that is raced for
      EXPECT_NE(another.status(), timer_status::running);
    }
    EXPECT_NE(shared.cancel_and_wait(), cancel_result::running);
  };
  race(
      stress_rounds(1'000),
      [&](std::uint64_t round) noexcept {
        EXPECT_EQ(captures.alive(), 0);
        service.emplace(timer_options{.shards = 2, .executor = round % 2 == 0 ? executor() : asio_executor(pool)});
        shared = service->schedule_after(1h, [token = captures.make()] {});
      },
      copy, copy, [&](std::uint64_t) { service.reset(); });
  EXPECT_EQ(captures.alive(), 0);
}

// ---- Executors ----

TEST(TimerRaces, AnExecutorThatRefusesUnderLoadLosesNothing) {
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

TEST(TimerRaces, APoolThatIsStoppedWhileTasksAreQueuedLosesNothing) {
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

TEST(TimerRaces, AServiceThatDiesWhileThePoolStillHoldsItsTasks) {
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

TEST(TimerRaces, RunsOfAPeriodicTimerNeverOverlapOnAPool) {
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
    handles.push_back(service.schedule_every(
        1us,
        [&log, &runs] {
          log.overlaps += log.inside.exchange(true, std::memory_order_relaxed);
          ++log.runs;
          spin(50);
          log.inside.store(false, std::memory_order_relaxed);
          ++runs;
        },
        static_cast<period_policy>(i % 3)));
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

TEST(TimerRaces, CallbacksOnAPoolThatWaitForEachOtherInOneDirection) {
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
