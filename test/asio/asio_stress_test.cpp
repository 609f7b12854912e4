#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "asio/asio_worlds.hpp"
#include "support/service_stress.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

template <class Timers>
class AsioRaces : public in_world<Timers> {
 protected:
  // Runs the context on a thread while `race` runs here.
  template <class Race>
  void against(Race race) {
    auto work = net::make_work_guard(this->context_);
    std::thread thread([this] { this->context_.run(); });
    race();
    work.reset();
    thread.join();
  }
};

TYPED_TEST_F(AsioRaces, DestructionAgainstExpiryEndsEachWaitOnce) {
  std::atomic<int> ends = 0;
  constexpr int rounds = 400;
  this->against([&] {
    std::minstd_rand random(2);
    for (int round = 0; round < rounds; ++round) {
      typename TestFixture::timer_type timer(this->context_, std::chrono::microseconds(random() % 1500));
      timer.async_wait(handler([&](const error_code&) { ++ends; }));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
    }
  });
  EXPECT_EQ(ends, rounds);
}

TYPED_TEST_F(AsioRaces, HandlersThatArmAnewAgainstTheCallThatArmed) {
  struct beat {
    typename TestFixture::timer_type timer;
    std::atomic<int> left;
    explicit beat(net::io_context& context) : timer(context), left(50) {}
    void next() {
      timer.expires_after(0ms);
      timer.async_wait(handler([this](const error_code&) {
        if (--left > 0) {
          next();
        }
      }));
    }
  };
  this->against([this] {
    for (int round = 0; round < 40; ++round) {
      beat one(this->context_);
      one.next();
      ASSERT_TRUE(eventually([&] { return one.left == 0; }));
    }
  });
}

TYPED_TEST_F(AsioRaces, ThreadsWithTimersOfTheirOwn) {
  std::atomic<int> ends = 0;
  std::atomic<int> aborted = 0;
  std::atomic<std::size_t> cancelled = 0;
  constexpr int rounds = 3000;
  const auto churn = [&](unsigned seed) {
    std::minstd_rand random(seed);
    std::vector<typename TestFixture::timer_type> timers;
    for (int i = 0; i < 16; ++i) {
      timers.emplace_back(this->context_);
    }
    for (int round = 0; round < rounds; ++round) {
      auto& timer = timers[random() % timers.size()];
      cancelled += timer.expires_after(std::chrono::microseconds(random() % 2000));
      timer.async_wait(handler([&](const error_code& error) {
        ++ends;
        aborted += error ? 1 : 0;
      }));
    }
    for (auto& timer : timers) {
      cancelled += timer.cancel();
    }
  };
  this->against([&] {
    std::thread other(churn, 3);
    churn(4);
    other.join();
  });
  EXPECT_EQ(ends, 2 * rounds);
  EXPECT_EQ(static_cast<std::size_t>(aborted), cancelled);
}

TYPED_TEST_F(AsioRaces, LaterExpiriesAgainstExpiry) {
  std::atomic<int> ends = 0;
  std::atomic<int> aborted = 0;
  std::atomic<int> early = 0;
  int waits = 0;
  int cancelled = 0;
  this->against([&] {
    typename TestFixture::timer_type timer(this->context_);
    std::minstd_rand random(7);
    const auto pause = [&] { std::this_thread::sleep_for(std::chrono::microseconds(random() % 400)); };
    for (; waits < 1500; ++waits) {
      cancelled += static_cast<int>(timer.expires_after(std::chrono::microseconds(200 + random() % 800)));
      if (random() % 4 == 0) {
        pause();  // nobody waits
      }
      timer.async_wait(handler([&, expiry = timer.expiry()](const error_code& error) {
        ++(error ? aborted : ends);
        early += !error && clock::now() < expiry ? 1 : 0;
      }));
      pause();
    }
    cancelled += static_cast<int>(timer.cancel());
  });
  EXPECT_EQ(aborted, cancelled);
  EXPECT_EQ(ends + aborted, waits);
  EXPECT_EQ(early, 0);
}

template <class Timers>
class WheelTimerRaces : public testing::Test {
 public:
  using run_with = our_timers;
};

TYPED_TEST_F(WheelTimerRaces, TheEndOfAContextAgainstExpiries) {
  std::minstd_rand random(5);
  const auto alive = std::make_shared<int>(0);
  timing_wheel::timer shared({.tick = 100us});
  for (int round = 0; round < 60; ++round) {
    auto context = std::make_unique<net::io_context>();
    std::optional<TypeParam> world;
    if (round % 2 == 0) {
      world.emplace(*context);
    } else {
      timing_wheel::asio::use_timer(*context, shared);
    }
    std::vector<timing_wheel::asio::wheel_timer> timers;
    for (int i = 0; i < 200; ++i) {
      timers.emplace_back(*context, std::chrono::microseconds(random() % 2000));
      timers.back().async_wait(handler([alive](const error_code&) {}));
    }
    context->run_for(std::chrono::microseconds(random() % 2000));
    if (round % 3 == 0) {
      timers.clear();
    }
    context.reset();
    ASSERT_EQ(alive.use_count(), 1);
  }
}

TYPED_TEST_F(WheelTimerRaces, NewExpiriesLeaveNothingInTheWheel) {
  net::io_context context;
  TypeParam world(context);
  timing_wheel::timer& wheel = net::use_service<timing_wheel::asio::wheel_service>(context).wheel();
  auto work = net::make_work_guard(context);
  std::thread first([&] { context.run(); });
  std::thread second([&] { context.run(); });
  std::atomic<int> ends = 0;
  constexpr int rounds = 3000;
  {
    std::minstd_rand random(8);
    std::vector<timing_wheel::asio::wheel_timer> timers;
    for (int i = 0; i < 4; ++i) {
      timers.emplace_back(context);
    }
    for (int round = 0; round < rounds; ++round) {
      auto& timer = timers[random() % timers.size()];
      timer.expires_after(std::chrono::microseconds(random() % 3000));
      timer.async_wait(handler([&](const error_code&) { ++ends; }));
      if (random() % 4 == 0) {
        timer.expires_after(1h);
      }
    }
    for (auto& timer : timers) {
      timer.expires_after(1h);
    }
    ASSERT_TRUE(eventually([&] { return ends == rounds && wheel.pending() == 0; }));
  }
  work.reset();
  first.join();
  second.join();
}

TYPED_TEST_F(WheelTimerRaces, AStopOfTheWheelAgainstMoves) {
  for (int round = 0; round < 60; ++round) {
    timing_wheel::timer wheel({.tick = 100us});
    net::io_context context;
    timing_wheel::asio::use_timer(context, wheel);
    std::vector<timing_wheel::asio::wheel_timer> timers;
    outcome ends;
    for (int i = 0; i < 50; ++i) {
      timers.emplace_back(context, 500us);
      timers.back().async_wait(ends.note());
    }
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
      wheel.stop();
    });
    for (auto& timer : timers) {
      timer.expires_after(1ms);
      timer.async_wait(ends.note());
    }
    context.run();
    stopper.join();
    ASSERT_EQ(ends.all(), 100);
  }
}

#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
TYPED_TEST_F(WheelTimerRaces, ASignalAgainstExpiry) {
  std::minstd_rand random(6);
  net::io_context context;
  TypeParam world(context);
  auto strand = net::make_strand(context);
  auto work = net::make_work_guard(context);
  std::thread first([&] { context.run(); });
  std::thread second([&] { context.run(); });
  std::atomic<int> ends = 0;
  struct one_round {
    explicit one_round(net::io_context& context, clock::duration delay) : timer(context, delay) {}
    net::cancellation_signal signal;
    timing_wheel::asio::wheel_timer timer;
  };
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    const auto wait = std::make_shared<one_round>(context, std::chrono::microseconds(random() % 1000));
    net::post(strand, [&, wait] {
      wait->timer.async_wait(net::bind_executor(
          strand, net::bind_cancellation_slot(wait->signal.slot(), handler([&, wait](const error_code&) { ++ends; }))));
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    net::post(strand, [wait] { wait->signal.emit(net::cancellation_type::total); });
  }
  work.reset();
  first.join();
  second.join();
  EXPECT_EQ(ends, rounds);
}
#endif

}  // namespace
}  // namespace timing_wheel::test
