/// \file
/// Timers that a `std::stop_token` cancels.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

// ---- Stop tokens ----

TEST(StopToken, OfADestroyedSourceNeverCancels) {
  live_captures captures;
  manual_timer timer;
  {
    std::stop_source stop;
    timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
  }
  EXPECT_EQ(captures.alive(), 1);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(StopToken, MayOutliveTheService) {
  live_captures captures;
  std::stop_source stop;
  {
    manual_timer timer;
    timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
    timer.schedule_every(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
    timer.advance_by(1ms);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_TRUE(stop.request_stop());
}

TEST(StopToken, DoesNotKeepAReturnedCallableFromBeingCalled) {
  std::stop_source stop;
  int runs = 0;
  std::vector<pending_task> left;
  {
    manual_timer timer;
    timer.schedule_after(1ms, [&] { ++runs; }, {.stop = stop.get_token()});
    timer.schedule_every(1ms, [&] { ++runs; }, {.stop = stop.get_token()});
    left = timer.stop();
  }
  stop.request_stop();
  for (pending_task& one : left) {
    one.callback();
  }
  EXPECT_EQ(runs, 2);
}

TEST(StopToken, MayBeStoppedByACaptureThatDies) {
  std::stop_source stop;
  manual_timer timer;
  timer.schedule_after(1ms, [last = on_destruction([&] { stop.request_stop(); })] {}, {.stop = stop.get_token()});
  const timer_handle other = timer.schedule_after(1h, nothing, {.stop = stop.get_token()});
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(other.status(), timer_status::finished);
}

TEST(StopToken, MayBeOwnedByTheCallableItself) {
  live_captures captures;
  manual_timer timer;
  std::stop_source stop;
  std::stop_token token = stop.get_token();
  timer.schedule_every(1ms, [own = std::move(stop), alive = captures.make()]() mutable { own.request_stop(); },
                       {.stop = token});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

// ---- Tokens ----

std::uint64_t allocations_of(timer& service, const schedule_options& options) {
  timer_handle handle;
  const std::uint64_t count = count_allocations([&] { handle = service.schedule_after(1h, nothing, options); });
  handle.cancel();
  return count;
}

TEST(StopTokenOption, CostsNothingWhereNoneIsGiven) {
  manual_timer timer;
  allocations_of(timer, {});  // the first page
  EXPECT_EQ(allocations_of(timer, {}), 0U);
  EXPECT_EQ(allocations_of(timer, {.tag = 7}), 0U);
  EXPECT_EQ(allocations_of(timer, {.stop = std::stop_token()}), 0U) << "it can never be stopped";
}

TEST(StopTokenOption, CostsOneAllocation) {
  manual_timer timer;
  const std::stop_source source;
  allocations_of(timer, {});
  EXPECT_EQ(allocations_of(timer, {.stop = source.get_token()}), 1U);
}

// Schedules what `make(captures)` gives with a token, once and periodically; lets it run, and lets the token end it.
template <class Make>
void expect_runs_and_ends_by_token(Make make) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer;
  std::uint64_t runs = 0;
  timer.schedule_after(1ms, make(captures, runs), {.stop = stop.get_token()});
  timer.schedule_after(3ms, make(captures, runs), {.stop = stop.get_token()});
  EXPECT_EQ(captures.alive(), 2);
  timer.advance_by(1ms);
  EXPECT_EQ(runs, 1U);
  EXPECT_EQ(captures.alive(), 1);
  timer.schedule_every(1ms, make(captures, runs), {.stop = stop.get_token()});
  timer.advance_by(1ms);
  EXPECT_EQ(runs, 2U);
  EXPECT_EQ(captures.alive(), 2);
  stop.request_stop();
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(runs, 2U);
  EXPECT_TRUE(conserved(timer));
}

TEST(StopTokenOption, EndsALargeCallable) {
  expect_runs_and_ends_by_token([](live_captures& captures, std::uint64_t& runs) {
    return [&runs, token = captures.make(), filler = std::array<std::uint64_t, 25>{1}] { runs += filler[0]; };
  });
}

TEST(StopTokenOption, EndsAnOverAlignedCallableAtItsAlignment) {
  struct alignas(128) aligned {
    std::byte first{};
  };
  expect_runs_and_ends_by_token([](live_captures& captures, std::uint64_t& runs) {
    return [&runs, token = captures.make(), last = aligned()] {
      runs += reinterpret_cast<std::uintptr_t>(&last.first) % alignof(aligned) == 0 ? 1U : 1000U;
    };
  });
}

TEST(StopTokenOption, EndsATaskThatWasMadeBefore) {
  expect_runs_and_ends_by_token(
      [](live_captures& captures, std::uint64_t& runs) { return task([&runs, token = captures.make()] { ++runs; }); });
}

TEST(StopTokenOption, LeavesNothingBehindWhateverEndsTheTimer) {
  live_captures captures;
  const std::stop_source source;
  manual_timer timer;
  const auto schedule = [&] {
    return timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = source.get_token()});
  };
  for (int i = 0; i < 10; ++i) {
    schedule().cancel();
    schedule();
    timer.advance_by(1ms);
  }
  const std::size_t before = allocations.live_bytes;
  schedule().cancel();
  schedule();
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(allocations.live_bytes, before);
  schedule();
  timer.stop().clear();
  EXPECT_EQ(captures.alive(), 0);
  std::error_code error;
  timer.schedule_after(
      1ms, [token = captures.make()] {}, {.stop = source.get_token()}, error);
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(StopTokenOption, EndsEachVerb) {
  std::stop_source source;
  manual_timer timer;
  int runs = 0;
  const auto count = [&] { ++runs; };
  const schedule_options options{.tag = 5, .stop = source.get_token()};
  timer.schedule_after(1ms, count, options);
  timer.schedule_at(timer.now() + 1ms, count, options);
  timer.schedule_every(1ms, count, {.tag = 5, .stop = source.get_token()});
  timer.schedule_with([](time_point previous) { return std::optional(previous + 1ms); }, count, options);
  EXPECT_EQ(timer.pending(), 4U);
  source.request_stop();
  EXPECT_EQ(timer.pending(), 0U);
  timer.advance_by(1s);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(timer.stats().cancelled, 4U);
}

}  // namespace
}  // namespace timing_wheel::test
