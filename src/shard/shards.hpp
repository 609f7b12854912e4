#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/timer_core.hpp"
#include "shard/context.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/pending.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

/// \file
/// The shards of a service: what handles and the rest of the service see of one, and on which of them a thread
/// schedules.

namespace timing_wheel::detail {

/// Why a timer was not accepted.
[[nodiscard]] constexpr refusal refusal_of(verdict answer) noexcept {
  return answer == verdict::stopped ? refusal::stopped : refusal::too_many_pending;
}

/// What a handle sees of the shard that its timer lives in; it stays until the last handle is gone.
///
/// Thread safety: all members may be called from any thread.
class timer_owner {
 public:
  timer_owner() = default;
  timer_owner(const timer_owner&) = delete;
  timer_owner& operator=(const timer_owner&) = delete;

  virtual cancel_result cancel(timer_id id) noexcept = 0;
  virtual cancel_result cancel_and_wait(timer_id id) noexcept = 0;
  /// Cancels at most `timers_per_group` timers under one lock. \returns how many of them it has cancelled.
  virtual std::size_t cancel_some(std::span<const timer_id> ids) noexcept = 0;
  virtual bool reschedule(timer_id id, time_point deadline) = 0;
  [[nodiscard]] virtual timer_view look(timer_id id) noexcept = 0;
  [[nodiscard]] virtual time_point now() const noexcept = 0;
  /// The same from the wall clock, and the present; the wall clock is read first.
  [[nodiscard]] virtual time_point from_wall(wall_time deadline) const noexcept = 0;
  /// The key of a timer of its, as `timer_handle::key`.
  [[nodiscard]] virtual std::uint64_t key_of(timer_id id) const noexcept = 0;
  /// Its place among the shards of the service.
  [[nodiscard]] virtual std::uint32_t index() const noexcept = 0;

  // References that are counted, and not yet given to a handle, so that scheduling pays for no atomic operation: one
  // per timer would take 7 ns (docs/decisions/measured.md). \pre the caller holds the lock of the shard, which
  // guards `spare_references_`.
  void count_reference() noexcept {
    constexpr std::uint64_t bulk = 1U << 20U;
    if (spare_references_ == 0) {
      add_references(bulk);
      spare_references_ = bulk;
    }
    --spare_references_;
  }
  void drop_spare_references() noexcept { drop_references(std::exchange(spare_references_, 0)); }

  /// A handle to one of its timers, which takes over a reference.
  [[nodiscard]] timer_handle handle_to(timer_id id) noexcept { return {this, id}; }

  // Memory order: a new reference is made from an existing one, so the increment orders nothing. The decrement releases
  // what this reference did, and the last one acquires it, before the object is destroyed.
  void add_references(std::uint64_t count) noexcept { references_.fetch_add(count, std::memory_order_relaxed); }
  void drop_references(std::uint64_t count) noexcept {
    if (references_.fetch_sub(count, std::memory_order_acq_rel) == count) {
      delete this;
    }
  }

 protected:
  virtual ~timer_owner() = default;

 private:
  std::uint64_t spare_references_ = 0;  // guarded by the lock of the shard
  alignas(64) std::atomic<std::uint64_t> references_{1};
};

/// A handle for the length of a callback, which counts no reference: whoever runs the callback keeps the shard.
class borrowed_handle {
 public:
  borrowed_handle(timer_owner* owner, timer_id id) noexcept : handle_(owner->handle_to(id)) {}
  ~borrowed_handle() {}  // NOLINT(modernize-use-equals-default): the handle must not drop what it did not count
  borrowed_handle(const borrowed_handle&) = delete;
  borrowed_handle& operator=(const borrowed_handle&) = delete;

  [[nodiscard]] const timer_handle& get() const noexcept { return handle_; }

 private:
  union {
    timer_handle
        handle_;  // NOLINT(readability-identifier-naming): private, though clang-tidy does not see it in a union
  };
};

/// What the turns of a drive have done so far.
struct turns {
  std::size_t handled = 0;  // timers moved or due
  std::size_t ran = 0;      // callbacks run, or handed to the executor
  bool more = false;        // there is more to do at once
};

/// The driver's part of a shard.
class due_runner {
 public:
  /// A turn: runs what is due at `now`, and cascades, for at most `max_timers_per_lock` timers, and at most `budget`
  /// callbacks; begins nothing at `until` or later. By one thread at a time, the driver; also from a callback that it
  /// runs: then the rest of the batch that is being run comes first. What it does is added to `sum`, whose callbacks
  /// count against the budget.
  /// \throws std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated.
  virtual void run_due(tick now, time_point until, std::size_t budget, turns& sum) = 0;

  /// Runs the callbacks of all pending timers, on this thread. Any thread may call it. \pre draining. \returns how
  /// many.
  virtual std::size_t run_all() = 0;

 protected:
  ~due_runner() = default;
};

/// A part of the service with a lock, an engine and memory of its own: what the service sees of it, whatever the
/// engine.
///
/// Thread safety: any thread.
class shard : public timer_owner {
 public:
  /// A timer that is accepted comes with a reference to this shard, for its handle. \throws std::bad_alloc, and what
  /// moving the callable throws; then nothing was scheduled.
  virtual admitted schedule(const arming& wanted, task_source& callback, std::uint64_t tag) = 0;

  struct scheduled_some {
    std::size_t count = 0;
    refusal why = refusal::none;  // of the one after these
  };
  /// Schedules at most `timers_per_group` timers under one lock, up to the first that is refused. The first of them, as
  /// many as there are ids, come with an id, and a reference to this shard for their handle.
  virtual scheduled_some schedule_some(time_point now, std::span<pending_task> timers,
                                       std::span<timer_id> ids) noexcept = 0;

  /// What runs its timers. Immutable.
  [[nodiscard]] due_runner& due() const noexcept { return *runner_; }

  /// As `cancel`, with an id from a key that may be anybody's.
  virtual cancel_result cancel_unknown(timer_id id) noexcept = 0;

  /// Takes back what was handed to the executor and has not begun, as if it had refused: all that is due is handed over
  /// anew at the next tick. A task from before does nothing until then. \pre there is an executor.
  virtual void take_back() noexcept = 0;

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
  virtual void remove_pending(std::vector<pending_task>& left) noexcept = 0;

  /// Takes every pending timer out and destroys its callable. \returns how many. \throws std::bad_alloc. \pre closed.
  virtual std::size_t discard() = 0;

  /// Waits until no callback runs. \pre closed; not from a callback.
  virtual void wait_for_runs() noexcept = 0;

  /// Waits until nothing is pending, and, unless this is called from a callback, running; at most until `deadline`.
  /// \pre draining.
  virtual void wait_for_all(time_point deadline) noexcept = 0;

  /// Gives the memory back; what is left answers handles. \pre closed, and no driver any more.
  virtual void retire() noexcept = 0;

  /// The same, once the last handle and task are gone: for a caller that cannot wait for a callback that still runs.
  virtual void retire_later() noexcept = 0;

 protected:
  void is_run_by(due_runner& runner) noexcept { runner_ = &runner; }

 private:
  due_runner* runner_ = nullptr;
};

/// \throws std::invalid_argument naming the value and the range; std::bad_alloc.
[[nodiscard]] shard* make_shard_on_hierarchical_wheel(const engine_options& options, std::uint32_t index,
                                                      std::shared_ptr<service_context> context);
[[nodiscard]] shard* make_shard_on_hashed_wheel(const engine_options& options, std::uint32_t index,
                                                std::shared_ptr<service_context> context);
[[nodiscard]] shard* make_shard_on_heap_queue(const engine_options& options, std::uint32_t index,
                                              std::shared_ptr<service_context> context);

/// Which shard a thread schedules on. The threads of a service are dealt to its shards in turn, and each remembers its
/// shard, in a few services at a time. That is only a habit: a thread that has forgotten its shard gets another one.
/// With several pollers each of them begins with a shard of its own.
///
/// Memory for one service instead of eight would save ten instructions of a schedule, with several shards; a thread
/// that uses two services in turn would pay 6 ns more for a schedule and its cancel.
///
/// Thread safety: any thread.
class shard_choice {
 public:
  [[nodiscard]] std::size_t index(std::size_t shards) noexcept {
    habit& mine = habit_of_thread();
    if (mine.service != this || mine.born != born_ || mine.index >= shards) [[unlikely]] {
      deal(mine, shards);
    }
    return mine.index;
  }

  /// Makes a shard that of the calling thread.
  void assign(std::size_t index) noexcept { habit_of_thread() = {this, born_, index}; }

 private:
  struct habit {
    const shard_choice* service = nullptr;
    std::chrono::steady_clock::time_point born;  // tells it from a service at the same address before
    std::size_t index = 0;                       // of its shard
  };

  [[nodiscard]] habit& habit_of_thread() const noexcept {
    thread_local std::array<habit, 8> habits;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    return habits[(address / 64 ^ address / 4096) % habits.size()];
  }

  [[gnu::noinline, gnu::cold]] void deal(habit& mine, std::size_t shards) noexcept {
    mine = {this, born_, next_.fetch_add(1, std::memory_order_relaxed) % shards};
  }

  const std::chrono::steady_clock::time_point born_ = std::chrono::steady_clock::now();
  std::atomic<unsigned> next_{0};  // relaxed: it only hands out numbers
};

/// What can be refused before anything is made, whoever drives the service; the engines check the rest.
/// \throws timer_error (`invalid_option`) naming the value and the range.
void validate(const timer_options& options);

/// Some shards: those of a lane, or all of a service. Immutable.
class shard_group {
 public:
  shard_group() noexcept = default;
  explicit shard_group(std::vector<shard*> members) noexcept : members_(std::move(members)) {}

  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] shard& operator[](std::size_t index) const noexcept { return *members_[index]; }
  [[nodiscard]] auto begin() const noexcept { return members_.begin(); }
  [[nodiscard]] auto end() const noexcept { return members_.end(); }

  /// When there is something to do next: 0 if at once, `never` if nothing is pending.
  [[nodiscard]] tick next_event() const noexcept {
    tick next = never;
    for (const shard* s : members_) {
      next = std::min(next, s->next_event());
    }
    return next;
  }
  [[nodiscard]] std::size_t pending() const noexcept;

 private:
  std::vector<shard*> members_;
};

/// The shards of a service, and which of them a thread schedules on. Immutable after construction.
class shards {
 public:
  /// \throws timer_error (`invalid_option`) naming the value and the range; std::bad_alloc. \pre `validate` lets the
  /// options pass, and the context has the lanes.
  shards(const timer_options& options, const std::shared_ptr<service_context>& context);

  /// What came of a call of `schedule`.
  struct scheduled {
    timer_owner* owner = nullptr;
    timer_id id{};
    refusal why = refusal::none;
  };

  /// Schedules on the shard of the calling thread. \throws as `shard::schedule`.
  scheduled schedule(const arming& wanted, task_source& callback, std::uint64_t tag) {
    shard& mine = home();
    const admitted result = mine.schedule(wanted, callback, tag);
    if (result.answer() != verdict::accepted) [[unlikely]] {
      return {.why = refusal_of(result.answer())};
    }
    return {&mine, result.id()};
  }
  /// The shard of the calling thread.
  [[nodiscard]] shard& home() noexcept { return only_ != nullptr ? *only_ : all_[choice_.index(all_.size())]; }
  /// Makes a shard that of the calling thread.
  void make_home(std::size_t index) noexcept { choice_.assign(index); }

  [[nodiscard]] const shard_group& all() const noexcept { return all_; }
  /// Those of one of `lanes` lanes, to which they are dealt in turn.
  [[nodiscard]] shard_group of_lane(std::uint32_t lane, std::uint32_t lanes) const;

 private:
  struct release {
    void operator()(shard* s) const noexcept { s->drop_references(1); }
  };

  std::vector<std::unique_ptr<shard, release>> made_;
  shard_group all_;
  shard* only_ = nullptr;  // of a service with one
  shard_choice choice_;
};

}  // namespace timing_wheel::detail
