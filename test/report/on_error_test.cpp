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
using testing::IsEmpty;

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

}  // namespace
}  // namespace timing_wheel::test
