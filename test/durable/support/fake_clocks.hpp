#pragma once

#include "durable/sqlite/clock.hpp"

namespace timing_wheel::durable::test {

/// Clocks that a test sets, in the place of the machine's. One at a time.
class fake_clocks {
 public:
  fake_clocks() { sqlite::clocks() = {read_wall, read_since_boot, read_boot}; }
  fake_clocks(const fake_clocks&) = delete;
  fake_clocks& operator=(const fake_clocks&) = delete;
  ~fake_clocks() { sqlite::clocks() = real_; }

  /// Time passes, on all clocks.
  static void pass(std::chrono::nanoseconds time) {
    wall += time;
    since_boot += time;
  }

  static inline std::chrono::sys_time<std::chrono::nanoseconds> wall{std::chrono::hours(24 * 365 * 55)};
  static inline std::chrono::nanoseconds since_boot = std::chrono::minutes(10);
  static inline std::string boot = "first";

 private:
  static std::chrono::sys_time<std::chrono::nanoseconds> read_wall() { return wall; }
  static std::chrono::nanoseconds read_since_boot() { return since_boot; }
  static std::string read_boot() { return boot; }

  sqlite::host_clocks real_ = sqlite::clocks();
};

}  // namespace timing_wheel::durable::test
