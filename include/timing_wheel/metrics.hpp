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

/// Labels that tell one service from others, as names and values: `{{"service", "orders"}}`.
///
/// | Part | May be |
/// |---|---|
/// | name | letters, digits and `_`, not first a digit, not first `__`; not `le`, `level` or `kind` |
/// | value | UTF-8; a call refuses other bytes |
using metric_labels = std::vector<std::pair<std::string, std::string>>;

/// The figures of one of several services, or of one of several schedulers of durable checks.
template <class Stats>
struct labelled {
  metric_labels labels;  ///< \pre The labels of all services on a page differ. `write_prometheus` does not check this.
  Stats stats;           ///< What `stats()` returned.
};

/// Writes `figures` in the text format of Prometheus (version 0.0.4, `Content-Type: text/plain; version=0.0.4`).
///
///     std::ostringstream page;
///     write_prometheus(page, timer.stats(), {{"service", "orders"}});
///
/// | Kind | Names | Meaning |
/// |---|---|---|
/// | all | begin with `timing_wheel_` | docs/metrics.md lists them; times are in seconds |
/// | counters | end in `_total` | count from the start of the service |
/// | lateness | a histogram | 25 classes from 1 µs to 100 s; a duration may count as a sixteenth longer than it was |
///
/// The function writes the whole text at once, and ignores the locale and the flags of `out`. Complexity: O(figures
/// written). Thread safety: that of `out`; figures are copies, so each thread may write its own.
/// \throws timer_error (`invalid_option`, with the label that is wrong), before anything is written; std::bad_alloc;
/// what `out` throws.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, const timer_stats& figures,
                                          const metric_labels& labels = {});
/// Writes several services on one page. Do not write them one by one, because the format wants all samples of a name
/// together.
TIMING_WHEEL_EXPORT void write_prometheus(std::ostream& out, std::span<const labelled<timer_stats>> services);

}  // namespace timing_wheel
