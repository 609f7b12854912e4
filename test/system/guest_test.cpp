/// \file
/// A good guest in its process: signals, `exit` and `fork`.

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/build.hpp"
#include "support/in_child.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// Calls `look` in a callback on the poller, and waits for it.
template <class Look>
void on_the_poller(timer& service, Look look) {
  std::atomic<bool> looked{false};
  service.schedule_after(0ms, [&] {
    look();
    looked = true;
  });
  ASSERT_TRUE(eventually([&] { return looked.load(); }));
}

// ---- Signals ----

TEST(Signals, ThePollerBlocksAllButThoseOfAFault) {
  timer service;
  on_the_poller(service, [] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE, SIGPROF,
                             SIGVTALRM, SIGIO, SIGWINCH, SIGURG, SIGABRT, SIGRTMIN, SIGRTMAX}) {
      EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
    }
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      EXPECT_EQ(sigismember(&blocked, fault), 0) << fault;
    }
  });
}

TEST(Signals, TheThreadThatMakesAServiceKeepsItsMask) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const timer service;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

TEST(Signals, EachOfSeveralPollersBlocksThemAndBearsAName) {
  std::mutex mutex;
  std::set<std::string> names;
  int started = 0;
  int blocked = 0;
  const timer service({.pollers = 3, .on_thread_start = [&] {
                         std::array<char, 16> name{};
                         pthread_getname_np(pthread_self(), name.data(), name.size());
                         sigset_t mask;
                         pthread_sigmask(SIG_SETMASK, nullptr, &mask);
                         const std::lock_guard lock(mutex);
                         names.insert(name.data());
                         blocked += sigismember(&mask, SIGTERM);
                         ++started;
                       }});
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return started == 3;
  }));
  if (names_threads) {
    EXPECT_EQ(names, (std::set<std::string>{"timing_wheel", "timing_wheel1", "timing_wheel2"}));
  }
  EXPECT_EQ(blocked, 3);
}

TEST(SignalsDeathTest, TheHandlerOfAFaultRunsInACallback) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [] {
    struct sigaction ending {};
    ending.sa_handler = [](int) { _exit(7); };
    sigaction(SIGBUS, &ending, nullptr);
    timer service;
    service.schedule_after(0ms, [] { pthread_kill(pthread_self(), SIGBUS); });
    std::this_thread::sleep_for(patience);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(7), "");
}

// ---- exit ----

[[noreturn]] void exit_with_5() { std::exit(5); }  // NOLINT(concurrency-mt-unsafe): it is what is tested

void exit_in_a_callback() {
  static timer service;
  service.schedule_every(1ms, [] {});
  service.schedule_after(20ms, exit_with_5);
  std::this_thread::sleep_for(patience);
}

void exit_in_a_callback_of_a_manual_timer() {
  static manual_timer service;
  service.schedule_after(1ms, exit_with_5);
  service.advance_by(1ms);
}

void exit_on_a_thread_of_an_executor() {
  static timer service({.executor = [](task&& work) { std::thread(std::move(work)).detach(); }});
  service.schedule_after(1ms, exit_with_5);
  std::this_thread::sleep_for(patience);
}

TEST(ExitDeathTest, InACallbackOfAStaticServiceEndsTheProgramWithItsCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const auto& run : {exit_in_a_callback, exit_in_a_callback_of_a_manual_timer, exit_on_a_thread_of_an_executor}) {
    EXPECT_EXIT(run(), testing::ExitedWithCode(5), "");
  }
}

#if defined(_LIBCPP_VERSION) && defined(__linux__)
constexpr const char* no_end_of_a_thread =
    "glibc unwinds by libgcc, and libc++ may by another library: then each program crashes here";
#elif defined(__linux__) && !defined(__GLIBC__)
constexpr const char* no_end_of_a_thread = "musl ends a thread without unwinding its stack";
#else
constexpr const char* no_end_of_a_thread = nullptr;
#endif

void end_the_thread() { pthread_exit(nullptr); }

/// A service with `options`, and one callback.
void run_one(const timer_options& options, void (*callback)()) {
  timer service(options);
  service.schedule_after(1ms, callback);
  std::this_thread::sleep_for(patience);
}

class EndOfAThreadDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (no_end_of_a_thread != nullptr) {
      GTEST_SKIP() << no_end_of_a_thread;
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(EndOfAThreadDeathTest, InWhatAPollerCallsSaysSoAndAborts) {
  const auto in_executor = [](task&&) { end_the_thread(); };
  const auto in_on_error = [](const std::exception_ptr&, std::uint64_t) { end_the_thread(); };
  EXPECT_EXIT(run_one({}, end_the_thread), testing::KilledBySignal(SIGABRT), "a callback ended its thread");
  EXPECT_EXIT(run_one({.on_thread_start = end_the_thread}, nothing), testing::KilledBySignal(SIGABRT),
              "on_thread_start ended its thread");
  EXPECT_EXIT(run_one({.executor = in_executor}, nothing), testing::KilledBySignal(SIGABRT),
              "the executor ended its thread");
  EXPECT_EXIT(run_one({.on_error = in_on_error}, [] { throw std::runtime_error("no route"); }),
              testing::KilledBySignal(SIGABRT), "on_error ended its thread");
}

TEST_F(EndOfAThreadDeathTest, InOnEarlierSaysSoAndAborts) {
  const auto run = [] {
    loop_timer service({}, end_the_thread);
    static_cast<void>(service.next_event());
    std::thread([&] { service.schedule_after(1ms, [] {}); }).join();
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGABRT), "on_earlier ended its thread");
}

// ---- fork ----

/// The thread sanitizer starts no threads after a fork of several, and says so.
class AnyFork : public testing::Test {
 protected:
  void SetUp() override {
    if (under_thread_sanitizer) {
      GTEST_SKIP() << "the thread sanitizer does not know children of programs with several threads";
    }
  }
};

/// One that the service has to notice.
class Fork : public AnyFork {
 protected:
  void SetUp() override {
    if (!can_map) {
      GTEST_SKIP() << "this build does not notice a fork";
    }
    AnyFork::SetUp();
  }
};

/// In a child: the number of the first expectation that does not hold, 0 if all do.
int first_broken(std::initializer_list<bool> expectations) {
  int number = 1;
  for (const bool holds : expectations) {
    if (!holds) {
      return number;
    }
    ++number;
  }
  return 0;
}

constexpr child_end well{true, 0};

TEST_F(Fork, LeavesAChildWhoseServiceRefusesAndWhoseTimersAreFinished) {
  timer service;
  const timer_handle handle = service.schedule_after(1h, [] {}, {.tag = 7});
  const std::uint64_t key = handle.key();
  const child_end child = in_child([&] {
    std::error_code error;
    const bool refused = !service.schedule_after(
                             1ms, [] {}, {}, error) &&
                         error == timer_errc::forked;
    const bool refused_again = !service.schedule_every(
                                   1ms, [] {}, {}, error) &&
                               error == timer_errc::forked;
    const refusal thrown = refusal_of([&] { service.schedule_after(1ms, [] {}); });
    std::array<pending_task, 2> two;
    two.front().callback = task([] {});
    two.back().callback = task([] {});
    const bool refused_both = service.schedule_many(two, {}, error) == 0 && error == timer_errc::forked &&
                              two.front().callback && two.back().callback;
    service.shrink_to_fit();
    std::size_t visited = 0;
    service.for_each_pending([&](const pending_timer&) { ++visited; });
    return first_broken({refused, refused_again, refused_both, thrown.code == timer_errc::forked,
                         handle.status() == timer_status::finished, !handle.deadline(), !handle.tag(),
                         handle.cancel() == cancel_result::finished, !handle.reschedule_after(1ms),
                         handle.cancel_and_wait() == cancel_result::finished,
                         service.cancel(key) == cancel_result::finished,
                         service.cancel_and_wait(key) == cancel_result::finished, service.pending() == 0, visited == 0,
                         service.stats().scheduled == 0, service.stopped(), service.stop().empty(),
                         service.stop_run_now() == 0, service.stop_drain(service.now() + 1h).empty()});
  });
  EXPECT_EQ(child, well) << child.code;
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST_F(Fork, LeavesAChildThatDestroysItsServiceAtOnce) {
  auto service = std::make_unique<timer>();
  service->schedule_after(1h, [] {});
  EXPECT_EQ(in_child([&] {
              service.reset();
              return 0;
            }),
            well);
}

TEST_F(AnyFork, LeavesAChildInWhichAFreshServiceWorks) {
  timer service;
  service.schedule_after(1h, [] {});
  EXPECT_EQ(in_child([] {
              std::atomic<bool> ran{false};
              timer fresh;
              fresh.schedule_after(1ms, [&] { ran = true; });
              return eventually([&] { return ran.load(); }) ? 0 : 1;
            }),
            well);
}

TEST_F(AnyFork, LeavesAChildInWhichAManualTimerGoesOn) {
  manual_timer service;
  int runs = 0;
  service.schedule_every(1ms, [&] { ++runs; });
  EXPECT_EQ(in_child([&] {
              service.advance_by(5ms);
              return runs == 5 ? 0 : 1;
            }),
            well);
  EXPECT_EQ(runs, 0);
}

TEST_F(Fork, LeavesAChildInWhichALoopTimerThatIsToldGoesOn) {
  live_captures captures;
  loop_timer service;
  int runs = 0;
  const timer_handle due = service.schedule_after(-1ms, [&runs, token = captures.make()] { ++runs; });
  const timer_handle far = service.schedule_after(1h, [token = captures.make()] {});
  EXPECT_EQ(in_child([&] {
              std::error_code error;
              const bool refused = !service.next_event() && service.run_due() == 0 &&
                                   !service.schedule_after(
                                       1ms, [] {}, {}, error) &&
                                   error == timer_errc::forked;
              service.continue_after_fork();
              const bool ran = service.run_due() == 1 && runs == 1 && due.status() == timer_status::finished;
              const bool next = service.next_event().has_value();
              const bool scheduled = static_cast<bool>(service.schedule_after(-1ms, [&runs] { ++runs; }));
              const bool ran_again = service.run_due() == 1 && runs == 2;
              const bool cancelled = far.cancel() == cancel_result::cancelled && captures.alive() == 0;
              // A child of the child is told as this one was.
              const child_end grandchild = in_child([&] { return service.stopped() && !service.next_event() ? 0 : 1; });
              return first_broken({refused, ran, next, scheduled, ran_again, cancelled, grandchild == well,
                                   !service.stopped(), service.stop().empty()});
            }),
            well);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(service.run_due(), 1U);
  EXPECT_EQ(far.cancel(), cancel_result::cancelled);
}

/// A loop timer with an executor that has ten tasks.
struct with_tasks {
  with_tasks() {
    for (int i = 0; i < 10; ++i) {
      handles.push_back(service.schedule_after(-1ms, [this] { ++runs; }));
    }
    service.run_due();
  }

  /// Runs all that is pending. \returns whether each timer has run once, and nothing is left.
  bool each_runs_once() {
    const auto patient = service.now() + patience;
    while (service.pending() != 0 && service.now() < patient) {
      std::this_thread::sleep_until(std::min(service.next_event().value_or(patient), patient));
      service.run_due();
      tasks.run();
    }
    return runs == 10 && service.pending() == 0 && service.stats().fired == 10;
  }

  kept_tasks tasks;
  loop_timer service{{.executor = tasks.taking()}};
  std::vector<timer_handle> handles;
  int runs = 0;
};

TEST_F(Fork, LosesNoTimerWhoseTaskTheChildHandlesBeforeItGoesOn) {
  with_tasks one;
  ASSERT_EQ(one.tasks.size(), 10U);
  const auto child = [&](auto handle) {
    return in_child([&] {
      handle(one.tasks);
      one.service.continue_after_fork();
      return one.each_runs_once() ? 0 : 1;
    });
  };
  EXPECT_EQ(child([](kept_tasks& tasks) { tasks.drop(); }), well);
  EXPECT_EQ(child([](kept_tasks& tasks) { tasks.run(); }), well);
  EXPECT_EQ(child([](kept_tasks& tasks) {
              static std::vector<task> on_a_thread_that_is_gone;
              on_a_thread_that_is_gone = tasks.take();
            }),
            well);
  one.tasks.run();
  EXPECT_EQ(one.runs, 10);
}

TEST_F(Fork, LetsTasksFromBeforeNeitherLoseNorDoubleATimer) {
  with_tasks one;
  const auto child = [&](auto handle) {
    return in_child([&] {
      one.service.continue_after_fork();
      std::vector<task> before = one.tasks.take();
      std::this_thread::sleep_until(one.service.next_event().value_or(one.service.now()));
      one.service.run_due();
      handle(before, one.tasks);
      return one.each_runs_once() ? 0 : 1;
    });
  };
  const auto run = [](std::vector<task>& before) {
    for (task& each : before) {
      each();
    }
  };
  EXPECT_EQ(child([](auto& before, auto&) { before.clear(); }), well);
  EXPECT_EQ(child([&](auto& before, auto&) { run(before); }), well);
  EXPECT_EQ(child([&](auto& before, kept_tasks& anew) {
              anew.run();
              run(before);
            }),
            well);
}

TEST_F(Fork, WhatWasHandedOverIsPendingForAChildThatGoesOn) {
  with_tasks one;
  EXPECT_EQ(in_child([&] {
              one.tasks.drop();
              one.service.continue_after_fork();
              return first_broken({one.service.pending() == 10, one.service.stats().due == 0,
                                   one.handles[0].cancel() == cancel_result::cancelled,
                                   one.handles[1].reschedule_after(1h), one.service.stop().size() == 9});
            }),
            well);
}

TEST_F(Fork, WithoutOneALoopTimerAndItsTasksGoOnAsTheyDid) {
  with_tasks one;
  one.service.schedule_after(-1ms, [] {});
  one.service.continue_after_fork();
  EXPECT_EQ(one.service.stats().due, 10U);
  one.tasks.run();
  EXPECT_EQ(one.runs, 10);
  EXPECT_EQ(one.service.run_due(), 1U);
  EXPECT_EQ(in_child([&] { return one.service.stopped() ? 0 : 1; }), well);
}

TEST_F(Fork, UnderLoadLeavesNoChildThatHangs) {
  timer service({.shards = 2});
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 4; ++i) {
    busy.emplace_back([&] {
      while (!over) {
        const timer_handle handle = service.schedule_after(1h, [] {});
        service.schedule_after(0ms, [] {});
        handle.cancel();
      }
    });
  }
  std::vector<pid_t> children;
  for (int i = 0; i < 100; ++i) {
    children.push_back(begin_child([&] {
      std::error_code error;
      service.schedule_after(
          1ms, [] {}, {}, error);
      static_cast<void>(service.pending());
      service.stop();
      return error == timer_errc::forked ? 0 : 1;
    }));
    std::this_thread::sleep_for(1ms);
  }
  for (const pid_t child : children) {
    EXPECT_EQ(end_of(child), well);
  }
  over = true;
  for (std::thread& one : busy) {
    one.join();
  }
}

TEST_F(Fork, InACallbackLeavesAChildThatEndsWhenTheCallbackReturns) {
  if (under_address_sanitizer) {
    GTEST_SKIP() << "the leak checker ends the child with another code, for what its parent still has";
  }
  timer service;
  std::atomic<pid_t> child{-1};
  service.schedule_after(1ms, [&] {
    const pid_t made = fork();
    if (made == 0) {
      alarm(60);
      return;
    }
    child = made;
  });
  ASSERT_TRUE(eventually([&] { return child != -1; }));
  EXPECT_EQ(end_of(child), well);
  on_the_poller(service, [] {});
}

/// A callable that stays in its move, hence in the lock of its shard, from when it is asked to until it may go on.
class held_in_its_move {
 public:
  enum step { free, asked, inside, released };

  explicit held_in_its_move(std::atomic<step>& now) noexcept : now_(&now) {}
  held_in_its_move(held_in_its_move&& other) noexcept : now_(other.now_) {
    if (*now_ == asked) {
      *now_ = inside;
      await(*now_, released);
    }
  }
  held_in_its_move& operator=(held_in_its_move&&) = delete;
  ~held_in_its_move() = default;
  void operator()() const {}

  static void await(const std::atomic<step>& now, step wanted) noexcept {
    while (now != wanted) {
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<step>* now_;
};

/// Forks while another thread holds the lock of a shard, which nobody gives back in the child.
class fork_under_lock {
 public:
  explicit fork_under_lock(timer& service)
      : handle_(service.schedule_after(10h, held_in_its_move(now_))), other_([this] {
          held_in_its_move::await(now_, held_in_its_move::asked);
          handle_.cancel();
        }) {}
  fork_under_lock(const fork_under_lock&) = delete;
  fork_under_lock& operator=(const fork_under_lock&) = delete;
  ~fork_under_lock() { other_.join(); }

  void operator()() {
    now_ = held_in_its_move::asked;
    held_in_its_move::await(now_, held_in_its_move::inside);
    const pid_t made = fork();
    if (made == 0) {
      alarm(10);
    } else {
      now_ = held_in_its_move::released;
    }
    child_ = made;
  }

  /// 0 in the child; -1 before.
  [[nodiscard]] pid_t child() const noexcept { return child_; }

 private:
  std::atomic<held_in_its_move::step> now_{held_in_its_move::free};
  std::atomic<pid_t> child_{-1};
  timer_handle handle_;
  std::thread other_;
};

TEST_F(Fork, InARuleLeavesAChildThatEndsWhenTheRuleReturns) {
  if (under_address_sanitizer) {
    GTEST_SKIP() << "the leak checker ends the child with another code, for what its parent still has";
  }
  timer service({.shards = 1});
  fork_under_lock forks(service);
  const auto rule = [&, calls = 0](time_point previous) mutable -> std::optional<time_point> {
    if (++calls == 2) {  // the first is that of `schedule_with`, the second follows the first run
      forks();
    }
    return calls < 3 ? std::optional(previous + 1ms) : std::nullopt;
  };
  service.schedule_with(rule, [] {});
  ASSERT_TRUE(eventually([&] { return forks.child() != -1; }));
  EXPECT_EQ(end_of(forks.child()), well);
  on_the_poller(service, [] {});
}

TEST_F(Fork, InACallbackOfAStopThatRunsTheRestLeavesAChildInWhichThatStopReturns) {
  timer service({.shards = 1});
  std::optional<fork_under_lock> forks;
  int ran = 0;
  service.schedule_after(1h, [&] { (*forks)(); });
  service.schedule_after(1h, [&] { ++ran; });
  forks.emplace(service);
  service.stop_run_now();
  if (forks->child() == 0) {
    _exit(ran);
  }
  EXPECT_EQ(end_of(forks->child()), well) << "in the child nothing runs any more";
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace timing_wheel::test
