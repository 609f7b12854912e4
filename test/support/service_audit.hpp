#pragma once

#include <gtest/gtest.h>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

/// Whether no timer was lost or counted twice.
inline testing::AssertionResult conserved(const timer_stats& counts) {
  if (counts.scheduled == counts.fired + counts.cancelled + counts.returned + counts.pending) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "scheduled " << counts.scheduled << " != fired " << counts.fired
                                     << " + cancelled " << counts.cancelled << " + returned " << counts.returned
                                     << " + pending " << counts.pending;
}

template <class Service>
testing::AssertionResult conserved(const Service& service) {
  return conserved(service.stats());
}

}  // namespace timing_wheel::test
