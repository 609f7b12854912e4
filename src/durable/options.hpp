#pragma once

#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable {

/// \returns the options. \throws timer_error (`invalid_option`) naming the one that is out of its range.
[[nodiscard]] scheduler_options validated(const scheduler_options& options);

/// \throws timer_error (`invalid_option`), as `validated`.
void validate(const handler_options& options);

}  // namespace timing_wheel::durable
