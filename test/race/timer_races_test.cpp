/// \file
/// Threads race for one timer, with each way to run callbacks, thousands of times.
/// Best under the thread sanitizer: what a call must wait for is kept in plain memory.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "support/driven_service.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

// ---- Who runs the callbacks ----

/// In every other round, waits a little for a run to begin, so that what comes next meets it.
void meet_a_run(std::uint64_t round) {
  const std::uint64_t before = begun_runs.load(std::memory_order_relaxed);
  const std::uint64_t limit = round % 2 * 20'000;
  for (std::uint64_t i = 0; i < limit && begun_runs.load(std::memory_order_relaxed) == before; ++i) {
  }
}

// ---- One timer ----

/// One timer a round, which is due `soon`.
template <class Driver>
class TimerRace : public driven_service<Driver> {
 protected:
  ~TimerRace() override { this->end(); }

  const timer_handle& handle() const { return handle_; }
  trace& seen() { return trace_; }

  /// \pre the timer of the round before is over.
  void arm(timer_handle made) { handle_ = std::move(made); }
  void arm_traced() noexcept {
    end_last();
    arm(this->service().schedule_after(Driver::soon, traced(trace_)));
  }
  void arm_counted(std::uint64_t round) noexcept {
    arm(this->service().schedule_after(Driver::soon, [this, round, token = captures_.make()] { outcomes_.add(round); },
                                       {.tag = round}));
  }
  void arm_periodic(period_policy policy) noexcept {
    end_last();
    arm(this->service().schedule_every(Driver::soon, traced(trace_), {.policy = policy}));
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
    EXPECT_EQ(this->service().stats().early, 0U);
    EXPECT_TRUE(conserved(this->service()));
  }

 private:
  void run_down() {
    handle_ = {};
    this->go_on();
    EXPECT_TRUE(eventually([&] { return this->service().pending() == 0 && this->service().stats().running == 0; }));
    EXPECT_TRUE(this->service().stop().empty());
  }

  live_captures captures_;
  outcomes outcomes_{this->rounds()};
  trace trace_;
  timer_handle handle_;
};

TYPED_TEST_SUITE(TimerRace, drivers);

TYPED_TEST(TimerRace, CancelAgainstCancelAgainstFire) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t round) noexcept { this->arm_counted(round); },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t round) { this->cancel(round); },
      [&](std::uint64_t round) { this->cancel(round); });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, CancelAgainstRescheduleAgainstFire) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t round) noexcept { this->arm_counted(round); },
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t round) { this->cancel(round); },
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
      [&](std::uint64_t) { this->fire(); },
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
      [&](std::uint64_t) { this->fire(); },
      [&](std::uint64_t) {
        const time_point later = this->service().now() + 2 * TypeParam::soon;
        if (timer_handle(this->handle()).reschedule(later)) {
          moved_to = later;
        }
      },
      [&](std::uint64_t) { this->fire(); });
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
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { dropped = {}; });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, QuestionsAgainstFire) {
  race(
      this->rounds(), [&](std::uint64_t round) noexcept { this->arm_counted(round); },
      [&](std::uint64_t round) {
        const timer_handle copy = this->handle();
        const std::optional<std::uint64_t> tag = copy.tag();
        EXPECT_TRUE(!tag || *tag == round) << "of another timer";
        EXPECT_TRUE(copy.status() != timer_status::finished || !copy.deadline());
        EXPECT_LE(copy.remaining().value_or(0ns), TypeParam::soon);
      },
      [&](std::uint64_t) { this->fire(); });
  this->expect_one_outcome_each(this->rounds());
}

TYPED_TEST(TimerRace, CancelAndWaitAgainstTheEndOfTheCallback) {
  const auditor audit(this->service());
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->arm_traced(); }, [&](std::uint64_t) { this->fire(); },
      [&](std::uint64_t round) { this->cancel_and_wait(round); });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, CancelAndWaitAgainstCancelAndWaitAgainstTheEndOfTheCallback) {
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->arm_traced(); }, [&](std::uint64_t) { this->fire(); },
      [&](std::uint64_t round) { this->cancel_and_wait(round); },
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
      [&](std::uint64_t) { this->fire(); },
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
      [&](std::uint64_t) { this->fire(); },
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
      [&](std::uint64_t) { source->request_stop(); }, [&](std::uint64_t) { this->fire(); },
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
      [&](std::uint64_t) {
        this->fire();
        this->fire();
      },
      [&](std::uint64_t round) { this->cancel_and_wait(round); });
  this->end_last();
  this->expect_all_over();
}

TYPED_TEST(TimerRace, APeriodicTimerIsOverAfterACancelWhileItRuns) {
  race(
      this->rounds(), [&](std::uint64_t) noexcept { this->arm_periodic(fixed_rate_skip); },
      [&](std::uint64_t) { this->fire(); },
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
      [&](std::uint64_t) { this->fire(); }, [&](std::uint64_t) { timer_handle(this->handle()).reschedule_after(0ns); },
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
        handle = service.schedule_after(10ms, [token = captures.make()] {}, {.window = 20ms});
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

}  // namespace
}  // namespace timing_wheel::test
