#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/timer_core.hpp"
#include "shard/context.hpp"
#include "shard/run_frame.hpp"
#include "shard/runner.hpp"
#include "shard/shards.hpp"
#include "system/short_lock.hpp"
#include "system/trace_point.hpp"

/// \file
/// A shard on one engine: its lock, and what callers, handles and `stop` do under it. Each engine is compiled on its
/// own, in `shard_on_<engine>.cpp`: compilers inline less the more they see.

namespace timing_wheel::detail {

/// A core behind its lock, and the threads that wait for something to end in it.
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

  /// Unlocks, and wakes the driver if this shard now has something to do before what it waits for. \pre the core is
  /// there.
  void wake_for_next(std::unique_lock<short_lock>& lock) noexcept {
    const tick next = core->next_event();
    lock.unlock();
    context->wake_for(next, driver_);
  }

  /// Under the lock. Each step that may have ended what a thread waits for calls one of these.
  void notify() noexcept {
    if (has_waiting()) {
      changed_.notify_all();
    }
  }
  /// Whether a thread waits for the end of something. Without the lock too: the driver asks after each step with its
  /// offers. A thread that waits says so first, and then looks at the offers; so one of the two sees the other.
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

/// The timers of one shard: what callers, handles and `stop` do with them. The driver's part is the runner's.
template <timer_engine Engine>
class shard_on final : public shard {
 public:
  shard_on(const engine_options& options, std::uint32_t index, std::shared_ptr<service_context> context)
      : index_(index),
        context_(*context),
        timers_(options, std::move(context), context_.sleeper_of(index)),
        runner_(*this, timers_) {
    is_run_by(runner_);
  }

  // The two most frequent calls, `schedule` and `cancel`, are flattened: compilers would find them too large to inline
  // what they do, and calling it takes a third more instructions.

  [[gnu::flatten]] admitted schedule(const arming& wanted, task_source& callback, std::uint64_t tag) override {
    if (wanted.window > wanted.window.zero()) [[unlikely]] {
      return schedule_within(wanted, callback, tag);
    }
    return add(wanted, callback, tag, 0);
  }

  [[gnu::flatten]] scheduled_some schedule_some(time_point now, std::span<pending_task> timers,
                                                std::span<timer_id> ids) noexcept override {
    scheduled_some some;
    std::unique_lock lock(timers_.mutex);
    for (pending_task& one : timers) {
      timer_id* const id = some.count < ids.size() ? &ids[some.count] : nullptr;
      some.why = one.window > one.window.zero() ? add_within(now, one, id) : add_locked(now, one, id, 0);
      if (some.why != refusal::none) {
        break;
      }
      ++some.count;
    }
    timers_.wake_for_next(lock);
    return some;
  }

  [[gnu::flatten]] cancel_result cancel(timer_id id) noexcept override {
    if (context_.process.is_child()) {
      return cancel_result::finished;
    }
    task doomed;  // destroyed after the lock is released
    const std::lock_guard lock(timers_.mutex);
    return cancel_locked(id, doomed);
  }

  std::size_t cancel_some(std::span<const timer_id> ids) noexcept override {
    if (context_.process.is_child()) {
      return 0;
    }
    std::array<task, timers_per_group> doomed;  // destroyed after the lock is released
    std::size_t cancelled = 0;
    const std::lock_guard lock(timers_.mutex);
    if (is_gone()) {
      return 0;
    }
    timers_.core->prefetch(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      cancelled += cancel_locked(ids[i], doomed[i]) == cancel_result::cancelled ? 1U : 0U;
    }
    return cancelled;
  }

  cancel_result cancel_unknown(timer_id id) noexcept override {
    if (context_.process.is_child()) {
      return cancel_result::finished;
    }
    task doomed;  // destroyed after the lock is released
    const std::lock_guard lock(timers_.mutex);
    return !is_gone() && timers_.core->has_place(id.number) ? cancel_locked(id, doomed) : cancel_result::finished;
  }

  cancel_result cancel_and_wait(timer_id id) noexcept override {
    if (context_.process.is_child()) {
      return cancel_result::finished;
    }
    task doomed;  // destroyed after the lock is released
    std::unique_lock lock(timers_.mutex);
    const cancel_result result = cancel_locked(id, doomed);
    if (result == cancel_result::running && !run_frame::is_in(this, id)) {
      timers_.wait(lock, [&] { return is_gone() || timers_.core->look(id).status != timer_status::running; });
    }
    return result;
  }

  bool reschedule(timer_id id, time_point deadline) override {
    if (context_.process.is_child()) {
      return false;
    }
    const moment when(context_.clock.now(), deadline, context_.scale);
    std::unique_lock lock(timers_.mutex);
    if (is_gone() || !timers_.core->reschedule(id, when)) {
      return false;
    }
    if (context_.tells()) {
      tell_of_next(lock);
    } else {
      timers_.wake_for_next(lock);
    }
    return true;
  }

  timer_view look(timer_id id) noexcept override {
    if (context_.process.is_child()) {
      return {};
    }
    const std::lock_guard lock(timers_.mutex);
    return is_gone() ? timer_view{} : timers_.core->look(id);
  }

  [[nodiscard]] time_point now() const noexcept override { return context_.clock.now(); }
  [[nodiscard]] time_point from_wall(wall_time deadline) const noexcept override {
    return context_.from_wall(deadline).deadline;
  }
  [[nodiscard]] std::uint64_t key_of(timer_id id) const noexcept override { return context_.keys.key_of(index_, id); }
  [[nodiscard]] std::uint32_t index() const noexcept override { return index_; }

  void take_back() noexcept override {
    const tick present = context_.scale.floor(context_.clock.now());
    timer_number cursor = 0;
    for (bool more = true; more;) {
      std::unique_lock lock(timers_.mutex);
      if (is_gone()) {
        return;
      }
      more = timers_.core->list(
          cursor, [&](timer_id id, const timer_node& /*node*/) { timers_.core->give_back(id, present + 1, present); });
      timers_.wake_for_next(lock);
    }
  }

  bool list(timer_number& cursor, std::vector<pending_timer>& found) noexcept override {
    const std::lock_guard lock(timers_.mutex);
    return !is_gone() && timers_.core->list(cursor, [&](timer_id id, const timer_node& node) {
      count_reference();
      found.push_back({handle_to(id), node.deadline, node.tag});
    });
  }

  [[nodiscard]] tick next_event() const noexcept override {
    const std::lock_guard lock(timers_.mutex);
    return std::min(timers_.core->next_event(), runner_.due_since());
  }

  [[nodiscard]] std::size_t pending() const noexcept override {
    const std::lock_guard lock(timers_.mutex);
    return timers_.core->pending();
  }

  void read(core_stats& into) const override {
    const tick present = context_.scale.floor(context_.clock.now());
    const std::lock_guard lock(timers_.mutex);
    timers_.core->read(into, present);
  }

  void shrink() noexcept override {
    while (shrink_some()) {
      short_lock::give_way();
    }
  }

  void enter(phase next) noexcept override {
    const std::lock_guard lock(timers_.mutex);
    timers_.core->enter(next);
    timers_.notify_if_drained();
  }

  void remove_pending(std::vector<pending_task>& left) noexcept override {
    timer_number cursor = 0;
    while (remove_some(cursor, left)) {
    }
  }

  std::size_t discard() override {
    std::vector<pending_task> some;
    some.reserve(max_timers_per_lock);
    std::size_t dropped = 0;
    timer_number cursor = 0;
    for (bool more = true; more;) {
      more = remove_some(cursor, some);
      dropped += some.size();
      some.clear();
    }
    return dropped;
  }

  void wait_for_runs() noexcept override {
    std::unique_lock lock(timers_.mutex);
    timers_.wait(lock, [this] { return timers_.core->running() == 0; });
  }

  void wait_for_all(time_point deadline) noexcept override {
    std::unique_lock lock(timers_.mutex);
    const bool called = run_frame::is_called_by(&context_);
    const auto is_idle = [&] { return timers_.core->is_drained() && (called || timers_.core->running() == 0); };
    if (deadline == time_point::max()) {
      timers_.wait(lock, is_idle);
    } else {
      timers_.wait_until(lock, deadline, is_idle);
    }
  }

  // In both, the spare references are not the last: the service still has its own.
  void retire() noexcept override {
    std::unique_ptr<timer_core<Engine>> dead;  // destroyed after the lock is released
    const std::lock_guard lock(timers_.mutex);
    dead = std::move(timers_.core);
    drop_spare_references();
  }

  void retire_later() noexcept override {
    const std::lock_guard lock(timers_.mutex);
    drop_spare_references();
  }

 private:
  // A code of its own, so that a timer without a window pays for one comparison.
  [[gnu::noinline, gnu::flatten]] admitted schedule_within(const arming& wanted, task_source& callback,
                                                           std::uint64_t tag) {
    return add(wanted, callback, tag, context_.scale.whole_ticks(wanted.window));
  }
  [[gnu::always_inline]] admitted add(const arming& wanted, task_source& callback, std::uint64_t tag, tick window) {
    const moment when(wanted.now, wanted.deadline, context_.scale);
    std::unique_lock lock(timers_.mutex);
    const admitted result = timers_.core->add(when, callback, tag, wanted.recurring, window);
    if (result.answer() == verdict::accepted) {
      count_reference();
      TIMING_WHEEL_TRACE_SCHEDULE(this, result.id(), tag, wanted.deadline);
      timers_.wake_for_next(lock);
    }
    return result;
  }

  [[gnu::noinline, gnu::flatten]] refusal add_within(time_point now, pending_task& one, timer_id* id) noexcept {
    return add_locked(now, one, id, context_.scale.whole_ticks(one.window));
  }

  // Under the lock. With `id`, it counts a reference for its handle.
  refusal add_locked(time_point now, pending_task& one, timer_id* id, tick window) noexcept {
    if (!one.callback) {
      return refusal::empty_callback;
    }
    given source(std::move(one.callback));
    admitted result(verdict::stopped);
    try {
      result = timers_.core->add(moment(now, one.deadline, context_.scale), source, one.tag, false, window);
    } catch (const std::bad_alloc&) {
      return refusal::no_memory;
    }
    if (result.answer() != verdict::accepted) {
      return refusal_of(result.answer());
    }
    TIMING_WHEEL_TRACE_SCHEDULE(this, result.id(), one.tag, one.deadline);
    if (id != nullptr) {
      count_reference();
      *id = result.id();
    }
    return refusal::none;
  }

  // `on_earlier` may destroy the service, and the handle that called.
  [[gnu::noinline]] void tell_of_next(std::unique_lock<short_lock>& lock) noexcept {
    add_references(1);
    timers_.wake_for_next(lock);
    drop_references(1);
  }

  // Under the lock.
  [[nodiscard]] bool is_gone() const noexcept { return timers_.core == nullptr; }

  // Under the lock.
  cancel_result cancel_locked(timer_id id, task& doomed) noexcept {
    if (is_gone()) {
      return cancel_result::finished;
    }
    const cancel_result result = timers_.core->cancel(id, doomed);
    TIMING_WHEEL_TRACE_CANCEL(this, id, result);
    timers_.notify_if_drained();
    return result;
  }

  bool shrink_some() noexcept {
    const std::lock_guard lock(timers_.mutex);
    return !is_gone() && timers_.core->shrink_some();
  }

  bool remove_some(timer_number& cursor, std::vector<pending_task>& left) noexcept {
    const std::lock_guard lock(timers_.mutex);
    return !is_gone() && timers_.core->remove_pending(cursor, left);
  }

  const std::uint32_t index_;
  service_context& context_;  // that of timers_, which is made after it
  guarded_core<Engine> timers_;
  runner<Engine> runner_;
};

}  // namespace timing_wheel::detail
