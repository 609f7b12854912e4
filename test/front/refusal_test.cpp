/// \file
/// A refusal leaves the callable with the caller.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>

#include "support/allocation.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

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
  const periodic_options periodic{.policy = fixed_rate_skip, .tag = options.tag, .stop = options.stop};
  std::error_code error;
  auto rule = [](time_point previous) { return std::optional(previous + 1ms); };
  EXPECT_ANY_THROW(refusing.schedule_after(1ms, std::move(callback), options));
  EXPECT_ANY_THROW(refusing.schedule_at(refusing.now(), std::move(callback), options));
  EXPECT_ANY_THROW(refusing.schedule_every(1ms, std::move(callback), periodic));
  EXPECT_ANY_THROW(refusing.schedule_with(rule, std::move(callback), options));
  const auto refused = [&](const timer_handle& handle) { return !handle && std::exchange(error, {}); };
  EXPECT_TRUE(refused(refusing.schedule_after(1ms, std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_after(1ms, std::move(callback), {}, error)));
  EXPECT_TRUE(refused(refusing.schedule_at(std::chrono::system_clock::now(), std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_at(refusing.now(), std::move(callback), {}, error)));
  EXPECT_TRUE(refused(refusing.schedule_every(1ms, std::move(callback), periodic, error)));
  EXPECT_TRUE(refused(refusing.schedule_every(1ms, std::move(callback), {}, error)));
  EXPECT_TRUE(refused(refusing.schedule_with(rule, std::move(callback), options, error)));
  EXPECT_TRUE(refused(refusing.schedule_with(rule, std::move(callback), {}, error)));
  EXPECT_TRUE(callback.has_content());
}

TYPED_TEST(Refusal, OfAFullOrAStoppedServiceLeavesTheCallableWithTheCaller) {
  manual_timer full({.max_pending = 0});
  manual_timer stopped;
  stopped.stop();
  const std::stop_source source;
  TypeParam callback(7);
  for (const schedule_options& options : {schedule_options(), {.tag = 3}, {.stop = source.get_token()}}) {
    expect_all_refuse(full, callback, options);
    expect_all_refuse(stopped, callback, options);
  }
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
        1ms, [large = std::array<char, 200>()] { static_cast<void>(large); }, {}, error);
  };
  refuse();
  const std::size_t before = allocations.live_bytes;
  refuse();
  EXPECT_EQ(error, timer_errc::too_many_pending);
  EXPECT_EQ(allocations.live_bytes, before);
}

}  // namespace
}  // namespace timing_wheel::test
