/// \file
/// The snippets of docs/coming_from/peers.md, for users of Dubbo, Netty, Kafka and its port to Go. docs/guarantees.md
/// names the tests that hold the rest of that page.
///
/// What lies between `// snippet NAME` and `// end` stands in that page to the letter; the test `pages` sees to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::SizeIs;

// snippet dubbo
std::size_t retry_until_sent(const std::function<bool()>& send, std::vector<std::uint64_t>& not_sent) {
  manual_timer timer({.tick = 1s, .wheel_size = 32, .engine = engine_kind::hashed, .max_pending = 100'000});
  const auto attempt = [&send](const timer_handle& self) {
    if (send()) {
      self.cancel();
    }
  };
  timer.schedule_every(5s, attempt, {.policy = fixed_delay, .tag = 1001});
  const timer_handle other = timer.schedule_after(1min, [] {}, {.tag = 1002});
  const bool cancelled = other.cancel() == cancel_result::cancelled;
  timer.advance_by(20s);
  for (const pending_task& left : timer.stop()) {
    not_sent.push_back(left.tag);
  }
  return cancelled && timer.stopped() ? timer.pending() : no_limit;
}
// end

// snippet netty
std::vector<std::string> read_timeout(std::deque<task>& pool) {
  std::vector<std::string> log;
  manual_timer timer({
      .tick = 10ms,
      .wheel_size = 512,
      .engine = engine_kind::hashed,
      .executor = [&pool](task&& work) { pool.push_back(std::move(work)); },
  });
  const timer_handle idle = timer.schedule_after(30s, [&log] { log.emplace_back("idle"); });
  timer.advance_by(29s);
  idle.reschedule_after(30s);
  timer.advance_by(30s);
  for (task& work : pool) {
    work();
  }
  return log;
}
// end

// snippet kafka
std::size_t expire_operations(std::vector<std::string>& expired) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  const timer_handle produce = timer.schedule_after(30s, [&expired] { expired.emplace_back("produce"); });
  timer.schedule_after(500ms, [&expired] { expired.emplace_back("fetch"); });
  produce.cancel();
  timer.advance_by(500ms);
  const std::size_t left = timer.pending();
  timer.stop();
  return left;
}
// end

// snippet go
std::vector<time_point> every_day_of_three() {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  const auto next = [](time_point previous) -> std::optional<time_point> {
    return previous < time_point(72h) ? std::optional(previous + 24h) : std::nullopt;
  };
  timer.schedule_with(next, [&] { ran.push_back(timer.now()); });
  const timer_handle after = timer.schedule_after(1h, [&] { ran.clear(); });
  const bool stopped = after.cancel() == cancel_result::cancelled;
  timer.advance_by(240h);
  return stopped ? ran : std::vector<time_point>();
}
// end

TEST(PeersPage, DubboSnippetCountsAndReturnsWhatWasNotSent) {
  std::vector<std::uint64_t> not_sent;
  int attempts = 0;
  EXPECT_EQ(retry_until_sent([&] { return ++attempts == 3; }, not_sent), 0U);
  EXPECT_THAT(not_sent, SizeIs(0));
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(retry_until_sent([] { return false; }, not_sent), 0U);
  EXPECT_THAT(not_sent, ElementsAre(1001));
}

TEST(PeersPage, NettySnippetIsIdleThirtySecondsAfterTheLastRead) {
  std::deque<task> pool;
  EXPECT_THAT(read_timeout(pool), ElementsAre("idle"));
}

TEST(PeersPage, KafkaSnippetExpiresWhatWasNotCompleted) {
  std::vector<std::string> expired;
  EXPECT_EQ(expire_operations(expired), 0U);
  EXPECT_THAT(expired, ElementsAre("fetch"));
}

TEST(PeersPage, GoSnippetRunsOnThreeDays) { EXPECT_THAT(every_day_of_three(), ElementsAre(at(24h), at(48h), at(72h))); }

}  // namespace
}  // namespace timing_wheel::test
