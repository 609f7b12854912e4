#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "timing_wheel/durable/scheduler.hpp"

// What a scenario runs on: a store, a clock, and a scheduler.

namespace timing_wheel::durable::test {

class ground {
 public:
  virtual ~ground() = default;

  /// Opens the store, as a new process does.
  virtual void open() = 0;
  [[nodiscard]] virtual store& where() = 0;
  /// One life of a node, which has no handlers yet.
  [[nodiscard]] virtual std::unique_ptr<scheduler> begin() = 0;
  /// Lets so much time pass.
  virtual void pass(std::chrono::milliseconds time) = 0;
  /// Schedules in a transaction of the user's own.
  virtual void write_as_user(const request& asked) = 0;
};

struct ground_choice {
  std::string name;
  bool takes_time = false;  ///< Its runs sleep, for the most part.
  bool by_strides = false;  ///< Each run is long: not every allocation is tried, unless that is asked for.
  std::function<std::unique_ptr<ground>()> make;
};

/// All that this program was built with. Each is made in a process of its own.
[[nodiscard]] std::vector<ground_choice> all_grounds(const std::string& folder);

}  // namespace timing_wheel::durable::test
