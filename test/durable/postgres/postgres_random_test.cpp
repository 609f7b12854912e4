// A share of `./dev durable-random --store postgres`.

#include <gtest/gtest.h>

#include <cstdint>

#include "durable/random/program.hpp"

namespace timing_wheel::durable {
namespace {

TEST(PostgresRandom, ProgramsOfNodesUsersAndFaultsKeepWhatIsPromised) {
  const auto on = test::postgres_ground();
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    ASSERT_EQ(test::shortest_failure(*on, "postgres", seed, test::steps_by_default), "");
  }
}

}  // namespace
}  // namespace timing_wheel::durable
