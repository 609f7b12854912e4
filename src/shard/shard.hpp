#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/timer_core.hpp"
#include "shard/context.hpp"
#include "shard/timer_owner.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/pending.hpp"

namespace timing_wheel::detail {

/// A part of the service with a lock, an engine and memory of its own: what the service sees of it, whatever the
/// engine.
///
/// Thread safety: `run_due` is for the driver; the rest may be called from any thread.
class shard : public timer_owner {
 public:
  /// A timer that is accepted comes with a reference to this shard, for its handle. \throws std::bad_alloc, and what
  /// moving the callable throws; then nothing was scheduled.
  virtual admitted schedule(time_point now, time_point deadline, task_source& callback, std::uint64_t tag,
                            bool recurring) = 0;

  /// As `cancel`, with an id from a key that may be anybody's.
  virtual cancel_result cancel_unknown(timer_id id) noexcept = 0;

  /// What one share of `run_due` did.
  struct share {
    std::size_t handled = 0;  // timers moved or due
    std::size_t ran = 0;      // callbacks run, or handed to the executor
    bool more = false;        // there is more to do at once
  };

  /// Runs what is due at `now`, and cascades, for at most `max_timers_per_lock` timers, and at most `budget` callbacks;
  /// begins nothing at `until` or later. By one thread at a time, the driver; also from a callback that it runs: then
  /// the rest of the batch that is being run comes first. What it does is added to `sum`, whose callbacks count against
  /// the budget.
  /// \throws std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated.
  virtual void run_due(tick now, time_point until, std::size_t budget, share& sum) = 0;

  /// Takes back what was handed to the executor and has not begun, as if it had refused: all that is due is handed over
  /// anew at the next tick. A task from before does nothing until then. \pre there is an executor.
  virtual void take_back() noexcept = 0;

  /// Runs the callbacks of all pending timers, on this thread. \pre draining. \returns how many.
  virtual std::size_t run_all() = 0;

  /// Puts pending timers from `cursor` on into `found`, which has room for `max_timers_per_lock`. \returns whether
  /// there are more.
  virtual bool list(timer_number& cursor, std::vector<pending_timer>& found) noexcept = 0;

  /// When there is something to do next: 0 if at once, `never` if nothing is pending. The same until that changes; so
  /// what is overdue has a tick that is over.
  [[nodiscard]] virtual tick next_event() const noexcept = 0;
  [[nodiscard]] virtual std::size_t pending() const noexcept = 0;

  /// Copies its counts under the lock. Allocates nothing there.
  virtual void read(core_stats& into) const = 0;

  /// Gives back memory that no pending timer needs, in many short holds of the lock.
  virtual void shrink() noexcept = 0;

  virtual void enter(phase next) noexcept = 0;

  /// Moves every pending timer to the end of `left`. \pre closed, and `left` has room for `pending()` more.
  virtual void take(std::vector<pending_task>& left) noexcept = 0;

  /// Takes every pending timer out and destroys its callable. \returns how many. \throws std::bad_alloc. \pre closed.
  virtual std::size_t discard() = 0;

  /// Waits until no callback runs. \pre closed; not from a callback.
  virtual void wait_for_runs() noexcept = 0;

  /// Waits until nothing is pending, and, unless this is called from a callback, running; at most until `deadline`.
  /// \pre draining.
  virtual void wait_for_all(time_point deadline) noexcept = 0;

  /// Gives the memory back; what is left answers handles. \pre closed, and no driver any more.
  virtual void retire() noexcept = 0;

  /// The same, once the last handle and task are gone: for who cannot wait for a callback that still runs.
  virtual void retire_later() noexcept = 0;
};

/// \throws std::invalid_argument naming the value and the range; std::bad_alloc.
[[nodiscard]] shard* make_shard_on_hierarchical_wheel(const engine_options& options, std::uint32_t index,
                                                      std::shared_ptr<service_context> context);
[[nodiscard]] shard* make_shard_on_hashed_wheel(const engine_options& options, std::uint32_t index,
                                                std::shared_ptr<service_context> context);
[[nodiscard]] shard* make_shard_on_heap_queue(const engine_options& options, std::uint32_t index,
                                              std::shared_ptr<service_context> context);

}  // namespace timing_wheel::detail
