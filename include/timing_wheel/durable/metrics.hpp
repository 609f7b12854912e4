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

/// Writes what `store::count_kinds` has counted, for all kinds in the store, whether or not a node handles them. One
/// program writes it for a store, and not each node. The names begin with `timing_wheel_durable_store_`; they have the
/// label `kind`. `now` is `store::now()`.
///
///     durable::write_prometheus(page, store.count_kinds(), store.now());
///
/// \throws as above.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, std::span<const kind_counts> kinds, instant now,
                                          const metric_labels& labels = {});

}  // namespace timing_wheel::durable
