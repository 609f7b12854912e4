#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstdint>

namespace timing_wheel {

/// When a periodic timer runs next. Runs of one timer never overlap, whatever the policy.
///
/// Example, with a period of 10 ms and a first run that begins at 10 ms and ends at 35 ms: `fixed_delay` runs again at
/// 45 ms; `fixed_rate_catch_up` at 35 (the run of 20), as soon as possible after it (that of 30), and then at 40;
/// `fixed_rate_skip` at 40.
///
/// After a pause of the whole process the policies differ most. A timer of one second whose process was stopped for an
/// hour then runs once with `fixed_delay` and `fixed_rate_skip`, and some 3600 times in a row with
/// `fixed_rate_catch_up`.
///
/// A deadline past the end of time is never reached: the timer stays pending until it is cancelled.
enum class period_policy : std::uint8_t {
  fixed_delay,          ///< One period after the end of the run. A slow callback never piles up (Dubbo's rule).
  fixed_rate_catch_up,  ///< One period after the deadline before; what was missed is run as fast as possible.
  fixed_rate_skip,      ///< At the first multiple of the period after the deadline before that is later than now.
};
using enum period_policy;

}  // namespace timing_wheel
