#pragma once

#include <gtest/gtest.h>

#include <concepts>

#include "timing_wheel/engine/hashed_wheel.hpp"
#include "timing_wheel/engine/heap_queue.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::test {

/// The engines that the typed suites run over: each must pass all of them.
using engine_types = ::testing::Types<hierarchical_wheel, hashed_wheel, heap_queue>;

template <timer_engine Engine>
constexpr engine_kind kind_of() {
  if (std::same_as<Engine, hashed_wheel>) {
    return engine_kind::hashed;
  }
  return std::same_as<Engine, heap_queue> ? engine_kind::heap : engine_kind::hierarchical;
}

/// `options`, on an engine.
template <timer_engine Engine>
timer_options on_engine(timer_options options) {
  options.engine = kind_of<Engine>();
  return options;
}

/// A `manual_timer` on an engine, for typed suites.
template <timer_engine Engine>
class manual_timer_on : public manual_timer {
 public:
  explicit manual_timer_on(const timer_options& options = {}, time_point start = time_point())
      : manual_timer(on_engine<Engine>(options), start) {}
};

}  // namespace timing_wheel::test
