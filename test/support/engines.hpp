#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <string>

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
inline timer_options on_engine(engine_kind engine, timer_options options) {
  options.engine = engine;
  return options;
}

/// A `manual_timer` on an engine, for typed suites.
template <timer_engine Engine>
class manual_timer_on : public manual_timer {
 public:
  explicit manual_timer_on(const timer_options& options = {}, time_point start = time_point())
      : manual_timer(on_engine(kind_of<Engine>(), options), start) {}
};

/// For suites that need a service only: the engine is chosen when the test runs, and each test is compiled once.
class on_every_engine : public testing::TestWithParam<engine_kind> {
 protected:
  /// A `manual_timer` on the engine of the test.
  class by_hand : public manual_timer {
   public:
    explicit by_hand(const timer_options& options = {}, time_point start = time_point())
        : manual_timer(on_engine(GetParam(), options), start) {}
  };
};

inline const auto every_engine = testing::Values(engine_kind::hierarchical, engine_kind::hashed, engine_kind::heap);

inline std::string engine_name(const testing::TestParamInfo<engine_kind>& engine) {
  switch (engine.param) {
    case engine_kind::hashed:
      return "hashed";
    case engine_kind::heap:
      return "heap";
    default:
      return "hierarchical";
  }
}

}  // namespace timing_wheel::test
