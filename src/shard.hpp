#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "failure_log.hpp"
#include "short_lock.hpp"
#include "sleeper.hpp"
#include "timer_core.hpp"
#include "timer_owner.hpp"

namespace timing_wheel::detail {

/// What the shards of one service share. It stays until the last handle is gone, so that a handle may wake the poller at any time.
///
/// Immutable after construction, but for parts that are thread-safe by themselves.
template <class Clock>
struct service_context {
  service_context(const timer_options& options, const Clock& time)
      : clock(time), scale(clock.now(), options.tick), door(options.max_pending) {}

  Clock clock;
  const tick_scale scale;
  admission door;
  sleeper poller;
  failure_log failures;
};

/// A part of the service with a lock, an engine and memory of its own.
///
/// Lock: `mutex_` guards `core_`. It is held for at most `max_timers_per_lock` timers. Callables are called and destroyed outside
/// it; they are moved into and out of their nodes under it.
template <timer_engine Engine, class Clock>
class shard final : public timer_owner {
 public:
  using context_pointer = std::shared_ptr<service_context<Clock>>;

  shard(const engine_options& options, context_pointer context)
      : context_(std::move(context)), core_(std::make_unique<core>(options, context_->door)) {
    batch_.reserve(max_timers_per_lock);
  }

  /// From any thread. A timer that is accepted comes with a reference to this shard, for its handle.
  admitted schedule(time_point now, time_point deadline, task& callback, std::uint64_t tag) {
    const moment when = moment_of(now, deadline);
    std::unique_lock lock(mutex_);
    const admitted result = core_->add(when, callback, tag);
    if (result.answer == verdict::accepted) {
      take_reference();
    }
    const tick next = core_->next_event();
    lock.unlock();
    context_->poller.wake_for(next);
    return result;
  }

  cancel_result cancel(timer_key key) noexcept override {
    task doomed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    return core_ == nullptr ? cancel_result::finished : core_->cancel(key, doomed);
  }

  bool reschedule(timer_key key, time_point deadline) override {
    const moment when = moment_of(context_->clock.now(), deadline);
    std::unique_lock lock(mutex_);
    if (core_ == nullptr || !core_->reschedule(key, when)) {
      return false;
    }
    const tick next = core_->next_event();
    lock.unlock();
    context_->poller.wake_for(next);
    return true;
  }

  timer_view look(timer_key key) noexcept override {
    const std::lock_guard lock(mutex_);
    return core_ == nullptr ? timer_view{} : core_->look(key);
  }

  [[nodiscard]] time_point now() const noexcept override { return context_->clock.now(); }

  /// What one turn of `run_due` did.
  struct turn {
    std::size_t handled = 0;  // timers moved or due
    std::size_t ran = 0;      // callbacks run
    bool more = false;        // there is more to do at once
  };

  /// Runs what is due at `now`, and cascades, for at most `max_timers_per_lock` timers. By one thread at a time, the driver.
  /// \throws std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated.
  turn run_due(tick now) {
    typename core::collected found;
    {
      const std::lock_guard lock(mutex_);
      found = core_->collect(now, batch_);
    }
    return {found.handled, run_batch(), found.more};
  }

  [[nodiscard]] tick next_event() const {
    const std::lock_guard lock(mutex_);
    return core_->next_event();
  }

  [[nodiscard]] std::size_t pending() const {
    const std::lock_guard lock(mutex_);
    return core_->pending();
  }

  void add_to(timer_stats& sum) const {
    const std::lock_guard lock(mutex_);
    core_->add_to(sum);
  }

  /// Refuses timers, and lets no callback begin, from now on.
  void close() {
    const std::lock_guard lock(mutex_);
    core_->close();
  }

  /// Moves every pending timer to the end of `left`. \pre closed, and `left` has room for `pending()` more.
  void take(std::vector<pending_task>& left) noexcept {
    slot cursor = 0;
    for (bool more = true; more;) {
      const std::lock_guard lock(mutex_);
      more = core_->take(cursor, left);
    }
  }

  /// Takes every pending timer out and destroys its callable. \pre closed.
  void discard() noexcept {
    std::vector<pending_task> some;
    try {
      some.reserve(max_timers_per_lock);
    } catch (const std::bad_alloc&) {
      return;  // they go with the rest in `retire`
    }
    slot cursor = 0;
    for (bool more = true; more; some.clear()) {
      const std::lock_guard lock(mutex_);
      more = core_->take(cursor, some);
    }
  }

  /// Gives the memory back; what is left answers handles. The spare references are not the last: the service still has its own.
  /// \pre closed, and no driver any more.
  void retire() noexcept {
    std::unique_ptr<core> dead;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    dead = std::move(core_);
    drop_references(std::exchange(spare_references_, 0));
  }

 private:
  using core = timer_core<Engine>;

  [[nodiscard]] moment moment_of(time_point now, time_point deadline) const noexcept {
    return {deadline, context_->scale.ceil(deadline), context_->scale.floor(now)};
  }

  // Under mutex_. References are counted in bulk, so that scheduling pays for no atomic operation.
  void take_reference() noexcept {
    constexpr std::uint64_t bulk = 1U << 20U;
    if (spare_references_ == 0) {
      add_references(bulk);
      spare_references_ = bulk;
    }
    --spare_references_;
  }

  // One lock per callback: it ends the run before and begins the next, so that a timer can be cancelled until its own begins.
  std::size_t run_batch() {
    std::size_t ran = 0;
    timer_node* running = nullptr;
    timer_key running_key;
    bool failed = false;
    for (const timer_key key : batch_) {
      const time_point now = context_->clock.now();
      {
        const std::lock_guard lock(mutex_);
        if (running != nullptr) {
          core_->finish(running_key.where, failed);
        }
        running = core_->claim(key, now, context_->clock);
      }
      if (running != nullptr) {
        running_key = key;
        failed = !run(*running);
        ++ran;
      }
    }
    if (running != nullptr) {
      const std::lock_guard lock(mutex_);
      core_->finish(running_key.where, failed);
    }
    return ran;
  }

  // The node is ours while it is running: its callable is called, and destroyed, where it lies.
  bool run(timer_node& node) noexcept {
    bool succeeded = true;
    try {
      node.callback();
    } catch (...) {
      succeeded = false;
      context_->failures.report(std::current_exception(), node.tag, context_->clock.now());
    }
    node.callback.reset();
    return succeeded;
  }

  // Immutable.
  const context_pointer context_;
  // Driver only.
  std::vector<timer_key> batch_;
  // Guarded by mutex_.
  alignas(64) mutable short_lock mutex_;
  std::unique_ptr<core> core_;
  std::uint64_t spare_references_ = 0;  // counted, and not yet given to a handle
};

}  // namespace timing_wheel::detail
