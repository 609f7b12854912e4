/// \file
/// The places of timers.

#include <gtest/gtest.h>

#include "core/slab.hpp"
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

}  // namespace
}  // namespace timing_wheel::test
