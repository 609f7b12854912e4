/// \file
/// What `shrink_to_fit` gives back, and what it leaves as it is, on every engine.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "support/build.hpp"
#include "support/engines.hpp"
#include "support/service_audit.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

class Shrink : public on_every_engine {
 protected:
  static constexpr int peak = 200'000;

  static std::vector<timer_handle> schedule_peak(timer& service) {
    std::vector<timer_handle> handles;
    handles.reserve(peak);
    for (int i = 0; i < peak; ++i) {
      handles.push_back(service.schedule_after(1h + (i % 7'000) * 1ms, nothing));
    }
    return handles;
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, Shrink, every_engine, engine_name);

TEST_P(Shrink, GivesBackWhatAPeakHasTaken) {
  by_hand timer({.shards = 2});
  timer.schedule_after(2h, nothing).cancel();
  const std::size_t before = timer.stats().bytes;
  const std::vector<timer_handle> handles = schedule_peak(timer);
  const std::size_t full = timer.stats().bytes;
  for (const timer_handle& handle : handles) {
    handle.cancel();
  }
  EXPECT_EQ(timer.stats().bytes, full) << "it is kept until it is asked for";
  timer.shrink_to_fit();
  // As without huge pages, where nothing can be mapped: see the next test.
  EXPECT_LT(timer.stats().bytes, before + full / 50 + (can_map ? 0 : peak * 63 / 10));
}

TEST_P(Shrink, GivesBackAllButSixBytesPerTimerWithoutHugePages) {
  by_hand timer({.huge_pages = false, .shards = 1});
  const std::size_t before = timer.stats().bytes;
  for (const timer_handle& handle : schedule_peak(timer)) {
    handle.cancel();
  }
  timer.shrink_to_fit();
  EXPECT_LT(timer.stats().bytes, before + peak * 63 / 10);
}

TEST_P(Shrink, LeavesWhatIsPendingAsItIs) {
  by_hand timer({.shards = 1});
  int runs = 0;
  std::vector<timer_handle> kept;
  std::vector<timer_handle> others;
  for (int i = 0; i < peak; ++i) {
    if (i % 50'000 == 7) {
      kept.push_back(timer.schedule_after(1h + i * 1ms, [&runs] { ++runs; }, {.tag = static_cast<std::uint64_t>(i)}));
    } else {
      others.push_back(timer.schedule_after(1h + i * 1ms, nothing));
    }
  }
  for (const timer_handle& handle : others) {
    handle.cancel();
  }
  timer.shrink_to_fit();
  std::set<std::uint64_t> tags;
  timer.for_each_pending([&](const pending_timer& one) { tags.insert(one.tag); });
  EXPECT_EQ(tags, (std::set<std::uint64_t>{7, 50'007, 100'007, 150'007}));
  EXPECT_EQ(kept[1].deadline(), at(1h + 50'007ms));
  EXPECT_EQ(timer.advance_by(1h + 50'007ms), 2U);
  EXPECT_EQ(kept[2].cancel(), cancel_result::cancelled);
  timer.shrink_to_fit();
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(conserved(timer));
}

TEST_P(Shrink, MayBeCalledFromACallbackAndAfterStop) {
  by_hand timer;
  const std::vector<timer_handle> handles = schedule_peak(timer);
  int runs = 0;
  timer.schedule_every(1ms, [&] {
    timer.shrink_to_fit();
    ++runs;
  });
  for (const timer_handle& handle : handles) {
    handle.cancel();
  }
  timer.advance_by(5ms);
  EXPECT_EQ(runs, 5);
  timer.stop();
  timer.shrink_to_fit();
  EXPECT_EQ(handles.back().status(), timer_status::finished);
}

}  // namespace
}  // namespace timing_wheel::test
