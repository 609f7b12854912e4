/// \file
/// One type for production and for tests.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

TEST(OneType, AManualTimerIsDestroyedThroughItsBase) {
  live_captures captures;
  std::unique_ptr<timer> service = std::make_unique<manual_timer>();
  service->schedule_after(1h, [token = captures.make()] {});
  service.reset();
  EXPECT_EQ(captures.alive(), 0);
}

TEST(OneType, AnEngineOfNoKindIsRefused) {
  EXPECT_THROW(manual_timer({.engine = static_cast<engine_kind>(9)}), timer_error);
}

}  // namespace
}  // namespace timing_wheel::test
