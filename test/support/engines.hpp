#pragma once

#include <gtest/gtest.h>

#include "timing_wheel/hashed_wheel.hpp"
#include "timing_wheel/heap_queue.hpp"
#include "timing_wheel/hierarchical_wheel.hpp"

namespace timing_wheel::test {

/// The engines that the typed suites run over: each must pass all of them.
using engine_types = ::testing::Types<hierarchical_wheel, hashed_wheel, heap_queue>;

}  // namespace timing_wheel::test
