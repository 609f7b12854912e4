#include "timing_wheel/durable/metrics.hpp"

#include <array>
#include <chrono>
#include <ostream>
#include <span>

#include "shared/exposition.hpp"

namespace timing_wheel::durable {

namespace {

using timing_wheel::detail::counter;
using timing_wheel::detail::gauge;
using timing_wheel::detail::member;
using timing_wheel::detail::metric;

template <auto Member>
double of_store(const scheduler_stats& all) {
  return static_cast<double>(all.store.*Member);
}
template <class Of, auto Member>
double seconds_of(const Of& all) {
  return std::chrono::duration<double>(all.*Member).count();
}

constexpr std::array of_scheduler = {
    metric<scheduler_stats>{"timing_wheel_durable_scheduled_total", counter,
                            "New checks written by calls of this scheduler.", member<&scheduler_stats::scheduled>},
    metric<scheduler_stats>{"timing_wheel_durable_duplicates_total", counter, "Requests whose key was there.",
                            member<&scheduler_stats::duplicates>},
    metric<scheduler_stats>{"timing_wheel_durable_cancelled_total", counter,
                            "Checks cancelled by calls of this scheduler.", member<&scheduler_stats::cancelled>},
    metric<scheduler_stats>{"timing_wheel_durable_early_total", counter, "Runs begun before their deadline. Always 0.",
                            member<&scheduler_stats::early>},
    metric<scheduler_stats>{"timing_wheel_durable_store_failures_total", counter,
                            "Calls of the store that failed in the background, and were repeated.",
                            member<&scheduler_stats::failures>},
    metric<scheduler_stats>{"timing_wheel_durable_known_rows", gauge, "Rows remembered here.",
                            member<&scheduler_stats::known>},
    metric<scheduler_stats>{"timing_wheel_durable_lost_threads", gauge, "Threads in handlers whose runs were given up.",
                            member<&scheduler_stats::lost_threads>},
    metric<scheduler_stats>{"timing_wheel_durable_clock_difference_seconds", gauge,
                            "How far the wall clock here is ahead of the clock of the store.",
                            seconds_of<scheduler_stats, &scheduler_stats::clock_difference>},
    metric<scheduler_stats>{"timing_wheel_durable_serving", gauge, "1 if the node has begun, and was not stopped.",
                            member<&scheduler_stats::serving>},
    metric<scheduler_stats>{"timing_wheel_durable_shares", gauge, "Shares of the table that this node reads ahead.",
                            member<&scheduler_stats::shares>},
    metric<scheduler_stats>{"timing_wheel_durable_store_statements_total", counter, "Statements executed by the store.",
                            of_store<&store_counts::statements>},
    metric<scheduler_stats>{"timing_wheel_durable_store_rows_read_total", counter, "Rows read by the store.",
                            of_store<&store_counts::rows_read>},
    metric<scheduler_stats>{"timing_wheel_durable_store_commits_total", counter,
                            "Transactions of the store that have written.", of_store<&store_counts::commits>},
    metric<scheduler_stats>{"timing_wheel_durable_store_round_trips_total", counter,
                            "Waits of the store for its server.", of_store<&store_counts::round_trips>},
};

constexpr std::array of_kind = {
    metric<kind_stats>{"timing_wheel_durable_fired_total", counter, "Runs begun here.", member<&kind_stats::fired>},
    metric<kind_stats>{"timing_wheel_durable_done_total", counter, "Runs whose end was written.",
                       member<&kind_stats::done>},
    metric<kind_stats>{"timing_wheel_durable_retried_total", counter, "Checks put back after a run that failed.",
                       member<&kind_stats::retried>},
    metric<kind_stats>{"timing_wheel_durable_snoozed_total", counter,
                       "Checks put back because their handler asked for a later run.", member<&kind_stats::snoozed>},
    metric<kind_stats>{"timing_wheel_durable_given_back_total", counter,
                       "Checks put back because their run did not begin.", member<&kind_stats::given_back>},
    metric<kind_stats>{"timing_wheel_durable_dead_total", counter, "Checks moved to the dead.",
                       member<&kind_stats::dead>},
    metric<kind_stats>{"timing_wheel_durable_lost_leases_total", counter, "Runs whose end found the lease gone.",
                       member<&kind_stats::lost_leases>},
    metric<kind_stats>{"timing_wheel_durable_timed_out_total", counter, "Runs given up since they took too long.",
                       member<&kind_stats::timed_out>},
    metric<kind_stats>{"timing_wheel_durable_running", gauge, "Leased jobs whose handlers run here.",
                       member<&kind_stats::running>},
    metric<kind_stats>{"timing_wheel_durable_claimed", gauge,
                       "Leased jobs that are claimed and wait for a thread here.", member<&kind_stats::claimed>},
    metric<kind_stats>{"timing_wheel_durable_ready", gauge, "Rows that are due here, and not yet claimed.",
                       member<&kind_stats::ready>},
    metric<kind_stats>{"timing_wheel_durable_lag_seconds", gauge,
                       "How long the oldest check that is due and has not begun has waited.",
                       seconds_of<kind_stats, &kind_stats::lag>},
    metric<kind_stats>{"timing_wheel_durable_longest_run_seconds", gauge,
                       "For how long the oldest handler that has not returned has been running.",
                       seconds_of<kind_stats, &kind_stats::longest_run>},
    metric<kind_stats>{"timing_wheel_durable_paused", gauge, "1 if the kind was paused at the last poll.",
                       member<&kind_stats::paused>},
};

constexpr std::array of_store_kind = {
    metric<kind_counts>{"timing_wheel_durable_store_pending", gauge, "Checks that no node has claimed.",
                        member<&kind_counts::pending>},
    metric<kind_counts>{"timing_wheel_durable_store_running", gauge, "Checks that a node has claimed.",
                        member<&kind_counts::running>},
    metric<kind_counts>{"timing_wheel_durable_store_suspect", gauge, "Checks whose lease has ended.",
                        member<&kind_counts::suspect>},
    metric<kind_counts>{"timing_wheel_durable_store_due", gauge, "Checks whose deadline has passed.",
                        member<&kind_counts::due>},
    metric<kind_counts>{"timing_wheel_durable_store_waiting", gauge, "Checks that are due, and that a node may claim.",
                        member<&kind_counts::waiting>},
    metric<kind_counts>{"timing_wheel_durable_store_retrying", gauge, "Pending checks of which a run has failed.",
                        member<&kind_counts::retrying>},
    metric<kind_counts>{"timing_wheel_durable_store_dead", gauge, "Dead checks.", member<&kind_counts::dead>},
    metric<kind_counts>{"timing_wheel_durable_store_paused", gauge, "1 if the kind is paused.",
                        member<&kind_counts::paused>},
    metric<kind_counts>{"timing_wheel_durable_store_counted_in_part", gauge,
                        "1 if there were too many rows, so that the counts are too low.",
                        member<&kind_counts::at_least>},
};

}  // namespace

void write_prometheus(std::ostream& out, const scheduler_stats& figures, const metric_labels& labels) {
  const labelled<scheduler_stats> alone{labels, figures};
  write_prometheus(out, {&alone, 1});
}

void write_prometheus(std::ostream& out, std::span<const labelled<scheduler_stats>> schedulers) {
  for (const labelled<scheduler_stats>& each : schedulers) {
    timing_wheel::detail::validate(each.labels);
  }
  const auto for_each_kind = [&](const auto& sample) {
    for (const labelled<scheduler_stats>& each : schedulers) {
      for (const kind_stats& kind : each.stats.kinds) {
        sample(timing_wheel::detail::with(each.labels, "kind", kind.kind), kind);
      }
    }
  };
  timing_wheel::detail::exposition page;
  page.write(of_scheduler, [&](const auto& sample) {
    for (const labelled<scheduler_stats>& each : schedulers) {
      sample(each.labels, each.stats);
    }
  });
  page.write(of_kind, for_each_kind);
  page.begin("timing_wheel_durable_store_lag_seconds", gauge,
             "How long the oldest check of a kind that no node has claimed has been due; only kinds that are late.");
  for (const labelled<scheduler_stats>& each : schedulers) {
    for (const kind_lag& late : each.stats.store_lag) {
      const metric_labels labels = timing_wheel::detail::with(each.labels, "kind", late.kind);
      page.sample(timing_wheel::detail::with(labels, "handled", late.handled ? "1" : "0"),
                  seconds_of<kind_lag, &kind_lag::lag>(late));
    }
  }
  page.begin("timing_wheel_durable_lateness_seconds", "histogram", "From the deadline to the begin of the run.");
  for_each_kind([&](const metric_labels& labels, const kind_stats& kind) { page.sample(labels, kind.lateness); });
  out.write(page.text().data(), static_cast<std::streamsize>(page.text().size()));
}

void write_prometheus(std::ostream& out, std::span<const kind_counts> kinds, instant now, const metric_labels& labels) {
  timing_wheel::detail::validate(labels);
  timing_wheel::detail::exposition page;
  page.write(of_store_kind, [&](const auto& sample) {
    for (const kind_counts& each : kinds) {
      sample(timing_wheel::detail::with(labels, "kind", each.kind), each);
    }
  });
  page.begin("timing_wheel_durable_store_oldest_waiting_seconds", gauge,
             "How long the check that has waited for longest waits; 0 if none waits.");
  for (const kind_counts& each : kinds) {
    const auto waits = now - each.oldest_waiting.value_or(now);
    page.sample(timing_wheel::detail::with(labels, "kind", each.kind), std::chrono::duration<double>(waits).count());
  }
  out.write(page.text().data(), static_cast<std::streamsize>(page.text().size()));
}

}  // namespace timing_wheel::durable
