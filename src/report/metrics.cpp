#include "timing_wheel/metrics.hpp"

#include <array>
#include <ostream>
#include <span>

#include "shared/exposition.hpp"

namespace timing_wheel {

namespace {

using detail::counter;
using detail::gauge;
using detail::member;
using detail::metric;

constexpr std::array of_service = {
    metric<timer_stats>{"timing_wheel_timers_scheduled_total", counter,
                        "Timers accepted, and armed again by a period: fired + cancelled + returned + pending.",
                        member<&timer_stats::scheduled>},
    metric<timer_stats>{"timing_wheel_timers_fired_total", counter, "Callbacks begun.", member<&timer_stats::fired>},
    metric<timer_stats>{"timing_wheel_timers_cancelled_total", counter,
                        "Timers cancelled before their callbacks had begun.", member<&timer_stats::cancelled>},
    metric<timer_stats>{"timing_wheel_timers_returned_total", counter, "Timers given back by stop.",
                        member<&timer_stats::returned>},
    metric<timer_stats>{"timing_wheel_timers_pending", gauge, "Timers whose callbacks have not begun.",
                        member<&timer_stats::pending>},
    metric<timer_stats>{"timing_wheel_timers_due", gauge,
                        "Of the pending: due, and waiting for the executor. Its backlog.", member<&timer_stats::due>},
    metric<timer_stats>{"timing_wheel_timers_running", gauge, "Callbacks that run now.", member<&timer_stats::running>},
    metric<timer_stats>{"timing_wheel_timers_rearmed_total", counter, "Of the scheduled: armed again by a period.",
                        member<&timer_stats::rearmed>},
    metric<timer_stats>{"timing_wheel_timers_rejected_total", counter,
                        "Timers refused: the service was stopped, or too many were pending.",
                        member<&timer_stats::rejected>},
    metric<timer_stats>{"timing_wheel_executor_refusals_total", counter,
                        "Times that the executor refused a timer; it is given again.", member<&timer_stats::refused>},
    metric<timer_stats>{"timing_wheel_callbacks_failed_total", counter, "Callbacks and rules that threw.",
                        member<&timer_stats::failed>},
    metric<timer_stats>{"timing_wheel_callbacks_early_total", counter,
                        "Callbacks begun before their deadline. Always 0.", member<&timer_stats::early>},
    metric<timer_stats>{"timing_wheel_wakeups_total", counter, "Times that the poller woke, or run_due was called.",
                        member<&timer_stats::wakeups>},
    metric<timer_stats>{"timing_wheel_wakeups_empty_total", counter, "Of the wake-ups: with nothing to do.",
                        member<&timer_stats::empty_wakeups>},
    metric<timer_stats>{"timing_wheel_wakeups_earlier_total", counter,
                        "Of the wake-ups: for a timer earlier than the one slept for, or for a stop.",
                        member<&timer_stats::earlier_wakeups>},
    metric<timer_stats>{"timing_wheel_cascade_moves_total", counter, "Timers moved to a lower wheel.",
                        member<&timer_stats::moves>},
    metric<timer_stats>{"timing_wheel_round_looks_total", counter,
                        "Timers that a hashed wheel has looked at as it visited their slot.",
                        member<&timer_stats::looks>},
    metric<timer_stats>{"timing_wheel_window_moves_saved_total", counter,
                        "Moves to lower wheels that timers with windows are spared, counted as they are armed.",
                        member<&timer_stats::moves_saved>},
    metric<timer_stats>{"timing_wheel_window_wakeups_shared_total", counter,
                        "Timers with windows armed in a slot that held another already, from which they fire.",
                        member<&timer_stats::wakeups_shared>},
    metric<timer_stats>{"timing_wheel_largest_hold_timers", gauge, "Most timers handled under one hold of a lock.",
                        member<&timer_stats::largest_hold>},
    metric<timer_stats>{"timing_wheel_memory_bytes", gauge, "Memory held for timers and wheels.",
                        member<&timer_stats::bytes>},
};

constexpr std::array of_level = {
    metric<level_stats>{"timing_wheel_level_moves_total", counter, "Timers moved from this wheel to a lower one.",
                        member<&level_stats::moves>},
    metric<level_stats>{"timing_wheel_level_flushes_total", counter, "Buckets of this wheel flushed.",
                        member<&level_stats::flushes>},
    metric<level_stats>{"timing_wheel_level_largest_flush_timers", gauge, "Timers in the largest bucket flushed.",
                        member<&level_stats::largest_flush>},
    metric<level_stats>{"timing_wheel_level_buckets_queued_total", counter,
                        "Times that a bucket of this wheel entered the delay queue.",
                        member<&level_stats::buckets_queued>},
};

}  // namespace

void write_prometheus(std::ostream& out, const timer_stats& figures, const metric_labels& labels) {
  const labelled<timer_stats> alone{labels, figures};
  write_prometheus(out, {&alone, 1});
}

void write_prometheus(std::ostream& out, std::span<const labelled<timer_stats>> services) {
  for (const labelled<timer_stats>& each : services) {
    detail::validate(each.labels);
  }
  detail::exposition page;
  page.write(of_service, [&](const auto& sample) {
    for (const labelled<timer_stats>& each : services) {
      sample(each.labels, each.stats);
    }
  });
  page.write(of_level, [&](const auto& sample) {
    for (const labelled<timer_stats>& each : services) {
      for (std::size_t level = 0; level < each.stats.levels.size(); ++level) {
        sample(detail::with(each.labels, "level", std::to_string(level)), each.stats.levels[level]);
      }
    }
  });
  page.begin("timing_wheel_lateness_seconds", "histogram", "From the deadline to the start of the callback.");
  for (const labelled<timer_stats>& each : services) {
    page.sample(each.labels, each.stats.lateness);
  }
  out.write(page.text().data(), static_cast<std::streamsize>(page.text().size()));
}

}  // namespace timing_wheel
