/// \file
/// Bytes become the choices of the service's model: its options, and what is done to the service and in its callbacks.
/// What the service says on standard error is of no interest.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "support/service_model.hpp"

// Called by the fuzzer, which knows it by this name; so there is a declaration, and no naming rule.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  timing_wheel::test::service_model<timing_wheel::hierarchical_wheel>(timing_wheel::test::dice(std::span(data, size)))
      .run();
  if (testing::Test::HasFailure()) {
    std::abort();
  }
  return 0;
}
// NOLINTEND(readability-identifier-naming)
