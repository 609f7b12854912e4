// Nodes on one store, against a plain map: random requests, cancels, crashes, frozen nodes, clocks that are off, stores
// that fail or whose answer is lost.

#include <gtest/gtest.h>

#include <cstdint>

#include "durable/random/program.hpp"

namespace timing_wheel::durable {
namespace {

class NodeModel : public testing::TestWithParam<std::uint64_t> {};

TEST_P(NodeModel, EveryCheckRunsNoneEarlyNoneAfterItsCancelAndTransactionalOnesOnceInEffect) {
  constexpr std::uint64_t seeds_each = 100;
  const auto on = test::memory_ground();
  for (std::uint64_t seed = GetParam() * seeds_each; seed < (GetParam() + 1) * seeds_each; ++seed) {
    ASSERT_EQ(test::shortest_failure(*on, "memory", seed, 150), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, NodeModel, testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace timing_wheel::durable
