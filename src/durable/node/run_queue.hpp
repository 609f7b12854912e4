#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "durable/node/leased_run.hpp"
#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// The runs of claimed checks: those that wait for a thread, oldest first; those that have begun; and those that are
/// over, until the node has written their ends. A thread is asked for as often as a run comes; it takes the run that has
/// waited longest. So a run that has waited for too long can go back to the store, although a thread is still on its way
/// for it: that thread finds another run, or none.
///
/// Invariants:
/// 1. A run is in one of the three lists. So it begins or goes back without a begin, and never both.
/// 2. For each waiting run a thread is on its way.
///
/// Memory: none. Thread safety: any thread. Lock: `mutex_` guards all members; nothing is called under it.
class run_queue {
 public:
  explicit run_queue(std::size_t kinds) : waiting_of_(kinds), running_of_(kinds) {}
  run_queue(const run_queue&) = delete;
  run_queue& operator=(const run_queue&) = delete;
  ~run_queue();

  /// The run waits from `now` on. \returns whether a thread must be asked for.
  [[nodiscard]] bool push(std::unique_ptr<leased_run> run, instant now) noexcept;
  /// A thread that was asked for is there. \returns the run that has waited longest, which has begun now; null if none
  /// waits.
  [[nodiscard]] leased_run* begin(instant now) noexcept;
  /// The run that `begin` has returned is over.
  void end(leased_run& run) noexcept;
  /// A thread that was asked for does not come. If none is left for the run that came last, that is over.
  void drop() noexcept;
  /// What has waited since before `limit` is over. \returns whether there was any.
  bool end_late(instant limit) noexcept;
  /// The checks whose runs have waited since before `limit`. \throws std::bad_alloc.
  [[nodiscard]] std::vector<std::int64_t> late(instant limit) const;
  /// Hands over what is over. \returns it; the caller owns it.
  [[nodiscard]] run_list take_ended() noexcept;

  /// When the run that has waited longest came; `instant::max()` if none waits.
  [[nodiscard]] instant first() const noexcept;
  /// Whether nothing waits, runs, or is over and was not handed over.
  [[nodiscard]] bool empty() const noexcept;
  /// How many runs wait.
  [[nodiscard]] std::size_t waiting() const noexcept;
  /// How many runs have begun and are not over.
  [[nodiscard]] std::size_t running() const noexcept;
  /// How many of them began after `since`.
  [[nodiscard]] std::size_t begun_after(instant since) const noexcept;
  /// How many runs of each kind wait and run, and since when the oldest of those that wait is due. The spans have a
  /// place for each kind. Complexity: O(waiting).
  void count(std::span<std::size_t> waiting, std::span<std::size_t> running, std::span<instant> oldest) const noexcept;
  /// What all that wait take, if a run of each kind takes its part of `costs`.
  [[nodiscard]] std::chrono::microseconds work(std::span<const std::chrono::microseconds> costs) const noexcept;
  /// How many threads were asked for, and have not come: as many as runs wait, or more.
  [[nodiscard]] std::size_t asked() const noexcept;

 private:
  mutable std::mutex mutex_;
  run_list waiting_;  // the lists own their runs
  run_list running_;
  run_list ended_;
  std::vector<std::size_t> waiting_of_;  // by kind
  std::vector<std::size_t> running_of_;
  std::size_t threads_ = 0;  // on their way
};

}  // namespace timing_wheel::durable
