/// \file
/// What a caller meets at the front door: keys, the text and the hash of handles, what a refusal leaves, and what a token costs.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "service/key_code.hpp"
#include "support/allocation.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

// ---- Keys ----

TEST(Key, CancelsItsTimerOnce) {
  manual_timer timer;
  bool ran = false;
  const std::uint64_t key = timer.schedule_after(1ms, [&] { ran = true; }).key();
  EXPECT_EQ(timer.cancel(key), cancel_result::cancelled);
  EXPECT_EQ(timer.cancel(key), cancel_result::finished);
  timer.advance_by(1s);
  EXPECT_FALSE(ran);
}

TEST(Key, OfARunningTimerSaysRunning) {
  manual_timer timer;
  cancel_result answer = cancel_result::finished;
  timer.schedule_after(1ms, [&](const timer_handle& self) { answer = timer.cancel(self.key()); });
  timer.advance_by(1ms);
  EXPECT_EQ(answer, cancel_result::running);
}

TEST(Key, OfAFinishedTimerWhosePlaceIsUsedAgainFitsNothing) {
  manual_timer timer;
  const std::uint64_t stale = timer.schedule_after(1ms, nothing).key();
  timer.advance_by(1ms);
  const timer_handle next = timer.schedule_after(1ms, nothing);
  EXPECT_NE(next.key(), stale);
  EXPECT_EQ(timer.cancel(stale), cancel_result::finished);
  EXPECT_EQ(next.status(), timer_status::pending);
}

TEST(Key, StaysTheSameOverTheRunsOfAPeriodicTimer) {
  manual_timer timer;
  std::set<std::uint64_t> keys;
  const timer_handle handle = timer.schedule_every(1ms, [&](const timer_handle& self) { keys.insert(self.key()); });
  timer.advance_by(10ms);
  EXPECT_EQ(keys, std::set{handle.key()});
  EXPECT_EQ(timer.cancel(handle.key()), cancel_result::cancelled);
}

TEST(Key, OfAnotherServiceFitsNothing) {
  constexpr std::size_t many = 20'000;
  manual_timer mine;
  manual_timer other;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < many; ++i) {
    mine.schedule_after(1h, nothing);
    keys.push_back(other.schedule_after(1h, nothing).key());
  }
  for (const std::uint64_t key : keys) {
    ASSERT_EQ(mine.cancel(key), cancel_result::finished);
  }
  EXPECT_EQ(mine.pending(), many);
}

TEST(Key, OfNoTimerIsZeroAndFitsNothing) {
  manual_timer timer;
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer_handle().key(), 0U);
  EXPECT_EQ(timer.cancel(0), cancel_result::finished);
  EXPECT_EQ(timer.cancel(UINT64_MAX), cancel_result::finished);
  EXPECT_EQ(timer.pending(), 1U);
}

TEST(Key, IsUniqueOverShardsPlacesAndUses) {
  std::set<std::uint64_t> keys;
  manual_timer timer({.shards = 3});
  for (int round = 0; round < 50; ++round) {
    std::vector<timer_handle> handles(100);
    for (timer_handle& one : handles) {
      one = timer.schedule_after(1h, nothing);
      ASSERT_NE(one.key(), 0U);
      ASSERT_TRUE(keys.insert(one.key()).second);
    }
    for (const timer_handle& one : handles) {
      EXPECT_EQ(timer.cancel(one.key()), cancel_result::cancelled);
    }
  }
}

TEST(KeyCode, GivesBackTheShardAndTheIdOfItsKeys) {
  const int here = 0;
  const detail::key_code code(&here, std::chrono::steady_clock::now());
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto shard = static_cast<std::uint32_t>(random() % 1'024);
    const detail::timer_id id{static_cast<std::uint32_t>(random() % (1U << detail::number_bits)),
                              static_cast<std::uint32_t>(1 + random() % ((1U << detail::generation_bits) - 1))};
    const auto [same_shard, same_id] = code.place_of(code.key_of(shard, id));
    ASSERT_EQ(same_shard, shard);
    ASSERT_EQ(same_id, id);
  }
}

// ---- Text and hash ----

TEST(HandleText, NamesTheShardThePlaceAndItsUse) {
  manual_timer timer;
  EXPECT_EQ(to_string(timer.schedule_after(1s, nothing)), "timer 0/0#1: pending, 1000 ms left");
  const timer_handle second = timer.schedule_after(2s, nothing);
  EXPECT_EQ(to_string(second), "timer 0/1#1: pending, 2000 ms left");
  second.cancel();
  EXPECT_EQ(to_string(second), "timer 0/1#1: finished");
  EXPECT_EQ(to_string(timer.schedule_after(3s, nothing)), "timer 0/1#2: pending, 3000 ms left");
}

TEST(HandleText, IsWhatIsPrinted) {
  manual_timer timer;
  std::ostringstream printed;
  const timer_handle handle = timer.schedule_after(1s, nothing);
  printed << handle;
  EXPECT_EQ(printed.str(), to_string(handle));
  EXPECT_EQ(to_string(timer_handle()), "no timer");
#if defined(__cpp_lib_format)
  EXPECT_EQ(std::format("{:.9}", handle), "timer 0/0");
#endif
}

TEST(HandleText, EqualHandlesHaveEqualHashes) {
  manual_timer timer;
  manual_timer other;
  const timer_handle handle = timer.schedule_after(1s, nothing);
  const timer_handle copy = handle;  // NOLINT(performance-unnecessary-copy-initialization): it is what is tested
  const std::hash<timer_handle> hash_of;
  EXPECT_EQ(hash_of(handle), hash_of(copy));
  std::unordered_set<timer_handle> all{handle, copy, other.schedule_after(1s, nothing), timer_handle()};
  EXPECT_EQ(all.size(), 3U);
  std::set<std::size_t> hashes;
  for (int i = 0; i < 1'000; ++i) {
    hashes.insert(hash_of(timer.schedule_after(1s, nothing)));
  }
  EXPECT_GT(hashes.size(), 990U);
}

// ---- What a refusal leaves ----

/// A callable that can only be moved, of `Size` bytes beside its content, which shows whether it was moved from.
template <std::size_t Size, bool Noexcept = true>
class moved_only {
 public:
  explicit moved_only(int content) : content_(std::make_unique<int>(content)) {}
  moved_only(moved_only&& other) noexcept(Noexcept) : content_(std::move(other.content_)) {}
  moved_only& operator=(moved_only&&) = delete;
  ~moved_only() = default;
  void operator()() const {}
  [[nodiscard]] bool has_content() const { return content_ != nullptr; }

 private:
  std::unique_ptr<int> content_;
  std::array<std::byte, Size> rest_{};
};

template <class Callable>
class Refusal : public testing::Test {};
using callables = testing::Types<moved_only<8>, moved_only<200>, moved_only<8, false>>;
TYPED_TEST_SUITE(Refusal, callables);

/// Calls each form of each verb with `callback`, and checks that it was refused and left as it was.
template <class Callable>
void expect_all_refuse(timer& refusing, Callable& callback, const schedule_options& options) {
  std::error_code error;
  auto rule = [](time_point previous) { return std::optional(previous + 1ms); };
  EXPECT_ANY_THROW(refusing.schedule_after(1ms, std::move(callback), options));
  EXPECT_ANY_THROW(refusing.schedule_at(refusing.now(), std::move(callback), options));
  EXPECT_ANY_THROW(refusing.schedule_every(1ms, std::move(callback), fixed_rate_skip, options));
  EXPECT_ANY_THROW(refusing.schedule_every(1ms, std::move(callback), options));
  EXPECT_ANY_THROW(refusing.schedule_with(rule, std::move(callback), options));
  const auto refused = [&](const timer_handle& handle) { return !handle && std::exchange(error, {}); };
  EXPECT_TRUE(refused(refusing.schedule_after(1ms, std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_after(1ms, std::move(callback), error)));
  EXPECT_TRUE(refused(refusing.schedule_at(std::chrono::system_clock::now(), std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_at(refusing.now(), std::move(callback), error)));
  EXPECT_TRUE(refused(refusing.schedule_every(1ms, std::move(callback), fixed_delay, options, error)));
  EXPECT_TRUE(refused(refusing.schedule_every(1ms, std::move(callback), fixed_delay, error)));
  EXPECT_TRUE(refused(refusing.schedule_every(1ms, std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_every(1ms, std::move(callback), error)));
  EXPECT_TRUE(refused(refusing.schedule_with(rule, std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_with(rule, std::move(callback), error)));
  EXPECT_TRUE(callback.has_content());
}

TYPED_TEST(Refusal, OfAFullServiceLeavesTheCallableWithTheCaller) {
  manual_timer full({.max_pending = 0});
  TypeParam callback(7);
  expect_all_refuse(full, callback, {});
}

TYPED_TEST(Refusal, OfAStoppedServiceLeavesTheCallableWithTheCaller) {
  manual_timer stopped;
  stopped.stop();
  TypeParam callback(7);
  expect_all_refuse(stopped, callback, {.tag = 3});
}

TYPED_TEST(Refusal, WithATokenLeavesTheCallableWithTheCaller) {
  manual_timer full({.max_pending = 0});
  const std::stop_source source;
  TypeParam callback(7);
  expect_all_refuse(full, callback, {.stop = source.get_token()});
}

TYPED_TEST(Refusal, ForWantOfMemoryLeavesTheCallableWithTheCaller) {
  for (std::uint64_t left = 0; left < 100; ++left) {
    manual_timer timer;
    const std::stop_source source;
    TypeParam callback(7);
    std::error_code error;
    {
      const scarce_memory limit(left);
      timer.schedule_after(30min, std::move(callback), {.stop = source.get_token()}, error);
    }
    EXPECT_EQ(callback.has_content(), static_cast<bool>(error)) << left;
    EXPECT_EQ(timer.pending(), error ? 0U : 1U) << left;
    if (!error) {
      EXPECT_GT(left, 0U);
      return;
    }
    EXPECT_EQ(error, std::errc::not_enough_memory);
  }
  FAIL() << "never enough memory";
}

TYPED_TEST(Refusal, OfAnInvalidPeriodLeavesTheCallableWithTheCaller) {
  manual_timer timer;
  TypeParam callback(7);
  EXPECT_THROW(timer.schedule_every(0ms, std::move(callback)), timer_error);
  EXPECT_TRUE(callback.has_content());
}

TYPED_TEST(Refusal, AnAcceptedCallableIsMovedOnce) {
  manual_timer timer;
  TypeParam callback(7);
  timer.schedule_after(1ms, std::move(callback));
  EXPECT_FALSE(callback.has_content());
}

TEST(RefusalOfARule, LeavesTheRuleWithTheCaller) {
  manual_timer full({.max_pending = 0});
  auto rule = [left = std::make_unique<int>(3)](time_point previous) {
    return --*left > 0 ? std::optional(previous + 1ms) : std::nullopt;
  };
  EXPECT_THROW(full.schedule_with(std::move(rule), nothing), timer_error);
  manual_timer open;
  int runs = 0;
  open.schedule_with(std::move(rule), [&] { ++runs; });
  open.advance_by(1s);
  EXPECT_EQ(runs, 1) << "it was asked once by each service, and once after the run";
}

TEST(RefusalOfACopy, LeavesAnLvalueAsItWas) {
  manual_timer timer;
  const std::shared_ptr<int> content = std::make_shared<int>(7);
  const auto callback = [content] {};
  timer.schedule_after(1ms, callback);
  EXPECT_EQ(content.use_count(), 3);
  timer.advance_by(1ms);
  EXPECT_EQ(content.use_count(), 2);
}

TEST(RefusalOfALargeCallable, LeavesNoMemoryBehind) {
  manual_timer full({.max_pending = 0});
  std::error_code error;
  const auto refuse = [&] {
    full.schedule_after(
        1ms, [large = std::array<char, 200>()] { static_cast<void>(large); }, error);
  };
  refuse();
  const std::size_t before = allocations.live_bytes;
  refuse();
  EXPECT_EQ(error, timer_errc::too_many_pending);
  EXPECT_EQ(allocations.live_bytes, before);
}

struct throws_when_moved {
  throws_when_moved() = default;
  throws_when_moved(throws_when_moved&& /*other*/) noexcept(false) { throw std::runtime_error("moved"); }
  throws_when_moved& operator=(throws_when_moved&&) = delete;
  ~throws_when_moved() = default;
  void operator()() const {}
};

TEST(Refusal, ACallableThatCannotBeMovedLeavesNoTimer) {
  manual_timer timer({.max_pending = 1});
  EXPECT_THROW(timer.schedule_after(1ms, throws_when_moved()), std::runtime_error);
  EXPECT_THROW(timer.schedule_every(1ms, throws_when_moved()), std::runtime_error);
  const timer_stats stats = timer.stats();
  EXPECT_EQ(stats.scheduled, 0U);
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_TRUE(timer.schedule_after(1ms, nothing)) << "its place under the limit was given back";
  EXPECT_EQ(timer.advance_by(1s), 1U);
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
  timer.schedule_every(1ms, count, options);
  timer.schedule_with([](time_point previous) { return std::optional(previous + 1ms); }, count, options);
  EXPECT_EQ(timer.pending(), 4U);
  source.request_stop();
  EXPECT_EQ(timer.pending(), 0U);
  timer.advance_by(1s);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(timer.stats().cancelled, 4U);
}

// ---- One type ----

static_assert(std::is_base_of_v<timer, manual_timer>);
static_assert(std::is_base_of_v<timer, loop_timer>);
static_assert(std::has_virtual_destructor_v<timer>);

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

TEST(ManualTimer, TellsItsNextEvent) {
  manual_timer timer({.tick = 10ms});
  EXPECT_EQ(timer.next_event(), std::nullopt);
  const timer_handle far = timer.schedule_after(25ms, nothing);
  EXPECT_EQ(timer.next_event(), at(30ms));
  timer.schedule_after(-1ms, nothing);
  EXPECT_EQ(timer.next_event(), at(0ms));
  timer.advance_to(at(7ms));
  EXPECT_EQ(timer.next_event(), at(30ms));
  far.cancel();
  EXPECT_EQ(timer.next_event(), std::nullopt);
}

// ---- reschedule ----

TEST(Reschedule, TakesDeadlinesOfTheWallClock) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1h, nothing);
  EXPECT_TRUE(handle.reschedule(std::chrono::system_clock::time_point(2h)));
  EXPECT_EQ(handle.deadline(), at(2h));
}

TEST(Reschedule, ByErrorCodeReportsWantOfMemoryAndMovesNothing) {
  manual_timer timer({.wheel_size = 2});
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  std::error_code error = std::make_error_code(std::errc::interrupted);
  {
    const scarce_memory limit(0);
    EXPECT_FALSE(handle.reschedule_after(100h, error));
  }
  EXPECT_EQ(error, std::errc::not_enough_memory);
  EXPECT_EQ(handle.deadline(), at(1ms));
  EXPECT_TRUE(handle.reschedule(at(100h), error));
  EXPECT_FALSE(error);
  handle.cancel();
  EXPECT_FALSE(handle.reschedule(at(1h), error));
  EXPECT_FALSE(error) << "not pending is an answer, no error";
}

}  // namespace
}  // namespace timing_wheel::test
