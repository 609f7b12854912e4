#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/timer_stats.hpp"

namespace timing_wheel {

/// Names and values that tell one service from others, for instance `{{"service", "orders"}}`.
///
/// A name begins with a letter or `_`, goes on with letters, digits and `_`, and does not begin with `__`. The names
/// `le`, `level` and `kind` are taken. A value may have any bytes of UTF-8.
using metric_labels = std::vector<std::pair<std::string, std::string>>;

/// The figures of one of several services on a page, or of one of several schedulers of durable checks.
template <class Stats>
struct labelled {
  metric_labels labels;  ///< Different from those of the others on the page.
  Stats stats;           ///< What `stats()` of the service, or of the scheduler, has returned.
};

/// Writes `figures` in the text format of Prometheus (version 0.0.4, `Content-Type: text/plain; version=0.0.4`).
///
/// Names begin with `timing_wheel_`; docs/metrics.md lists them. Counters end in `_total` and count from the start of
/// the service. Times are in seconds. The lateness is a histogram of 25 classes from 1 µs to 100 s. A duration is
/// counted in its class up to a sixteenth higher than it was. All is written at once, and `out`'s locale and flags are
/// not used. Complexity: O(figures written). Thread safety: that of `out`; figures are copies, so any thread may write
/// its own.
/// \throws timer_error (`invalid_option`) naming a label that is not as above, and then writes nothing; std::bad_alloc;
/// what `out` throws.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, const timer_stats& figures,
                                          const metric_labels& labels = {});
/// Of several services on one page: the format wants all samples of a name together.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, std::span<const labelled<timer_stats>> services);

}  // namespace timing_wheel
