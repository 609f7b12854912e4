// Executors, waiting cancels and the ways to stop, in real time. As in timer_realtime_test.cpp, late is a failure only
// after `patience`.

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "support/meeting.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/asio.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Callbacks on a pool of two threads.
class TimerOnAPool : public testing::Test {
 protected:
  ~TimerOnAPool() override {
    service_.reset();
    pool_.join();
  }

  timer& service() { return *service_; }
  void destroy_service() { service_.reset(); }

 private:
  boost::asio::thread_pool pool_{2};
  std::optional<timer> service_{std::in_place, timer_options{.executor = asio_executor(pool_)}};
};

// ---- A task that blocks ----

TEST_F(TimerOnAPool, ATaskThatBlocksASecondDelaysNobody) {
  latch begun(1);
  latch go_on(1);
  std::atomic<int> runs{0};
  service().schedule_after(0ns, [&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  for (int i = 0; i < 100; ++i) {
    service().schedule_after(i * 10ms, [&] { ++runs; });
  }
  EXPECT_TRUE(eventually([&] { return runs == 100; })) << "the others wait for the one that blocks";
  go_on.count_down();
  destroy_service();  // its callback uses what is here
}

TEST_F(TimerOnAPool, TheBacklogOfABusyExecutorIsSeenInTheStats) {
  latch go_on(1);
  for (int i = 0; i < 10; ++i) {
    service().schedule_after(0ns, [&] { go_on.wait(); });
  }
  ASSERT_TRUE(eventually([&] { return service().stats().running == 2 && service().stats().due == 8; }));
  EXPECT_EQ(service().stats().pending, 8U);
  EXPECT_EQ(service().stats().fired, 2U);
  go_on.count_down();
  ASSERT_TRUE(eventually([&] { return service().stats().running == 0 && service().stats().fired == 10; }));
  EXPECT_EQ(service().stats().due, 0U);
}

// ---- stop_drain(until) ----

TEST(TimerInline, DrainFromACallbackReturnsWhatHasNotBegunInTime) {
  std::atomic<int> runs{0};
  std::atomic<int> returned{-1};
  timer service;
  with_all_due_at_once(service, [&](time_point due) {
    service.schedule_at(due,
                        [&] { returned = static_cast<int>(service.stop_drain(steady_clock::now() + 20ms).size()); });
    for (int i = 0; i < 600; ++i) {
      service.schedule_at(due, [&] {
        ++runs;
        std::this_thread::sleep_for(1ms);
      });
    }
  });
  ASSERT_TRUE(eventually([&] { return returned >= 0; }));
  EXPECT_GT(returned, 0);
  EXPECT_EQ(runs + returned, 600);
}

TEST(TimerInline, DrainFromACallbackEndsWhenAnotherCallbackStops) {
  std::atomic<int> drained{-1};
  std::atomic<int> stopped{-1};
  timer service;
  service.schedule_after(24h, nothing);
  with_all_due_at_once(service, [&](time_point due) {
    service.schedule_at(due, [&] { drained = static_cast<int>(service.stop_drain(time_point::max()).size()); });
    service.schedule_at(due, [&] { stopped = static_cast<int>(service.stop().size()); });
  });
  ASSERT_TRUE(eventually([&] { return drained >= 0; }));
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(drained, 0);
}

// ---- stop() and destruction ----

TEST_F(TimerOnAPool, TwoCallbacksStopAtOnce) {
  std::atomic<int> returned{0};
  latch both(2);
  service().schedule_after(1h, nothing);
  for (int i = 0; i < 2; ++i) {
    service().schedule_after(1ms, [&] {
      both.arrive_and_wait();
      returned += static_cast<int>(service().stop().size());
    });
  }
  ASSERT_TRUE(eventually([&] { return service().stopped(); }));
  service().stop();
  EXPECT_EQ(returned, 1);
}

/// A handler that stops the service when its executor is dead.
TEST(TimerExecutor, OnErrorMayStopTheServiceWhenTheExecutorThrows) {
  std::atomic<timer*> to_stop{nullptr};
  std::atomic<int> returned{-1};
  timer service({.executor = [](task&& /*work*/) { throw std::runtime_error("dead"); },
                 .on_error =
                     [&](const std::exception_ptr&, std::uint64_t) {
                       if (timer* const mine = to_stop; mine != nullptr && returned < 0) {
                         returned = static_cast<int>(mine->stop().size());
                       }
                     }});
  to_stop = &service;
  service.schedule_after(1h, nothing);
  service.schedule_after(1ms, nothing);
  EXPECT_TRUE(eventually([&] { return returned >= 0; }));
  EXPECT_EQ(returned, 2);
}

}  // namespace
}  // namespace timing_wheel::test
