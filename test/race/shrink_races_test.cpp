// Memory goes back while others use the service. Best under the thread sanitizer, and the address sanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

#include "support/service_audit.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// Peaks that come and go: schedules many timers, cancels nearly all, and looks at those of old.
class waves {
 public:
  waves(timer& service, unsigned seed) : service_(service), random_(seed) {}

  void come_and_go() {
    for (auto left = 1'000 + random_() % 5'000; left != 0; --left) {
      const auto delay = random_() % 4 == 0 ? std::chrono::milliseconds(random_() % 20) : 1h;
      pending_.push_back(service_.schedule_after(delay, [] {}));
    }
    for (std::size_t left = pending_.size() - random_() % 50; left != 0; --left) {
      pending_.back().cancel();
      finished_.push_back(pending_.back());
      pending_.pop_back();
    }
    for (int i = 0; i < 200; ++i) {
      const timer_handle& old = finished_[random_() % finished_.size()];
      wrong_ += old.cancel() == cancel_result::cancelled || old.reschedule_after(1h) ? 1 : 0;
    }
  }

  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  timer& service_;
  std::mt19937 random_;
  std::vector<timer_handle> pending_;
  std::vector<timer_handle> finished_;
  int wrong_ = 0;
};

TEST(ShrinkRaces, NothingIsLostAndNoHandleFitsAnotherTimer) {
  for (const engine_kind engine : {engine_kind::hierarchical, engine_kind::hashed, engine_kind::heap}) {
    timer service({.engine = engine, .shards = 2});
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        waves mine(service, i);
        for (int round = 0; round < 20; ++round) {
          mine.come_and_go();
        }
        wrong += mine.wrong();
      });
    }
    std::vector<std::thread> shrinking;
    for (int i = 0; i < 2; ++i) {
      shrinking.emplace_back([&] {
        while (!over) {
          service.shrink_to_fit();
        }
      });
    }
    for (std::thread& one : threads) {
      one.join();
    }
    over = true;
    for (std::thread& one : shrinking) {
      one.join();
    }
    EXPECT_EQ(wrong, 0);
    service.stop();
    EXPECT_TRUE(conserved(service));
  }
}

}  // namespace
}  // namespace timing_wheel::test
