/// \file
/// A service that its own callback destroys.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// An executor or a handler that shows when the service has let go of it.
struct watched {
  std::shared_ptr<int> held = std::make_shared<int>(0);
  [[nodiscard]] auto as_on_error() const {
    return [kept = held](const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) {};
  }
  [[nodiscard]] bool is_free() const { return held.use_count() == 1; }
};

TEST(SelfDestruction, InACallbackOnThePollerEndsTheServiceOnceTheCallbackHasEnded) {
  live_captures captures;
  const watched handler;
  auto service = std::make_unique<timer>(timer_options{.on_error = handler.as_on_error()});
  const timer_handle other = service->schedule_after(1h, [token = captures.make()] {});
  std::atomic<bool> destroyed{false};
  service->schedule_after(1ms, [&, token = captures.make()] {
    service.reset();
    EXPECT_EQ(captures.alive(), 1) << "of those that are pending nothing is left; this callback still has its own";
    destroyed = true;
  });
  EXPECT_TRUE(eventually([&] { return destroyed.load(); }));
  EXPECT_TRUE(eventually([&] { return captures.alive() == 0 && handler.is_free(); }));
  EXPECT_EQ(other.cancel(), cancel_result::finished);
}

TEST(SelfDestruction, InACallbackOnThePollerEndsAScheduleOfManyThatIsUnderWay) {
  live_captures captures;
  bool interrupted = false;
  // The longer the call takes, the surer the poller gets in, even on a machine whose other cores are busy.
  for (std::size_t count = 20'000; count < 10'000'000 && !interrupted; count += count / 4) {
    auto service = std::make_unique<timer>();
    timer& front = *service;
    std::vector<pending_task> timers(count);
    for (pending_task& one : timers) {
      one.callback = task([token = captures.make()] {});
    }
    timers.front().callback = task([&] { service.reset(); });
    std::error_code error;
    const std::size_t done = front.schedule_many(timers, {}, error);
    interrupted = done < timers.size();
    EXPECT_EQ(error, interrupted ? std::error_code(timer_errc::stopped) : std::error_code());
    EXPECT_TRUE(eventually([&] { return captures.alive() == static_cast<std::int64_t>(timers.size() - done); }));
  }
  EXPECT_TRUE(interrupted);
}

TEST(SelfDestruction, OnAThreadOfAnExecutorEndsIt) {
  const watched handler;
  std::thread worker;
  std::atomic<bool> begun{false};
  auto service = std::make_unique<timer>(timer_options{.executor =
                                                           [&](task&& work) {
                                                             worker = std::thread(std::move(work));
                                                             begun = true;
                                                           },
                                                       .on_error = handler.as_on_error()});
  service->schedule_after(1ms, [&] { service.reset(); });
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  worker.join();
  EXPECT_TRUE(eventually([&] { return handler.is_free(); }));
}

TEST(SelfDestruction, InTheExecutorEndsItAndLosesNoCapture) {
  live_captures captures;
  std::unique_ptr<manual_timer> service;
  service = std::make_unique<manual_timer>(timer_options{.executor = [&](task&&) { service.reset(); }});
  service->schedule_after(1ms, [token = captures.make()] {});
  service->schedule_after(1ms, [token = captures.make()] {});
  service->advance_to(at(1h));
  EXPECT_EQ(service, nullptr);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(SelfDestruction, InOnErrorEndsIt) {
  std::unique_ptr<manual_timer> service;
  const auto destroy = [&](const std::exception_ptr&, std::uint64_t) { service.reset(); };
  service = std::make_unique<manual_timer>(timer_options{.on_error = destroy});
  service->schedule_every(1ms, [] { throw std::runtime_error("asked for"); });
  service->advance_to(at(1h));
  EXPECT_EQ(service, nullptr);
}

TEST(SelfDestruction, OfManyServicesAtOnceLeavesNothing) {
  const watched handler;
  for (int i = 0; i < 50; ++i) {
    auto service = std::make_shared<timer>(timer_options{.shards = 2, .on_error = handler.as_on_error()});
    for (int k = 0; k < 5; ++k) {
      service->schedule_after(1ms, [service] {});
    }
  }
  EXPECT_TRUE(eventually([&] { return handler.is_free(); }));
}

}  // namespace
}  // namespace timing_wheel::test
