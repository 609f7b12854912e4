/// \file
/// Options: their ranges, the limit of what may be pending, and the kinds of a service.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HasSubstr;

TEST(TimerOptions, RefusesATickThatIsNotPositiveNoPollerAndMoreThanOneForEachShard) {
  for (const auto& [options, words] : {std::pair(timer_options{.tick = -17ns}, "tick -17 ns is not at least 1 ns"),
                                       {{.tick = 0ns}, "tick 0 ns is not at least 1 ns"},
                                       {{.pollers = 0}, "pollers 0 is not in [1, 1024]"},
                                       {{.shards = 3, .pollers = 4}, "pollers 4 is not in [1, 3]"}}) {
    const refusal answer = refusal_of([&, &wrong = options] { const timer service(wrong); });
    EXPECT_EQ(answer.code, timer_errc::invalid_option) << words;
    EXPECT_THAT(answer.message, HasSubstr(words));
  }
}

TEST(TimerOptions, AManualTimerAndALoopTimerIgnorePollers) {
  const std::vector<timer_options> any{{.pollers = 4}, {.pollers = 0}, {.pollers = 4000}, {.shards = 2, .pollers = 5}};
  for (const timer_options& options : any) {
    manual_timer manual(options);
    manual.schedule_after(1ms, nothing);
    EXPECT_EQ(manual.advance_by(1ms), 1U);
    loop_timer loop(options);
    loop.schedule_after(-1ms, nothing);
    EXPECT_EQ(loop.run_due(), 1U);
  }
}

TEST(TimerOptions, AcceptsTheLimitsOfTheOptions) {
  EXPECT_NO_THROW(const manual_timer timer({.tick = 1ns, .wheel_size = 2, .shards = 1}));
  EXPECT_NO_THROW(const manual_timer timer({.tick = nanoseconds::max(), .wheel_size = 2}));
  EXPECT_NO_THROW(const manual_timer timer({.wheel_size = 2, .shards = 1024}));
}

// ---- The limit of what may be pending ----

TEST(MaxPending, AFailedCallableUsesUpNoPlace) {
  manual_timer timer({.max_pending = 1});
  EXPECT_THROW(timer.schedule_after(1h, std::function<void()>()), timer_error);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
}

// ---- One type for production and for tests ----

TEST(OneType, AManualTimerIsDestroyedThroughItsBase) {
  live_captures captures;
  std::unique_ptr<timer> service = std::make_unique<manual_timer>();
  service->schedule_after(1h, [token = captures.make()] {});
  service.reset();
  EXPECT_EQ(captures.alive(), 0);
}

TEST(OneType, AnEngineOfNoKindIsRefused) {
  EXPECT_THROW(manual_timer({.engine = static_cast<engine_kind>(9)}), timer_error);
}

}  // namespace
}  // namespace timing_wheel::test
