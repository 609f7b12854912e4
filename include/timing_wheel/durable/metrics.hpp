#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <iosfwd>
#include <span>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/metrics.hpp"

namespace timing_wheel::durable {

/// Writes the figures of a scheduler in the text format of Prometheus, as `timing_wheel::write_prometheus` does for a
/// service. All names begin with `timing_wheel_durable_`; docs/metrics.md lists them. A figure that a scheduler counts
/// by kind has the label `kind`, and is on the page once the scheduler was started.
///
///     durable::write_prometheus(page, checks.stats(), {{"node", "a"}});
///
/// \throws timer_error (`invalid_option`) naming a label that is not as `metric_labels` says, and then writes nothing;
/// std::bad_alloc; what `out` throws.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, const scheduler_stats& figures,
                                          const metric_labels& labels = {});
/// Writes the figures of several schedulers on one page. The format wants all samples of a name together.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, std::span<const labelled<scheduler_stats>> schedulers);

}  // namespace timing_wheel::durable
