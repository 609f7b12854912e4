/// \file
/// `on_error`: what callbacks, rules and executors throw.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct told_error {
  std::string what;
  std::uint64_t tag;
  friend bool operator==(const told_error&, const told_error&) = default;
};

std::string what_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "not an exception";
  }
}

/// Options whose `on_error` writes into `reports`.
timer_options reporting_to(std::vector<told_error>& reports) {
  return {.on_error = [&reports](const std::exception_ptr& failure, std::uint64_t tag) {
    reports.push_back({what_of(failure), tag});
  }};
}

TEST(OnError, GetsWhatACallbackThrewWithItsTag) {
  captured_stderr output;
  std::vector<told_error> reports;
  manual_timer timer(reporting_to(reports));
  timer.schedule_after(1ms, [] { throw std::runtime_error("first"); }, {.tag = 1});
  timer.schedule_after(1ms, nothing, {.tag = 2});
  timer.schedule_every(2ms, [] { throw 42; }, {.policy = fixed_delay, .tag = 3});
  EXPECT_EQ(timer.advance_by(4ms), 4U);
  EXPECT_THAT(reports, ElementsAre(told_error{"first", 1}, told_error{"not an exception", 3},
                                   told_error{"not an exception", 3}));
  EXPECT_EQ(timer.stats().failed, 3U);
  EXPECT_THAT(output.text(), IsEmpty());
}

TEST(OnError, GetsWhatARuleThrew) {
  std::vector<told_error> reports;
  manual_timer timer(reporting_to(reports));
  int asked = 0;
  timer.schedule_with(
      [&](time_point previous) { return ++asked == 1 ? previous + 1ms : throw std::runtime_error("rule"); }, nothing,
      {.tag = 9});
  timer.advance_by(1h);
  EXPECT_THAT(reports, ElementsAre(told_error{"rule", 9}));
}

TEST(OnError, GetsWhatTheExecutorThrew) {
  std::vector<told_error> reports;
  timer_options options = reporting_to(reports);
  int refusals = 1;
  options.executor = [&](task&& work) {
    if (refusals-- > 0) {
      throw std::runtime_error("executor");
    }
    work();
  };
  manual_timer timer(options);
  timer.schedule_after(1ms, nothing, {.tag = 11});
  timer.advance_by(10ms);
  EXPECT_THAT(reports, ElementsAre(told_error{"executor", 11}));
  EXPECT_EQ(timer.stats().fired, 1U);
}

TEST(OnError, MayUseTheService) {
  std::vector<std::size_t> returned;
  manual_timer* service = nullptr;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) {
    service->schedule_after(1ms, nothing);
    returned.push_back(service->stop().size());
  }});
  service = &timer;
  timer.schedule_after(1ms, [] { throw std::runtime_error("asked for"); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_THAT(returned, ElementsAre(1U));
}

TEST(OnError, ThatThrowsLeavesItsServiceAlive) {
  captured_stderr output;
  manual_timer timer(
      {.on_error = [](const std::exception_ptr&, std::uint64_t) { throw std::runtime_error("handler"); }});
  timer.schedule_after(1ms, [] { throw std::runtime_error("original"); });
  timer.schedule_after(2ms, nothing);
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_EQ(timer.stats().failed, 1U);
  EXPECT_THAT(output.text(), HasSubstr("original"));
}

TEST(OnError, WithoutItEachKindIsWrittenOncePerSecond) {
  captured_stderr output;
  manual_timer timer;
  for (int i = 0; i < 100; ++i) {
    timer.schedule_after(1ms, [] { throw std::runtime_error("kind-A"); });
    timer.schedule_after(500ms, [] { throw std::runtime_error("kind-A"); });
    timer.schedule_after(500ms, [] { throw std::runtime_error("kind-B"); });
    timer.schedule_after(1200ms, [] { throw std::runtime_error("kind-A"); });
  }
  timer.advance_by(3s);
  const std::string text = output.text();
  EXPECT_EQ(occurrences(text, "kind-A"), 2U) << text;
  EXPECT_EQ(occurrences(text, "kind-B"), 1U) << text;
  EXPECT_EQ(timer.stats().failed, 400U);
}

TEST(OnError, WithoutItWhatIsNoExceptionIsWrittenToo) {
  captured_stderr output;
  manual_timer timer;
  timer.schedule_after(1ms, [] { throw 42; });
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_THAT(output.text(), Not(IsEmpty()));
  EXPECT_EQ(timer.stats().failed, 1U);
}

TEST(OnError, WithoutItAThrowingExecutorIsWrittenToo) {
  captured_stderr output;
  bool refuse = true;
  manual_timer timer({.executor = [&](task&& work) { refuse ? throw std::runtime_error("full") : work(); }});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  refuse = false;
  timer.advance_by(10ms);
  EXPECT_THAT(output.text(), HasSubstr("full"));
  EXPECT_EQ(timer.stats().fired, 1U);
}

}  // namespace
}  // namespace timing_wheel::test
