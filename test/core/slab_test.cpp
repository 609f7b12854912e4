/// \file
/// The places of timers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_set>
#include <vector>

#include "core/slab.hpp"
#include "support/allocation.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

TEST(Slab, APlaceWhoseGenerationsAreUsedUpIsNotUsedAgain) {
  detail::slab nodes;
  const timer_number place = nodes.acquire();
  nodes[place].generation = (1U << detail::generation_bits) - 2;
  nodes.release(place);
  ASSERT_EQ(nodes.acquire(), place);
  nodes.release(place);
  EXPECT_NE(nodes.acquire(), place);
}

TEST(Slab, NoIdOfAPlaceFitsItWhenItsGenerationsAreUsedUp) {
  detail::slab nodes;
  const timer_number place = nodes.acquire();
  const detail::timer_id first = nodes.id_of(place);
  nodes[place].generation = (1U << detail::generation_bits) - 1;
  const detail::timer_id last = nodes.id_of(place);
  nodes.release(place);
  EXPECT_EQ(nodes.find(first), nullptr);
  EXPECT_EQ(nodes.find(last), nullptr);
  EXPECT_EQ(nodes.find({place, 0}), nullptr);
}

// ---- Memory that is given back ----

constexpr timer_number slab_page = detail::free_page::size;

TEST(SlabShrinks, AllPagesGoWhenNoTimerIsLeft) {
  detail::slab nodes;
  const std::size_t empty = nodes.bytes();
  for (timer_number n = 0; n < 300 * slab_page + 5; ++n) {
    nodes[nodes.acquire()].state = detail::node_state::armed;
  }
  for (timer_number n = 0; n < 300 * slab_page + 5; ++n) {
    nodes.release(n * 7 % (300 * slab_page + 5));
  }
  while (nodes.shrink_some()) {
  }
  EXPECT_LE(nodes.bytes(), empty + 301 * 8);
}

TEST(SlabShrinks, APageWithATimerStays) {
  detail::slab nodes;
  for (timer_number n = 0; n < 3 * slab_page; ++n) {
    nodes[nodes.acquire()].state = detail::node_state::armed;
  }
  const timer_number kept = slab_page + 5;
  const detail::timer_id id = nodes.id_of(kept);
  for (timer_number n = 0; n < 3 * slab_page; ++n) {
    if (n != kept) {
      nodes.release(n);
    }
  }
  while (nodes.shrink_some()) {
  }
  EXPECT_LT(nodes.bytes(), 2 * 64 * slab_page);
  EXPECT_NE(nodes.find(id), nullptr);
  for (timer_number n = 1; n < slab_page; ++n) {
    const timer_number place = nodes.acquire();
    EXPECT_EQ(place / slab_page, 1U) << "the page that is there is filled first";
    EXPECT_NE(place, kept);
  }
  EXPECT_EQ(nodes.acquire(), 0U) << "and then the first one is made again";
  EXPECT_NE(nodes.find(id), nullptr);
}

TEST(SlabShrinks, AStepIsShort) {
  detail::slab nodes;
  constexpr timer_number pages = 20;
  for (timer_number n = 0; n < pages * slab_page; ++n) {
    nodes[nodes.acquire()].state = detail::node_state::armed;
  }
  for (timer_number n = 0; n < pages * slab_page; ++n) {
    nodes.release(n);
  }
  const std::size_t before = nodes.bytes();
  std::size_t steps = 0;
  for (std::size_t bytes = before; nodes.shrink_some(); ++steps) {
    EXPECT_GE(nodes.bytes() + 2 * 64 * slab_page, bytes) << "no step gives two pages back";
    bytes = nodes.bytes();
  }
  EXPECT_GE(steps, pages * slab_page / 256);
}

TEST(SlabShrinks, WithoutMemoryToBeginItDoesNothing) {
  detail::slab nodes;
  for (timer_number n = 0; n < 2 * slab_page; ++n) {
    nodes[nodes.acquire()].state = detail::node_state::armed;
  }
  nodes.release(3);
  EXPECT_TRUE(succeeds_with(0, [&] { EXPECT_FALSE(nodes.shrink_some()); })) << "it reports nothing";
  EXPECT_EQ(nodes.acquire(), 3U);
}

/// A slab beside a map, through random steps, shrinking among them.
class slab_history {
 public:
  explicit slab_history(unsigned seed) : random_(seed) {}

  void step() {
    switch (random_() % 8) {
      case 0:
        goal_ = random_() % 3 == 0 ? 0 : random_() % (6 * slab_page);  // at 0 each page can go
        break;
      case 1:
      case 2:
        for (auto left = random_() % 40; left != 0; --left) {
          nodes_.shrink_some();
        }
        break;
      default:
        for (auto left = random_() % 2000; left != 0; --left) {
          live_.size() < goal_ ? acquire() : release();
        }
    }
  }

  void check() {
    for (const detail::timer_id id : live_) {
      ASSERT_NE(nodes_.find(id), nullptr);
      ASSERT_EQ(nodes_[id.number].tag, tag_of(id));
    }
    for (unsigned i = 0; i < 2000 && !ended_.empty(); ++i) {
      ASSERT_EQ(nodes_.find(ended_[random_() % ended_.size()]), nullptr);
    }
  }

 private:
  static std::uint64_t tag_of(detail::timer_id id) { return std::uint64_t{id.number} << 32U | id.generation; }

  void acquire() {
    const timer_number n = nodes_.acquire();
    const detail::timer_id id = nodes_.id_of(n);
    ASSERT_EQ(nodes_[n].state, detail::node_state::free);
    ASSERT_NE(id.generation, 0U);
    ASSERT_TRUE(given_.insert(tag_of(id)).second) << "an id fits two timers";
    nodes_[n].state = detail::node_state::armed;
    nodes_[n].tag = tag_of(id);
    live_.push_back(id);
  }

  void release() {
    if (live_.empty()) {
      return;
    }
    // Mostly the last ones, so that pages fall free.
    const std::size_t i = random_() % 50 == 0 ? random_() % live_.size() : live_.size() - 1;
    ended_.push_back(live_[i]);
    nodes_.release(live_[i].number);
    live_[i] = live_.back();
    live_.pop_back();
  }

  std::mt19937 random_;
  detail::slab nodes_;
  std::size_t goal_ = 0;
  std::vector<detail::timer_id> live_;
  std::vector<detail::timer_id> ended_;
  std::unordered_set<std::uint64_t> given_;
};

TEST(SlabShrinks, NoIdFitsTwoTimersWhateverComesBetween) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    slab_history history(seed);
    for (int i = 0; i < 300; ++i) {
      history.step();
      ASSERT_NO_FATAL_FAILURE(history.check()) << "seed " << seed << ", step " << i;
    }
  }
}

// ---- The order of the free places ----

TEST(Slab, ThePlaceGivenBackLastIsTakenFirst) {
  detail::slab nodes;
  std::vector<timer_number> taken(3'000);
  std::generate(taken.begin(), taken.end(), [&] { return nodes.acquire(); });
  std::shuffle(taken.begin(), taken.end(), std::mt19937(1));
  for (const timer_number n : taken) {
    nodes.release(n);
  }
  std::reverse(taken.begin(), taken.end());
  for (const timer_number n : taken) {
    ASSERT_EQ(nodes.acquire(), n);
  }
  EXPECT_EQ(nodes.extent(), 3'000U);
  EXPECT_EQ(nodes.acquire(), 3'000U) << "there was no other";
}

TEST(SlabShrinks, ThenLowPagesAreUsedFirstWhateverWasGivenBackMeanwhile) {
  detail::slab nodes;
  for (timer_number n = 0; n < 4 * 1'024; ++n) {
    nodes.acquire();
  }
  for (timer_number n = 0; n < 4 * 1'024; ++n) {
    if (n % 1'024 != 5) {  // so each page stays
      nodes.release(n);
    }
  }
  while (nodes.shrink_some()) {
  }
  for (timer_number n = 0; n < 4 * 1'023; ++n) {
    ASSERT_EQ(nodes.acquire() / 1'024, n / 1'023) << n;
  }
}

// ---- Windows ----

TEST(ShortWindow, KeepsAtLeastFourFifthsAndNeverMore) {
  detail::short_window before;
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (const std::uint64_t offset : {0U, 1U, 2U, 3U, 5U, 7U}) {
      const std::uint64_t window =
          (std::uint64_t{1} << bits) + (bits < 3 ? offset : offset * ((std::uint64_t{1} << bits) / 8));
      const detail::short_window kept(window);
      ASSERT_LE(kept.length(), window);
      ASSERT_GE(kept.length(), window / 5 * 4 + window % 5 * 4 / 5) << window;
      ASSERT_LE(before, kept) << window;
      before = bits < 3 ? before : kept;
    }
  }
  EXPECT_EQ(detail::short_window(UINT64_MAX).length(), std::uint64_t{7} << 61U);
  for (std::uint64_t window = 0; window < 8; ++window) {
    EXPECT_EQ(detail::short_window(window).length(), window);
  }
}

}  // namespace
}  // namespace timing_wheel::test
