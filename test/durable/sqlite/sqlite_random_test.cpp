// A share of `./dev durable-random`.

#include <gtest/gtest.h>

#include <cstdint>

#include "durable/random/program.hpp"

namespace timing_wheel::durable {
namespace {

TEST(SqliteRandom, ProgramsOfNodesUsersAndFaultsKeepWhatIsPromised) {
  const auto on = test::sqlite_ground();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    ASSERT_EQ(test::shortest_failure(*on, "sqlite", seed, test::steps_by_default), "");
  }
}

}  // namespace
}  // namespace timing_wheel::durable
