#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "durable/node/failures.hpp"
#include "durable/node/machine.hpp"
#include "durable/node/node_clock.hpp"
#include "durable/node/node_figures.hpp"
#include "durable/node/run_queue.hpp"
#include "durable/node/store_calls.hpp"
#include "durable/node/untold_failures.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Tells of the runs of a node: the user at once, of those that have failed; the store from time to time, so that an
/// operator sees what runs, what has failed, how fast it goes, and what a drained node still holds.
///
/// Invariant: what the store refuses is reported, and keeps no check waiting.
///
/// Thread safety: `tell_store` by one thread at a time; the rest from any thread, also beside it.
class run_reports {
 public:
  /// All but `clock` must outlive it. \param name of the node.
  run_reports(store& where, const std::string& name, const machine& of, const run_queue& runs,
              const node_figures& figures, store_calls& calls, failures& reported, node_clock clock) noexcept
      : store_(where),
        name_(name),
        machine_(of),
        runs_(runs),
        figures_(figures),
        calls_(calls),
        failures_(reported),
        clock_(clock) {}

  /// What the handler threw, and the death of the check; to the store, why it runs again.
  void tell_end(std::int64_t id, std::uint32_t kind, std::string_view key, int attempt, const outcome& said,
                const std::exception_ptr& thrown) noexcept;
  /// A run that was given up; to the store, why it runs again.
  void tell_given_up(const slow_run& which, const std::string& why) noexcept;

  /// Tells the store what it is time for. \returns when it is to be called again.
  instant tell_store(instant now);

 private:
  // Each returns when it is to be called again.
  instant tell_drained(instant now);
  instant tell_long_runs(instant now);
  instant tell_failed_runs(instant now);
  instant tell_runs(instant now);

  store& store_;
  const std::string& name_;
  const machine& machine_;
  const run_queue& runs_;
  const node_figures& figures_;
  store_calls& calls_;
  failures& failures_;
  const node_clock clock_;
  untold_failures failed_;  // any thread

  // For the thread that tells the store.
  std::optional<std::size_t> told_held_;  // of a drained node: what it has told last
  instant told_at_ = instant::min();      // and when it tried that last
  bool has_told_runs_ = false;            // of long ones
  instant tells_runs_at_ = instant::min();
  instant tells_failed_at_ = instant::min();
  run_counts told_runs_;  // of all that this node has counted
  instant tells_counts_at_ = instant::max();
  instant forgets_at_ = instant::max();  // what it has told of runs that have failed
};

}  // namespace timing_wheel::durable
