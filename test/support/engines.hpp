#pragma once

#include <gtest/gtest.h>

#include "timing_wheel/hierarchical_wheel.hpp"

namespace timing_wheel::test {

/// The engines that the typed suites run over: each must pass all of them.
using engine_types = ::testing::Types<hierarchical_wheel>;

}  // namespace timing_wheel::test
