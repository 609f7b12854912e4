#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "timing_wheel/periodic.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::detail {

/// The deadline after `previous`, under a policy. \pre the period is positive.
struct periodic_rule {
  std::chrono::nanoseconds period;
  period_policy policy;

  time_point operator()(time_point previous, time_point now) const noexcept {
    switch (policy) {
      case fixed_delay:
        return saturating_add(now, period);
      case fixed_rate_catch_up:
        return saturating_add(previous, period);
      case fixed_rate_skip:
        break;
    }
    const time_point from = std::max(previous, now);
    const std::uint64_t past = distance(previous, from) % static_cast<std::uint64_t>(period.count());
    return saturating_add(from - std::chrono::nanoseconds(past), period);
  }
};

}  // namespace timing_wheel::detail
