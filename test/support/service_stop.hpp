#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;

enum class how { take, drop, run, drain_all, drain_nothing };
inline constexpr std::array every_how{how::take, how::drop, how::run, how::drain_all, how::drain_nothing};

/// Stops in one of the ways. \returns the tags of what it returned or dropped.
inline std::vector<std::uint64_t> stop_by(manual_timer& timer, how way) {
  std::vector<std::uint64_t> tags;
  std::vector<pending_task> left;
  switch (way) {
    case how::take:
      left = timer.stop();
      break;
    case how::drop:
      timer.for_each_pending([&](const pending_timer& one) { tags.push_back(one.tag); });
      EXPECT_EQ(timer.stop_discard(), tags.size());
      break;
    case how::run:
      timer.stop_run_now();
      break;
    case how::drain_all:
      left = timer.stop_drain(time_point::max());
      break;
    case how::drain_nothing:
      left = timer.stop_drain(timer.now());
      break;
  }
  for (const pending_task& one : left) {
    tags.push_back(one.tag);
  }
  return tags;
}

/// How often each of some timers ran or was returned; it must be once.
class ends {
 public:
  explicit ends(std::size_t timers) : counts_(timers) {}

  [[nodiscard]] auto running(std::size_t which) {
    return [this, which] { ++counts_[which]; };
  }
  void add(std::size_t which) { ++counts_[which]; }
  void add(const std::vector<std::uint64_t>& tags) {
    for (const std::uint64_t tag : tags) {
      ++counts_.at(tag);
    }
  }
  void add(const std::vector<pending_task>& returned) {
    for (const pending_task& one : returned) {
      ++counts_.at(one.tag);
    }
  }
  [[nodiscard]] const std::vector<int>& counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t size() const noexcept { return counts_.size(); }

 private:
  std::vector<int> counts_;
};

}  // namespace timing_wheel::test
