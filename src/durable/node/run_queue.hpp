#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "durable/node/leased_run.hpp"
#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable {

/// A run that takes longer than its kind may.
struct slow_run {
  std::int64_t id = 0;
  std::int64_t fence = 0;
  std::uint32_t kind = 0;
  std::string key;
  int attempt = 0;
  bool given_up = false;  ///< If not, it is to be asked to stop.
};

/// The runs of claimed checks: those that wait for a thread, oldest first; those that have begun; those that were given
/// up, until their handlers return; and those that are over, until the node has written their ends. A thread is asked
/// for as often as a run comes; it takes the run that has waited longest. So a run that has waited for too long can go
/// back to the store, although a thread is still on its way for it: that thread finds another run, or none.
///
/// Invariants:
/// 1. A run is in one of the four lists. So it begins or goes back without a begin, and never both.
/// 2. For each waiting run a thread is on its way.
///
/// Memory: none, but for what is returned. Thread safety: any thread. Lock: `mutex_` guards all members; nothing is
/// called under it.
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
  /// The run that `begin` has returned is over. \returns it, if `take_given_up` has returned it: nobody asks for its
  /// end.
  std::unique_ptr<leased_run> end(leased_run& run) noexcept;
  /// A thread that was asked for does not come. If none is left for the run that came last, that is over.
  void drop() noexcept;
  /// What has waited since before `limit` is over. \returns whether there was any.
  bool end_late(instant limit) noexcept;
  /// The runs that have waited since before `limit`, as id and fence: from now on they may not begin.
  /// \throws std::bad_alloc; then nothing has changed.
  [[nodiscard]] std::vector<ticket> forbid_late(instant limit);
  /// What has run for longer than its kind may, by `limits`: it is to be asked to stop; after half as long again it is
  /// given up. Each is told once. \throws std::bad_alloc; then nothing has changed.
  [[nodiscard]] std::vector<slow_run> past_limit(std::span<const std::chrono::microseconds> limits, instant now);
  /// The runs that were given up, and whose handlers have not returned; each is returned once. \throws std::bad_alloc;
  /// then nothing has changed.
  [[nodiscard]] std::vector<slow_run> take_given_up();
  /// When `past_limit` has something to say next; `instant::max()` if never.
  [[nodiscard]] instant next_limit(std::span<const std::chrono::microseconds> limits) const noexcept;
  /// All whose handlers have not returned. \throws std::bad_alloc.
  [[nodiscard]] std::vector<unfinished_run> unfinished(instant now) const;
  /// Of those that have begun before `limit`, up to `most`; `begun` is when, by the clock of `begin`. Those that were
  /// given up come first, and then the oldest. \throws std::bad_alloc.
  [[nodiscard]] std::vector<long_run> begun_before(instant limit, std::size_t most) const;
  /// Hands over what is over. \returns it; the caller owns it.
  [[nodiscard]] run_list take_ended() noexcept;

  /// When the run that has waited longest came; `instant::max()` if none waits.
  [[nodiscard]] instant first() const noexcept;
  /// Whether nothing waits, runs without having been given up, or is over and was not handed over.
  [[nodiscard]] bool empty() const noexcept;
  /// How many runs have begun, and are neither over nor given up.
  [[nodiscard]] std::size_t running() const noexcept;
  /// How many were given up, and their handlers have not returned.
  [[nodiscard]] std::size_t lost() const noexcept;
  /// The same by kind: `lost` has a place for each.
  void count_lost(std::span<std::size_t> lost) const noexcept;
  /// Whether the check of a run that has begun goes on without it.
  [[nodiscard]] bool is_written_off(const leased_run& run) const noexcept;
  /// How many runs of each kind wait and run; since when the oldest of those that wait is due, and the oldest of those
  /// that run has run, given up or not. The spans have a place for each kind. Complexity: O(waiting and running).
  void count(std::span<std::size_t> waiting, std::span<std::size_t> running, std::span<instant> due,
             std::span<instant> runs_since) const noexcept;
  /// What a claim depends on, at one moment.
  struct state {
    std::size_t waiting = 0;
    std::size_t running = 0;
    std::size_t lost = 0;
    std::size_t asked = 0;             ///< Threads that have not come: as many as runs wait, or more.
    std::size_t young = 0;             ///< Of the running: how many have not run for longer than `horizon`.
    std::chrono::microseconds work{};  ///< What all that wait take.
    /// What another run takes on each thread whose run is `short_run` at most, and has not taken twice as long.
    std::chrono::microseconds ahead{};
  };
  /// \param costs what a run of each kind takes.
  [[nodiscard]] state look(instant now, std::chrono::microseconds horizon,
                           std::span<const std::chrono::microseconds> costs,
                           std::chrono::microseconds short_run) const noexcept;

 private:
  mutable std::mutex mutex_;
  run_list waiting_;  // the lists own their runs
  run_list running_;
  run_list lost_;
  run_list ended_;
  std::vector<std::size_t> waiting_of_;  // by kind
  std::vector<std::size_t> running_of_;
  std::size_t threads_ = 0;  // on their way
};

}  // namespace timing_wheel::durable
