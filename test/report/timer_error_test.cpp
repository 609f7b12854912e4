/// \file
/// `timer_error`: codes and messages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::Key;
using testing::Not;
using testing::SizeIs;

constexpr std::array every_errc{timer_errc::stopped,        timer_errc::too_many_pending, timer_errc::invalid_option,
                                timer_errc::empty_callback, timer_errc::invalid_period,   timer_errc::nested_advance,
                                timer_errc::forked};

TEST(TimerError, EachCodeHasItsOwnMessage) {
  std::map<std::string, timer_errc> messages;
  for (const timer_errc code : every_errc) {
    const std::error_code made = code;
    EXPECT_EQ(made.category(), timer_category());
    EXPECT_EQ(make_error_code(code), made);
    EXPECT_TRUE(made);
    messages[made.message()] = code;
  }
  EXPECT_THAT(messages, SizeIs(every_errc.size()));
  EXPECT_THAT(messages, Not(testing::Contains(Key(""))));
  EXPECT_STREQ(timer_category().name(), "timing_wheel");
}

TEST(TimerError, AnUnknownCodeHasAMessageToo) { EXPECT_FALSE(timer_category().message(12345).empty()); }

static_assert(std::is_base_of_v<std::system_error, timer_error>);

TEST(TimerError, RefusesToAdvanceInACallbackOfEveryKind) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  const auto advance = [&] { codes.push_back(refusal_of([&] { timer.advance_by(1ms); }).code); };
  timer.schedule_after(1ms, advance);
  timer.schedule_every(1ms, advance);
  int left = 2;
  timer.schedule_with(
      [&](time_point previous) {
        left == 1 ? advance() : void();
        return left-- > 0 ? std::optional(previous + 1ms) : std::nullopt;
      },
      nothing);
  timer.advance_by(1ms);
  EXPECT_THAT(codes, AllOf(SizeIs(3), Each(std::error_code(timer_errc::nested_advance))));
  EXPECT_EQ(timer.now(), at(1ms));
  EXPECT_NO_THROW(timer.advance_by(1ms)) << "usable again";
}

TEST(TimerError, ACallbackThatStopRunsMayAdvanceSinceNobodyElseDoes) {
  manual_timer timer;
  timer.schedule_after(1ms, [&] { timer.advance_by(5ms); });
  EXPECT_EQ(timer.stop_run_now(), 1U);
  EXPECT_EQ(timer.now(), at(5ms));
}

TEST(TimerError, ATaskOfTheExecutorMayAdvanceWhenNobodyElseDoes) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, [&] { timer.advance_by(5ms); });
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(timer.now(), at(6ms));
}

}  // namespace
}  // namespace timing_wheel::test
