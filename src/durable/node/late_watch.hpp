#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "durable/node/failures.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Looks in the store for checks that are late, wherever they wait: also for those that their node does not know, and
/// those of kinds that it has no handler for. Tells of such a kind once a check of it has waited for a sweep, at most
/// once an hour; and of a clock of the store that is not this machine's.
///
/// A look costs a statement. So it makes one with each sweep, and with the next step after a call of `read`;
/// and while a kind that has a handler is late, so that what was late is soon forgotten. But no look begins sooner than
/// a second after the one before, and a hundred times as long as that one took. The first look is at the clock alone.
///
/// Thread safety: `read` from any thread; the rest by one at a time, also beside `read`.
class late_watch {
 public:
  late_watch(store& where, std::vector<std::string> kinds, const scheduler_options& options, failures& reported);
  late_watch(const late_watch&) = delete;
  late_watch& operator=(const late_watch&) = delete;

  /// Whether to look now. \param now by a clock that nobody sets.
  [[nodiscard]] bool is_time(instant now) const noexcept;
  /// The longest pause between two steps: a poll, if the node has no kind, so that a step sees that `read` was called.
  /// A node with a kind polls anyway.
  [[nodiscard]] std::chrono::microseconds pause() const noexcept;
  /// Looks. \throws what the store throws, and std::bad_alloc.
  void look(instant now);
  /// No look any more: nothing is late.
  void forget() noexcept;
  /// Adds what the last look has found. What is less than a second late counts as not late. \throws std::bad_alloc.
  void read(scheduler_stats& into) const;

 private:
  void look_at_checks();
  void look_at_clock();
  [[nodiscard]] std::vector<kind_lag> late_by(instant now) const;
  void tell_unhandled(const std::vector<kind_lag>& late, instant now);
  void tell_clock(std::chrono::microseconds difference);

  store& store_;
  const std::vector<std::string> kinds_;
  const std::chrono::microseconds sweep_;
  const std::chrono::microseconds poll_;
  failures& failures_;

  // For the thread that looks.
  instant next_{};        // at the earliest
  instant next_sweep_{};  // at the latest
  bool is_late_ = false;  // a kind with a handler was
  bool begun_ = false;
  std::vector<overdue_kind> found_;
  std::map<std::string, instant> told_;  // when it has told of a kind
  bool told_clock_ = false;

  mutable std::atomic<bool> asked_{false};  // by `read`. Relaxed: it publishes nothing
  mutable std::mutex mutex_;                // guards what follows
  std::vector<kind_lag> late_;
  std::chrono::microseconds difference_{};
};

}  // namespace timing_wheel::durable
