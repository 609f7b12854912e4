#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// How an executor may refuse.
enum class way { throws, drops, returns_without_taking };
inline constexpr std::array every_way{way::throws, way::drops, way::returns_without_taking};

/// Refuses until `refusals` are used up, and keeps the tasks from then on. It notes when it was asked.
class refusing {
 public:
  explicit refusing(way how, int refusals) : how_(how), refusals_(refusals) {}

  [[nodiscard]] auto taking() {
    return [this](task&& work) { return take(std::move(work)); };
  }
  void accept() noexcept { refusals_ = 0; }

  kept_tasks accepted;
  const manual_timer* timer = nullptr;
  std::vector<nanoseconds> asked;

 private:
  bool take(task&& work) {
    if (timer != nullptr) {
      asked.push_back(timer->now().time_since_epoch());
    }
    if (refusals_-- <= 0) {
      accepted.taking()(std::move(work));
      refusals_ = 0;
      return true;
    }
    if (how_ == way::throws) {
      throw std::runtime_error("full");
    }
    if (how_ == way::drops) {
      const task dropped = std::move(work);
    }
    return false;
  }

  way how_;
  int refusals_;
};

inline constexpr int always = 1'000'000;

}  // namespace timing_wheel::test
