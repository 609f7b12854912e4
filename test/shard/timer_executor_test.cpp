// Executors, waiting cancels and the ways to stop, in real time. As in timer_realtime_test.cpp, late is a failure only
// after `patience`.

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "support/meeting.hpp"
#include "support/service_captures.hpp"
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

/// Callbacks on the thread of the service.
class TimerInline : public testing::Test {
 protected:
  timer& service() { return service_; }

 private:
  timer service_;
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

TEST_F(TimerOnAPool, ATimerThatWaitsForABusyExecutorCanBeCancelled) {
  latch go_on(1);
  std::atomic<int> runs{0};
  for (int i = 0; i < 2; ++i) {
    service().schedule_after(0ns, [&] { go_on.wait(); });
  }
  ASSERT_TRUE(eventually([&] { return service().stats().running == 2; }));
  const timer_handle handle = service().schedule_after(0ns, [&] { ++runs; });
  ASSERT_TRUE(eventually([&] { return service().stats().due == 1; }));
  EXPECT_EQ(handle.cancel_and_wait(), cancel_result::cancelled);
  EXPECT_EQ(service().stats().due, 0U);
  go_on.count_down();
  service().stop();
  EXPECT_EQ(runs, 0);
}

// ---- cancel_and_wait ----

TEST_F(TimerOnAPool, ACallbackWaitsForAnother) {
  latch begun(1);
  latch waits(1);
  std::atomic<bool> ended{false};
  std::atomic<bool> waited{false};
  const timer_handle slow = service().schedule_after(0ns, [&] {
    begun.count_down();
    waits.wait();
    settle();
    ended = true;
  });
  begun.wait();
  service().schedule_after(0ns, [&] {
    waits.count_down();
    EXPECT_EQ(slow.cancel_and_wait(), cancel_result::running);
    waited = ended.load();
  });
  EXPECT_TRUE(eventually([&] { return waited.load(); }));
}

// ---- stop_drain(until) ----

TEST_F(TimerInline, DrainFromACallbackReturnsWhatHasNotBegunInTime) {
  std::atomic<int> runs{0};
  std::atomic<int> returned{-1};
  with_all_due_at_once(service(), [&](time_point due) {
    service().schedule_at(
        due, [&] { returned = static_cast<int>(service().stop_drain(steady_clock::now() + 20ms).size()); });
    for (int i = 0; i < 600; ++i) {
      service().schedule_at(due, [&] {
        ++runs;
        std::this_thread::sleep_for(1ms);
      });
    }
  });
  ASSERT_TRUE(eventually([&] { return returned >= 0; }));
  EXPECT_GT(returned, 0);
  EXPECT_EQ(runs + returned, 600);
}

TEST_F(TimerInline, DrainFromACallbackEndsWhenAnotherCallbackStops) {
  std::atomic<int> drained{-1};
  std::atomic<int> stopped{-1};
  service().schedule_after(24h, nothing);
  with_all_due_at_once(service(), [&](time_point due) {
    service().schedule_at(due, [&] { drained = static_cast<int>(service().stop_drain(time_point::max()).size()); });
    service().schedule_at(due, [&] { stopped = static_cast<int>(service().stop().size()); });
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

TEST_F(TimerOnAPool, TheDestructorWaitsForTheCallbacksThatRun) {
  live_captures captures;
  latch begun(2);
  std::atomic<int> ended{0};
  for (int i = 0; i < 10; ++i) {
    service().schedule_after(1ms, [&, &one = service(), token = captures.make()] {
      begun.count_down();
      EXPECT_TRUE(eventually([&] { return one.stopped(); }));  // by the destructor
      settle();
      ++ended;
    });
  }
  begun.wait();
  destroy_service();
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(captures.alive(), 0) << "those that the pool still holds have none";
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

TEST(TimerOnAPoolOfItsOwn, TheDestructorInACallbackReturnsAtOnce) {
  boost::asio::thread_pool pool(2);
  std::atomic<bool> destroyed{false};
  std::atomic<int> posting{0};  // the pool must not go while the poller is still in it
  auto service = std::make_unique<timer>(timer_options{.executor = [&](task&& work) {
    ++posting;
    asio_executor(pool)(std::move(work));
    --posting;
  }});
  service->schedule_after(1ms, [&] {
    service.reset();
    destroyed = true;
  });
  EXPECT_TRUE(eventually([&] { return destroyed.load() && posting == 0; }));
  pool.join();
}

}  // namespace
}  // namespace timing_wheel::test
