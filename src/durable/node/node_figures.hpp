#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "durable/node/machine.hpp"
#include "durable/node/node_clock.hpp"
#include "durable/node/run_queue.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Of the runs of a kind, what was written at once.
struct run_tally {
  std::uint64_t done = 0;
  std::uint64_t retried = 0;
  std::uint64_t snoozed = 0;
  std::uint64_t given_back = 0;
  std::uint64_t dead = 0;
  std::uint64_t lost_leases = 0;
};

/// Keeps what a node shows of itself: counts; and what was ready at the last step, and since when. A lag grows also
/// while a handler, or the store, hangs and no step is made.
///
/// Invariant: of what one transaction has written, a reader sees all counts or none.
///
/// Thread safety: `written`, `show_written`, `show` and `enter_handler` by one thread at a time; the rest from any
/// thread, also beside them. Lock: `mutex_`.
class node_figures {
 public:
  /// `kinds` must outlive it.
  node_figures(const std::vector<std::string>& kinds, node_clock clock);

  /// A run of a check that was due then begins. \param now by the clock of the store.
  void count_begin(std::uint32_t kind, instant due, instant now);
  /// A run was given up, since it took too long.
  void count_given_up(std::uint32_t kind);
  /// A call of the store has failed.
  void count_failure();
  /// The runs of all kinds.
  [[nodiscard]] run_counts runs() const;
  /// Sets what it knows, and what `runs` knows. All memory is taken before the lock: under it, counts are copied.
  void read(scheduler_stats& into, const run_queue& runs) const;

  /// What was written of a kind; it shows from `show_written` on.
  [[nodiscard]] run_tally& written(std::uint32_t kind) noexcept { return tally_[kind]; }
  void show_written();
  /// What the machine knows at `now`, by the clock of the store. While the node is closing, nothing is late.
  void show(const machine& of, bool closing, instant now);
  /// A transactional handler of that kind runs; none: it has left.
  void enter_handler(std::optional<std::uint32_t> of);

 private:
  const std::vector<std::string>& kinds_;
  const node_clock clock_;
  std::vector<run_tally> tally_;  // by kind: written, and not yet in `stats_`

  mutable std::mutex mutex_;                 // guards what follows
  scheduler_stats stats_;                    // what is told by kind has no total here
  std::vector<instant> due_since_;           // by kind: what is due and was not claimed, at the last step
  instant next_due_ = instant::max();        // then: what waits
  instant shown_at_{};                       // then, by the clock of the store
  instant shown_when_{};                     // and by that of the runs
  std::optional<std::uint32_t> in_handler_;  // a transactional one runs, of this kind
  instant in_handler_since_{};
};

}  // namespace timing_wheel::durable
