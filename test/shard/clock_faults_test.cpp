#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "shard/shard_on.hpp"
#include "support/service_random.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"

namespace timing_wheel::detail {
namespace {

using namespace std::chrono_literals;
using test::dice;

/// A shard of a service on a clock as broken as the test wants it: it stands still, steps back and jumps. The shard is
/// driven as the poller does.
class ClockFaults : public testing::Test {
 protected:
  using shard_type = shard_on<hierarchical_wheel>;
  struct retire {
    void operator()(shard_type* s) const noexcept {
      s->enter(phase::closed);
      s->discard();
      s->retire();
      s->drop_references(1);
    }
  };

  timer_handle schedule_after(std::chrono::nanoseconds delay, std::vector<time_point>& fired) {
    const auto note = [this, &fired] { fired.push_back(furthest_); };
    given source(note);
    const admitted result = shard_->schedule({shown_, saturating_add(shown_, delay)}, source, 0);
    EXPECT_EQ(result.answer(), verdict::accepted);
    return shard_->handle_to(result.id());
  }

  void run_due() {
    context_->clock.set(shown_);
    furthest_ = std::max(furthest_, shown_);
    for (bool more = true; more;) {
      turns done;
      shard_->due().run_due(context_->scale.floor(shown_), time_point::max(), no_limit, done);
      more = done.more;
    }
  }

  [[nodiscard]] timer_counts stats() const {
    core_stats counted;
    shard_->read(counted);
    return counted.counts;
  }

  time_point shown_{1h};
  time_point furthest_{1h};  // that it has shown to the driver: a step back is ignored
  timer_options options_{.tick = 1ms, .wheel_size = 20};
  std::shared_ptr<service_context> context_ = std::make_shared<service_context>(options_, 1, &shown_, nullptr);
  std::unique_ptr<shard_type, retire> shard_{new shard_type({.wheel_size = 20}, 0, context_)};
};

TEST_F(ClockFaults, ZeroDelayRunsWhileItStandsStill) {
  std::vector<time_point> fired;
  schedule_after(0ns, fired);
  run_due();
  EXPECT_EQ(fired, std::vector{shown_});
}

TEST_F(ClockFaults, TimerMadeAfterAStepBackIsDueOnceTheFurthestTimeShownIsPastItsDeadline) {
  std::vector<time_point> fired;
  shown_ += 10s;
  run_due();
  shown_ -= 5s;
  schedule_after(2s, fired);
  schedule_after(7s, fired);
  run_due();
  EXPECT_EQ(fired, std::vector{time_point(1h + 10s)});
  shown_ += 7s;
  run_due();
  EXPECT_EQ(fired, (std::vector{time_point(1h + 10s), time_point(1h + 12s)}));
}

TEST_F(ClockFaults, RandomWalkLosesNothingAndNothingIsBeforeTheFurthestTimeShown) {
  std::vector<time_point> fired;
  std::multiset<time_point> deadlines;
  dice random(42);
  for (int step = 0; step < 5'000; ++step) {
    shown_ += random.between(-1'900us, 2'100us);  // back nearly as often as ahead
    const std::chrono::nanoseconds delay = random.between(0us, 20ms);
    schedule_after(delay, fired);
    deadlines.insert(shown_ + delay);
    run_due();
    const auto due = std::distance(deadlines.begin(), deadlines.upper_bound(furthest_));
    ASSERT_LE(fired.size(), static_cast<std::size_t>(due)) << "one is early";
  }
  EXPECT_GT(fired.size(), 2'500U);
  shown_ += 24h;
  run_due();
  EXPECT_EQ(fired.size(), 5'000U);
}

}  // namespace
}  // namespace timing_wheel::detail
