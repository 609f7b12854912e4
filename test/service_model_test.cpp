#include "support/service_model.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "support/service_scale.hpp"
#include "support/service_stderr.hpp"

namespace timing_wheel::test {
namespace {

void expect_agreement(std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << "; run it alone with TIMING_WHEEL_SEED=" << seed);
  const captured_stderr silence;
  service_model(dice(seed)).run();
}

TEST(ServiceModel, Scenario24_RandomOperationsAgreeWithAPlainMap) {
  if (const char* seed = std::getenv("TIMING_WHEEL_SEED"); seed != nullptr) {
    return expect_agreement(std::strtoull(seed, nullptr, 10));
  }
  const std::uint64_t seeds = stress_rounds(10'000);
  for (std::uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    expect_agreement(seed);
  }
}

}  // namespace
}  // namespace timing_wheel::test
