#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <iosfwd>
#include <span>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/metrics.hpp"

namespace timing_wheel::durable {

/// What one of several schedulers has done.
struct labelled_stats {
  metric_labels labels;   ///< Different from those of the others.
  scheduler_stats stats;  ///< As `scheduler::stats` gave it.
};

/// Writes `figures` in the text format of Prometheus, as `timing_wheel::write_prometheus` does. Names begin with
/// `timing_wheel_durable_`. What a scheduler counts by kind has the label `kind`, and is there from `start` on.
/// \throws timer_error (`invalid_option`) naming a label that is not as `metric_labels` says, and then writes nothing;
/// std::bad_alloc; what `out` throws.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, const scheduler_stats& figures,
                                          const metric_labels& labels = {});
/// Of several schedulers on one page.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, std::span<const labelled_stats> schedulers);

}  // namespace timing_wheel::durable
