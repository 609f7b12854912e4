// A loop that sleeps, and threads that schedule meanwhile, round after round. Best under the thread sanitizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "support/service_audit.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::size_t adders = 8;
constexpr nanoseconds tick_length = 100us;

/// Calls `action(number of the adder, round)` on eight threads, in rounds; see `race`.
template <class Prepare, class Action>
void race_of_eight(std::uint64_t rounds, Prepare prepare, Action action) {
  const auto adder = [&](std::size_t number) {
    return [&action, number](std::uint64_t round) { action(number, round); };
  };
  race(rounds, prepare, adder(0), adder(1), adder(2), adder(3), adder(4), adder(5), adder(6), adder(7));
}

/// A loop on a thread of its own, which sleeps on a condition variable.
class sleeping_loop {
 public:
  sleeping_loop() : thread_([this] { run(); }) {}
  ~sleeping_loop() {
    over_ = true;
    wake();
  }
  sleeping_loop(const sleeping_loop&) = delete;
  sleeping_loop& operator=(const sleeping_loop&) = delete;

  [[nodiscard]] loop_timer& timer() noexcept { return timer_; }

  /// When it last had to wake: the end of its sleep, or when it was told. For its callbacks.
  [[nodiscard]] time_point had_to_wake() const noexcept { return had_to_wake_; }

  [[nodiscard]] bool sleeps() {
    const std::lock_guard lock(mutex_);
    return sleeps_;
  }

 private:
  void wake() {
    const time_point now = steady_clock::now();
    {
      const std::lock_guard lock(mutex_);
      told_at_ = std::min(told_at_, now);
    }
    changed_.notify_one();
  }

  void run() {
    while (!over_) {
      sleep_until(timer_.next_event().value_or(time_point::max()));
      timer_.run_due();
    }
  }

  void sleep_until(time_point next) {
    std::unique_lock lock(mutex_);
    const auto is_told = [this] { return told_at_ != time_point::max(); };
    sleeps_ = true;
    if (next == time_point::max()) {
      changed_.wait(lock, is_told);
    } else {
      changed_.wait_until(lock, next, is_told);
    }
    sleeps_ = false;
    had_to_wake_ = std::min(next, std::exchange(told_at_, time_point::max()));
  }

  loop_timer timer_{{.tick = tick_length, .wheel_size = 16}, [this] { wake(); }};
  std::atomic<bool> over_ = false;
  time_point had_to_wake_;  // for the loop's thread
  // Guarded by mutex_.
  std::mutex mutex_;
  time_point told_at_ = time_point::max();
  bool sleeps_ = false;
  std::condition_variable changed_;
  std::jthread thread_;
};

/// What one round leaves behind.
class wakeups_of_a_round {
 public:
  static constexpr std::size_t each = 3;

  explicit wakeups_of_a_round(sleeping_loop& loop) : loop_(loop) {}

  /// Adds a timer that fires in this round. Its callback may begin before this returns.
  void add(std::size_t number, time_point deadline) {
    timers_[number].deadline = deadline;
    loop_.timer().schedule_at(deadline, [this, number] { fired(number); });
  }
  /// The same, by way of a timer that is far away.
  void move(std::size_t number, time_point deadline) {
    timers_[number].deadline = deadline;
    const timer_handle made = loop_.timer().schedule_after(1h, [this, number] { fired(number); });
    EXPECT_TRUE(made.reschedule(deadline));
  }
  void added(std::size_t adder) { last_added_[adder] = steady_clock::now(); }

  /// Waits for the timers of a round, and looks at them. No adder must be running.
  void end() noexcept {
    if (!eventually([this] { return fired_ == timers_.size(); })) {
      ADD_FAILURE() << "a wake-up was lost, or a timer: " << fired_ << " have fired";
      return;
    }
    const time_point all_added = *std::max_element(last_added_.begin(), last_added_.end());
    for (const one& timer : timers_) {
      // The tick of a deadline begins less than a tick after it. One adder tells the loop for all of them, maybe last.
      EXPECT_LE(timer.had_to_wake, std::max(timer.deadline + tick_length, all_added));
      EXPECT_GE(timer.ran_at, timer.deadline);
    }
    fired_ = 0;
  }

 private:
  struct one {
    time_point deadline;
    time_point had_to_wake;
    time_point ran_at;
  };

  void fired(std::size_t number) {
    timers_[number].ran_at = steady_clock::now();
    timers_[number].had_to_wake = loop_.had_to_wake();
    ++fired_;
  }

  sleeping_loop& loop_;
  std::array<one, adders * each> timers_{};
  std::array<time_point, adders> last_added_{};
  std::atomic<std::size_t> fired_ = 0;
};

TEST(LoopTimerStress, EightThreadsAddEarlierAndEarlierTimersAndNoneIsLate) {
  sleeping_loop loop;
  wakeups_of_a_round seen(loop);
  std::array<timer_handle, adders> far;
  bool any = false;
  const auto begin = [&](std::uint64_t) noexcept {
    if (std::exchange(any, true)) {
      seen.end();
    }
    for (const timer_handle& one : far) {
      one.cancel();
    }
    EXPECT_TRUE(eventually([&] { return loop.sleeps(); }));
  };
  const auto add = [&](std::size_t adder, std::uint64_t round) {
    const std::size_t first = adder * wakeups_of_a_round::each;
    const auto vary = static_cast<std::int64_t>((round * 8 + adder) * 2654435761U % 1000) * 1us;
    far[adder] = loop.timer().schedule_after(1h - adder * 1min, nothing);
    seen.add(first, loop.timer().now() + 2ms + vary);
    seen.move(first + 1, loop.timer().now() + vary);
    seen.add(first + 2, loop.timer().now());
    seen.added(adder);
  };
  race_of_eight(stress_rounds(300), begin, add);
  seen.end();
  EXPECT_EQ(loop.timer().stats().early, 0U);
  EXPECT_TRUE(conserved(loop.timer()));
}

// ---- The loop stands still while the others schedule ----

/// A service whose loop is about to sleep for half an hour.
struct about_to_sleep {
  void next_round() noexcept {
    for (const timer_handle& one : made) {
      one.cancel();
    }
    told = 0;
    EXPECT_NE(timer.next_event(), std::nullopt);
  }

  std::atomic<int> told = 0;
  loop_timer timer{{}, [this] { ++told; }};
  const timer_handle half_an_hour = timer.schedule_after(30min, nothing);
  std::array<timer_handle, adders> made;
};

TEST(LoopTimerStress, OfEightThreadsThatAddEarlierTimersOneTellsTheLoop) {
  about_to_sleep loop;
  bool any = false;
  const auto begin = [&](std::uint64_t) noexcept {
    EXPECT_EQ(loop.told, std::exchange(any, true) ? 1 : 0);
    loop.next_round();
  };
  race_of_eight(stress_rounds(3'000), begin, [&](std::size_t adder, std::uint64_t) {
    for (int i = 10; i > 0; --i) {
      loop.made[adder] = loop.timer.schedule_after(i * 1min, nothing);
      loop.made[adder].reschedule_after(i * 1s);
      loop.made[adder].cancel();
    }
    loop.made[adder] = loop.timer.schedule_after(1min, nothing);
  });
  EXPECT_EQ(loop.told, 1);
}

TEST(LoopTimerStress, ThreadsThatAddLaterTimersOrCancelTellTheLoopNothing) {
  about_to_sleep loop;
  int told = 0;
  const auto begin = [&](std::uint64_t) noexcept {
    told += loop.told;
    loop.next_round();
  };
  race_of_eight(stress_rounds(3'000), begin, [&](std::size_t adder, std::uint64_t) {
    for (int i = 1; i < 10; ++i) {
      loop.made[adder] = loop.timer.schedule_after(1h - i * 1min, nothing);
      loop.made[adder].reschedule_after(1h);
      loop.made[adder].cancel();
    }
    loop.made[adder] = loop.timer.schedule_after(1h, nothing);
  });
  EXPECT_EQ(told + loop.told, 0);
}

// ---- The end ----

TEST(LoopTimerStress, TheLoopAsksWhileAnotherThreadDrains) {
  std::optional<loop_timer> timer;
  const auto begin = [&](std::uint64_t) noexcept {
    timer.emplace(timer_options{.tick = 1us, .wheel_size = 16}, nothing);
    for (int i = 0; i < 300; ++i) {
      timer->schedule_after(i * 100ns, nothing);
    }
  };
  const auto ask = [&](std::uint64_t) {
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(timer->next_event());
      try {
        timer->run_due(1);
      } catch (const timer_error& e) {
        EXPECT_EQ(e.code(), timer_errc::nested_advance);
      }
    }
  };
  const auto drain_it = [&](std::uint64_t) {
    EXPECT_EQ(timer->stop_drain(time_point::max()).size(), 0U);
    EXPECT_EQ(timer->stats().fired, 300U);
  };
  race(stress_rounds(500), begin, ask, drain_it);
}

TEST(LoopTimerStress, AHandleThatMovesItsTimerAgainstTheEndOfTheService) {
  struct owner {
    std::uint64_t told = 0;  // plain memory: whoever frees it must come after whoever writes it
    std::optional<loop_timer> timer{std::in_place, timer_options{}, [this] { ++told; }};
  };
  std::unique_ptr<owner> mine;
  std::array<timer_handle, 3> handles;
  const auto begin = [&](std::uint64_t) noexcept {
    mine = std::make_unique<owner>();
    for (timer_handle& one : handles) {
      one = mine->timer->schedule_after(1h, nothing);
    }
    static_cast<void>(mine->timer->next_event());
  };
  const auto move = [&](std::size_t number) {
    return [&handles, number](std::uint64_t) { handles[number].reschedule_after(1min); };
  };
  const auto end = [&](std::uint64_t) {
    mine->timer.reset();
    mine.reset();
  };
  race(stress_rounds(20'000), begin, move(0), move(1), move(2), end);
}

}  // namespace
}  // namespace timing_wheel::test
