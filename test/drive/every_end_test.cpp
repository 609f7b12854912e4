/// \file
/// Code of the user's that runs while a service ends: what was captured, a visitor, a rule. Each may be the last owner
/// of the service, and call whatever it likes.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// A service with 300 timers in each of its shards, and something to own it.
template <class Front>
class scene {
 public:
  static constexpr unsigned shards = 3;
  static constexpr std::size_t timers = shards * 300;

  explicit scene(std::function<void(task&&)> run_on = nullptr)
      : owner_(std::make_shared<Front>(timer_options{
            .shards = shards,
            .max_pending = timers + 1,
            .executor = std::move(run_on),
            .on_error = [kept = handler_](const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) {}})),
        service(*owner_) {
    for (unsigned i = 0; i < shards; ++i) {
      std::thread([this] { add_timers(timers / shards); }).join();
    }
  }

  /// What a timer captures: the last owner of the service.
  [[nodiscard]] auto owner() {
    return [last = std::move(owner_), token = captures.make()] {};
  }
  void destroy() { owner_.reset(); }
  [[nodiscard]] std::weak_ptr<Front> weak() const { return owner_; }

  /// Lets what is due in a millisecond happen.
  void fire() {
    if constexpr (std::same_as<Front, manual_timer>) {
      service.advance_by(1ms);
    } else if constexpr (std::same_as<Front, loop_timer>) {
      std::this_thread::sleep_for(2ms);
      service.run_due();
    }
  }

  /// In a callback: until somebody ends the service, on another thread or this one.
  void wait_for_refusal() {
    for (std::error_code error; error != timer_errc::stopped; std::this_thread::yield()) {
      const scoped_timer unused = service.schedule_after(
          1h, [] {}, {}, error);
    }
  }

  /// Whether the service has let go of everything, and of each capture once.
  [[nodiscard]] bool is_over() {
    handles.clear();
    const std::weak_ptr<int> held = std::exchange(handler_, nullptr);
    return eventually([&] { return held.expired() && captures.alive() == 0; });
  }

  live_captures captures;
  std::function<void()> when_destroyed = [] {};  // what the captures of the timers do
  std::vector<timer_handle> handles;

 private:
  void add_timers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      handles.push_back(service.schedule_after(
          1h, [token = captures.make(), last = on_destruction([this] { when_destroyed(); })] {}));
    }
  }

  std::shared_ptr<int> handler_ = std::make_shared<int>(0);
  std::shared_ptr<Front> owner_;

 public:
  Front& service;
};

/// A way in which a service, or the timer that owns it, may end.
template <class Front>
struct end {
  const char* name;
  std::function<void(scene<Front>&)> bring;
};

template <class Front>
const std::vector<end<Front>>& every_end() {
  using s = scene<Front>;
  static const std::vector<end<Front>> ends{
      {"stop", [](s& one) { one.service.schedule_after(1h, one.owner()), static_cast<void>(one.service.stop()); }},
      {"stop, returned",
       [](s& one) {
         one.service.schedule_after(1h, one.owner());
         std::vector<pending_task> left = one.service.stop();
         while (!left.empty()) {
           left.pop_back();
         }
       }},
      {"discard", [](s& one) { one.service.schedule_after(1h, one.owner()), one.service.stop_discard(); }},
      {"run_now", [](s& one) { one.service.schedule_after(1h, one.owner()), one.service.stop_run_now(); }},
      {"drain",
       [](s& one) {
         one.service.schedule_after(1ms, [&one, kept = one.owner()] { one.wait_for_refusal(); });
         one.service.stop_drain(one.service.now() + 10ms);
       }},
      {"destructor of another one",
       [](s& one) {
         manual_timer other;
         other.schedule_after(1h, one.owner());
       }},
      {"cancel", [](s& one) { one.service.schedule_after(1h, one.owner()).cancel(); }},
      {"cancel by key", [](s& one) { one.service.cancel(one.service.schedule_after(1h, one.owner()).key()); }},
      {"cancel by token",
       [](s& one) {
         std::stop_source source;
         one.service.schedule_after(1h, one.owner(), {.stop = source.get_token()});
         source.request_stop();
       }},
      {"a token from before",
       [](s& one) {
         std::stop_source source;
         source.request_stop();
         one.service.schedule_after(1h, one.owner(), {.stop = source.get_token()});
       }},
      {"scoped_timer", [](s& one) { const scoped_timer scope = one.service.schedule_after(1h, one.owner()); }},
      {"refusal",
       [](s& one) {
         one.service.schedule_after(1h, [] {});
         EXPECT_THROW(one.service.schedule_after(1h, one.owner()), timer_error);
       }},
      {"run", [](s& one) { one.service.schedule_after(1ms, one.owner()), one.fire(); }},
      {"last run",
       [](s& one) {
         auto run = [kept = one.owner()](const timer_handle& self) { self.cancel(); };
         one.service.schedule_every(1ms, std::move(run)), one.fire();
       }},
      {"last deadline",
       [](s& one) {
         auto rule = [kept = one.owner(), asked = 0](time_point previous) mutable {
           return ++asked == 1 ? std::optional(previous + 1ms) : std::nullopt;
         };
         one.service.schedule_with(std::move(rule), [] {}), one.fire();
       }},
      {"visit", [](s& one) {
         one.service.schedule_after(1h, one.owner());
         one.service.for_each_pending([](const pending_timer& each) { each.handle.cancel(); });
       }}};
  return ends;
}

template <class Front>
class EveryEnd : public testing::Test {
 protected:
  /// Brings each end about, and expects that nothing is left.
  static void expect_nothing_left(const std::function<void(scene<Front>&)>& prepare) {
    for (const end<Front>& how : every_end<Front>()) {
      SCOPED_TRACE(how.name);
      scene<Front> one;
      prepare(one);
      how.bring(one);
      EXPECT_TRUE(one.is_over());
    }
  }
};

using fronts = testing::Types<timer, manual_timer, loop_timer>;
TYPED_TEST_SUITE(EveryEnd, fronts);

TYPED_TEST(EveryEnd, ByACaptureThatIsTheLastOwnerLeavesNothing) {
  this->expect_nothing_left([](auto&) {});
}

TYPED_TEST(EveryEnd, WithCapturesThatUseTheServiceLeavesNothing) {
  this->expect_nothing_left([](auto& one) {
    one.when_destroyed = [&one, weak = one.weak()] {
      if (const auto service = weak.lock()) {
        std::error_code error;
        service->schedule_after(
            1h, [token = one.captures.make()] {}, {}, error);
        one.handles.back().cancel();
        EXPECT_EQ(service->pending(), service->stats().pending);
      }
    };
  });
}

TYPED_TEST(EveryEnd, WithCapturesThatEndTheServiceLeavesNothing) {
  std::size_t calls = 0;
  this->expect_nothing_left([&calls](auto& one) {
    one.when_destroyed = [&calls, weak = one.weak()] {
      if (const auto service = weak.lock()) {
        switch (calls++ % 4) {
          case 0:
            service->stop();
            break;
          case 1:
            service->stop_discard();
            break;
          case 2:
            service->stop_run_now();
            break;
          default:
            service->stop_drain(service->now());
        }
      }
    };
  });
}

TYPED_TEST(EveryEnd, OfADyingServiceMayBeAskedForByWhatItDestroys) {
  scene<TypeParam> one;
  one.when_destroyed = [&] {
    std::error_code error;
    EXPECT_FALSE(one.service.schedule_after(
        1h, [] {}, {}, error));
    EXPECT_EQ(error, timer_errc::stopped);
    one.service.stop_discard();
    EXPECT_EQ(one.service.pending(), 0U);
    EXPECT_EQ(one.handles.back().cancel(), cancel_result::finished);
  };
  one.destroy();
  EXPECT_TRUE(one.is_over());
}

TYPED_TEST(EveryEnd, ByATaskOfAnExecutorOrAfterOneIsDroppedLeavesNothing) {
  for (const bool called : {true, false}) {
    kept_tasks queue;
    scene<TypeParam> one(queue.taking());
    timer_handle handle = one.service.schedule_after(1ms, one.owner());
    one.fire();
    ASSERT_TRUE(eventually([&] { return queue.size() == 1; }));
    called ? static_cast<void>(queue.run()) : queue.drop();
    EXPECT_EQ(std::exchange(handle, {}).cancel(), called ? cancel_result::finished : cancel_result::cancelled);
    EXPECT_TRUE(one.is_over());
  }
}

// ---- A visitor, a rule ----

/// How code that the service calls may end it.
template <class Front>
const std::vector<end<Front>>& ends_from_within() {
  using s = scene<Front>;
  static const std::vector<end<Front>> ends{
      {"destroy", [](s& one) { one.destroy(); }},
      {"stop", [](s& one) { one.service.stop(), one.destroy(); }},
      {"discard", [](s& one) { one.service.stop_discard(), one.destroy(); }},
      {"run_now", [](s& one) { one.service.stop_run_now(), one.destroy(); }},
      {"drain", [](s& one) { one.service.stop_drain(one.service.now()), one.destroy(); }}};
  return ends;
}

TYPED_TEST(EveryEnd, ByAVisitorEndsTheVisit) {
  for (const end<TypeParam>& how : ends_from_within<TypeParam>()) {
    SCOPED_TRACE(how.name);
    scene<TypeParam> one;
    std::size_t visits = 0;
    one.service.for_each_pending([&](const pending_timer& each) {
      if (++visits == 1) {
        how.bring(one);
      }
      EXPECT_EQ(each.handle.status(), timer_status::finished);
    });
    EXPECT_LE(visits, max_timers_per_lock);
    EXPECT_TRUE(one.is_over());
  }
}

TYPED_TEST(EveryEnd, ByARuleThatIsAskedForTheFirstDeadlineIsTold) {
  for (const end<TypeParam>& how : ends_from_within<TypeParam>()) {
    for (const bool gives_one : {true, false}) {
      SCOPED_TRACE(how.name);
      scene<TypeParam> one;
      std::error_code error = timer_errc::forked;
      const auto rule = [&](time_point previous) {
        how.bring(one);
        return gives_one ? std::optional(previous) : std::nullopt;
      };
      EXPECT_FALSE(one.service.schedule_with(
          rule, [] {}, {}, error));
      EXPECT_EQ(error, gives_one ? timer_errc::stopped : std::error_code());
      EXPECT_TRUE(one.is_over());
    }
  }
}

TYPED_TEST(EveryEnd, ByARuleThatIsAskedForTheNextDeadlineEndsItsTimer) {
  for (const end<TypeParam>& how : ends_from_within<TypeParam>()) {
    SCOPED_TRACE(how.name);
    scene<TypeParam> one;
    std::atomic<int> asked{0};
    const auto rule = [&](time_point previous) {
      if (++asked == 2) {
        how.bring(one);
      }
      return std::optional(previous + 1ms);
    };
    one.service.schedule_with(rule, [token = one.captures.make()] {});
    one.fire();
    EXPECT_TRUE(eventually([&] { return asked == 2; }));
    EXPECT_TRUE(one.is_over());
    EXPECT_EQ(asked, 2);
  }
}

// ---- Whatever the service calls ----

/// Code that the service calls: what `place` makes it call once.
template <class Front>
struct place {
  const char* name;
  bool throws;  // what the code throws gets out
  std::function<void(scene<Front>&, const std::function<void()>& code)> call;
};

template <class Front>
const std::vector<place<Front>>& every_place() {
  using s = scene<Front>;
  using function = const std::function<void()>&;
  const auto visit = [](s& one, function code) { one.service.for_each_pending([&](const pending_timer&) { code(); }); };
  static const std::vector<place<Front>> places{
      {"callback", false, [](s& one, function code) { one.service.schedule_after(1ms, code), one.fire(); }},
      {"callback that a stop runs", false,
       [](s& one, function code) { one.service.schedule_after(1min, code), one.service.stop_run_now(); }},
      {"visitor", true, visit},
      {"visitor in a callback", false,
       [visit](s& one, function code) {
         one.service.schedule_after(1ms, [&one, visit, code] { visit(one, code); }), one.fire();
       }},
      {"first deadline", true,
       [](s& one, function code) {
         one.service.schedule_with([&](time_point previous) { return code(), std::optional(previous + 1h); }, [] {});
       }},
      {"next deadline", false, [](s& one, function code) {
         auto rule = [code, asked = 0](time_point previous) mutable {
           ++asked == 2 ? code() : void();
           return std::optional(previous + 1ms);
         };
         one.service.schedule_with(rule, [] {}), one.fire();
       }}};
  return places;
}

/// What cannot be allowed where this is called is refused.
template <class Front>
void call_everything(scene<Front>& one) {
  Front& service = one.service;
  std::error_code error;
  service.schedule_after(
      1h, [] {}, {}, error);
  service.schedule_every(
      1h, [] {}, {}, error);
  service.schedule_with([](time_point previous) { return std::optional(previous + 1h); }, [] {}, {}, error);
  one.handles.front().reschedule_after(2h, error);
  one.handles.front().cancel_and_wait();
  service.cancel(one.handles.back().key());
  service.for_each_pending([](const pending_timer& each) { static_cast<void>(each.handle.status()); });
  service.shrink_to_fit();
  EXPECT_EQ(service.pending(), service.stats().pending);
  const std::error_code refused = refusal_of([&] { one.fire(); }).code;
  EXPECT_TRUE(!refused || refused == timer_errc::nested_advance) << refused;
}

TYPED_TEST(EveryEnd, ByCodeThatCallsEverythingBeforeAndAfterLeavesNothing) {
  std::vector<place<TypeParam>> places = every_place<TypeParam>();
  places.push_back({"capture", false, [](auto& one, const auto& code) {
                      one.when_destroyed = code;
                      one.handles.back().cancel();
                    }});
  for (const place<TypeParam>& where : places) {
    SCOPED_TRACE(where.name);
    scene<TypeParam> one;
    std::atomic<bool> over{false};
    refusal_of([&] {
      where.call(one, [&, begun = false]() mutable {
        if (!std::exchange(begun, true)) {
          call_everything(one);
          one.service.stop_discard();
          call_everything(one);
          one.destroy();
          over = true;
        }
      });
    });
    EXPECT_TRUE(eventually([&] { return over.load(); }));
    EXPECT_TRUE(one.is_over());
  }
}

TYPED_TEST(EveryEnd, ByCodeThatThrowsAfterwardsLeavesNothing) {
  for (const place<TypeParam>& where : every_place<TypeParam>()) {
    for (const end<TypeParam>& how : ends_from_within<TypeParam>()) {
      SCOPED_TRACE(std::string(where.name) + ", " + how.name);
      scene<TypeParam> one;
      std::atomic<bool> over{false};
      bool got_out = false;
      try {
        where.call(one, [&] {
          how.bring(one);
          over = true;
          throw std::runtime_error("after the end");
        });
      } catch (const std::runtime_error&) {
        got_out = true;
      }
      EXPECT_TRUE(eventually([&] { return over.load(); }));
      EXPECT_TRUE(one.is_over());
      EXPECT_EQ(got_out, where.throws);
    }
  }
}

// ---- Several threads ----

TEST(EndFromWithin, ByAVisitorWaitsForTheCallbackThatRuns) {
  auto service = std::make_unique<timer>();
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  service->schedule_after(1h, [] {});
  service->schedule_after(1ms, [&] {
    begun = true;
    settle();
    ended = true;
  });
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  service->for_each_pending([&](const pending_timer&) {
    service.reset();
    EXPECT_TRUE(ended);
  });
}

TEST(EndFromWithin, ByACallbackWhileAnotherThreadWaitsInStopWaitsForNobody) {
  auto service = std::make_unique<timer>();
  timer& stopped = *service;
  std::atomic<bool> begun{false};
  stopped.schedule_after(1ms, [&] {
    begun = true;
    EXPECT_TRUE(eventually([&] { return stopped.stopped(); }));
    settle();  // until the other thread waits for this one
    service.reset();
  });
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  stopped.stop();
  EXPECT_EQ(service, nullptr);
}

TEST(EndFromWithin, ByWhatIsToldOfAnEarlierEventLeavesNothing) {
  live_captures captures;
  std::unique_ptr<loop_timer> service;
  service = std::make_unique<loop_timer>(timer_options{}, [&] { service.reset(); });
  ASSERT_EQ(service->next_event(), std::nullopt);
  const timer_handle handle = service->schedule_after(1h, [token = captures.make()] {});
  EXPECT_EQ(service, nullptr);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(EndFromWithin, OfASessionThatStartsItsTimeAnewLeavesNothing) {
  struct session {
    scoped_timer idle;
  };
  live_captures captures;
  manual_timer timer;
  auto one = std::make_shared<session>();
  session& last = *one;
  last.idle = timer.schedule_after(1h, [kept = std::move(one), token = captures.make()] {});
  last.idle = timer.schedule_after(2h, [token = captures.make()] {});
  EXPECT_EQ(captures.alive(), 0) << "the session has gone with its first timer, and ended the second";
}

}  // namespace
}  // namespace timing_wheel::test
