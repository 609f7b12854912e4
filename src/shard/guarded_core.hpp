#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "core/timer_core.hpp"
#include "shard/context.hpp"
#include "system/short_lock.hpp"

namespace timing_wheel::detail {

/// A core behind its lock, and those who wait for something to end in it.
///
/// Lock: `mutex` guards `core` and what it points to. It is held for at most `max_timers_per_lock` timers. Callables
/// are called and destroyed outside it; they are moved into and out of their nodes under it.
template <timer_engine Engine>
class guarded_core {
 public:
  using core_type = timer_core<Engine>;

  /// `driver` is where the driver of this shard sleeps; a part of the context.
  guarded_core(const engine_options& options, std::shared_ptr<service_context> shared, sleeper& driver)
      : context(std::move(shared)),
        core(std::make_unique<core_type>(options, context->scale, context->door)),
        driver_(driver) {}

  [[nodiscard]] moment moment_of(time_point now, time_point deadline) const noexcept {
    return {deadline, context->scale.ceil(deadline), context->scale.floor(now)};
  }

  /// Unlocks, and wakes the driver if this shard now has something to do before what it waits for. \pre the core is
  /// there.
  void wake_for_next(std::unique_lock<short_lock>& lock) noexcept {
    const tick next = core->next_event();
    lock.unlock();
    context->wake_for(next, driver_);
  }

  /// Under the lock. Whoever may have ended what is waited for calls one of these.
  void notify() noexcept {
    if (has_waiting()) {
      changed_.notify_all();
    }
  }
  /// Whether a thread waits for the end of something. Without the lock too: the driver asks after each step in the
  /// claim window. Who waits says so first, and then looks at the window; so one of the two sees the other.
  [[nodiscard]] bool has_waiting() const noexcept { return waiting_.load(std::memory_order_seq_cst) != 0; }
  void notify_if_drained() noexcept {
    if (core->is_drained()) {
      notify_drained();
    }
  }

  /// Ends a run. Under the lock.
  [[gnu::always_inline]] void finish(timer_id id, timer_node& node) noexcept {
    core->finish(id.number, node);
    notify();
  }

  template <class Done>
  void wait(std::unique_lock<short_lock>& lock, Done done) noexcept {
    ++waiting_;
    changed_.wait(lock, done);
    --waiting_;
  }
  template <class Done>
  void wait_until(std::unique_lock<short_lock>& lock, time_point deadline, Done done) noexcept {
    ++waiting_;
    changed_.wait_until(lock, deadline, done);
    --waiting_;
  }

  // Immutable.
  const std::shared_ptr<service_context> context;
  // Guarded by the mutex.
  alignas(64) mutable short_lock mutex;
  std::unique_ptr<core_type> core;  // null once the service is gone

 private:
  [[gnu::noinline]] void notify_drained() noexcept {
    notify();
    driver_.wake();
  }

  sleeper& driver_;
  std::atomic<std::size_t> waiting_{0};  // threads that wait for `changed_`
  std::condition_variable_any changed_;
};

}  // namespace timing_wheel::detail
