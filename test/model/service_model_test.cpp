#include "support/service_model.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <cstdlib>

#include "support/engines.hpp"
#include "support/service_scale.hpp"
#include "support/service_stderr.hpp"

namespace timing_wheel::test {
namespace {

template <class Engine>
class ServiceModel : public ::testing::Test {
 protected:
  static constexpr std::uint64_t seeds = std::same_as<Engine, hierarchical_wheel> ? 8'000 : 1'000;

  static void expect_agreement(std::uint64_t seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << "; run it alone with TIMING_WHEEL_SEED=" << seed);
    const captured_stderr silence;
    service_model<Engine>(dice(seed)).run();
  }
};
TYPED_TEST_SUITE(ServiceModel, engine_types);

TYPED_TEST(ServiceModel, RandomOperationsAgreeWithAPlainMap) {
  if (const char* seed = std::getenv("TIMING_WHEEL_SEED"); seed != nullptr) {
    return TestFixture::expect_agreement(std::strtoull(seed, nullptr, 10));
  }
  const std::uint64_t end = stress_rounds(TestFixture::seeds);
  for (std::uint64_t seed = 0; seed < end && !this->HasFailure(); ++seed) {
    TestFixture::expect_agreement(seed);
  }
}

}  // namespace
}  // namespace timing_wheel::test
