#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "error_sink.hpp"
#include "run_frame.hpp"
#include "short_lock.hpp"
#include "sleeper.hpp"
#include "timer_core.hpp"
#include "timer_owner.hpp"

namespace timing_wheel::detail {

/// When a timer that an executor refused is handed over again.
inline constexpr std::chrono::milliseconds hand_over_retry{1};

/// Whether `when` has come; the end of time never does.
[[nodiscard]] constexpr bool has_come(time_point when, time_point now) noexcept {
  return now >= when && when != time_point::max();
}

/// What the shards of one service share. It stays until the last handle is gone, so that a handle may wake the poller at any
/// time.
///
/// Immutable after construction, but for parts that are thread-safe by themselves.
template <class Clock>
struct service_context {
  service_context(const timer_options& options, const Clock& time)
      : clock(time),
        scale(clock.now(), options.tick),
        door(options.max_pending),
        errors(options.on_error),
        run_on(options.executor) {}

  Clock clock;
  const tick_scale scale;
  admission door;
  sleeper poller;
  error_sink errors;
  executor run_on;  // immutable until `retire`

  /// Lets go of what belongs to the user, who may have put handles or tasks into it. \pre nothing runs any more.
  void retire() noexcept {
    run_on = {};
    errors.retire();
  }
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
      : context_(std::move(context)), core_(std::make_unique<core>(options, context_->scale, context_->door)) {
    batch_.reserve(max_timers_per_lock);
  }

  // The two most frequent calls, `schedule` and `cancel`, are flattened: compilers would find them too large to inline what they
  // do, and calling it takes a third more instructions.

  /// From any thread. A timer that is accepted comes with a reference to this shard, for its handle.
  [[gnu::flatten]] admitted schedule(time_point now, time_point deadline, task& callback, std::uint64_t tag,
                                     bool recurring) {
    const moment when = moment_of(now, deadline);
    std::unique_lock lock(mutex_);
    const admitted result = core_->add(when, callback, tag, recurring);
    if (result.answer == verdict::accepted) {
      take_reference();
    }
    wake_for_next(lock);
    return result;
  }

  [[gnu::flatten]] cancel_result cancel(timer_key key) noexcept override {
    task doomed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    return cancel_locked(key, doomed);
  }

  cancel_result cancel_and_wait(timer_key key) noexcept override {
    task doomed;  // destroyed after the lock is released
    std::unique_lock lock(mutex_);
    const cancel_result result = cancel_locked(key, doomed);
    if (result == cancel_result::running && !run_frame::is_in(this, key)) {
      wait(lock, [&] { return core_ == nullptr || core_->look(key).status != timer_status::running; });
    }
    return result;
  }

  bool reschedule(timer_key key, time_point deadline) override {
    const moment when = moment_of(context_->clock.now(), deadline);
    std::unique_lock lock(mutex_);
    if (core_ == nullptr || !core_->reschedule(key, when)) {
      return false;
    }
    wake_for_next(lock);
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
    std::size_t ran = 0;      // callbacks run, or handed to the executor
    bool more = false;        // there is more to do at once
  };

  /// Runs what is due at `now`, and cascades, for at most `max_timers_per_lock` timers; begins nothing at `until` or later.
  /// By one thread at a time, the driver; also from a callback that it runs: then the rest of the batch that is being run
  /// comes first.
  /// \throws std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated.
  turn run_due(tick now, time_point until) {
    turn done;
    if (next_in_batch_ == batch_.size()) {
      const std::lock_guard lock(mutex_);
      next_in_batch_ = 0;
      batch_.clear();
      const typename core::collected found = core_->collect(now, batch_);
      done = {found.handled, 0, found.more};
    } else {
      done = {1, 0, true};
    }
    done.ran = context_->run_on ? hand_over_batch() : run_batch(until);
    return done;
  }

  /// Runs the callbacks of all pending timers, on this thread. \pre draining. \returns how many.
  std::size_t run_all() {
    std::size_t ran = 0;
    std::vector<timer_key> keys;
    keys.reserve(max_timers_per_lock);
    slot cursor = 0;
    for (bool more = true; more; keys.clear()) {
      {
        const std::lock_guard lock(mutex_);
        more = core_->list(cursor, [&](timer_key key, const timer_node& /*node*/) { keys.push_back(key); });
      }
      for (const timer_key key : keys) {
        ran += run_claimed(key, [&] { return core_->claim_now(key, context_->clock.now()); });
      }
    }
    return ran;
  }

  /// Puts pending timers from `cursor` on into `found`, which has room for `max_timers_per_lock`. \returns whether there are
  /// more.
  bool list(slot& cursor, std::vector<pending_timer>& found) noexcept {
    const std::lock_guard lock(mutex_);
    return core_->list(cursor, [&](timer_key key, const timer_node& node) {
      take_reference();
      found.push_back({timer_handle(this, key), node.deadline, node.tag});
    });
  }

  [[nodiscard]] tick next_event() const noexcept {
    const std::lock_guard lock(mutex_);
    return core_->next_event();
  }

  [[nodiscard]] std::size_t pending() const noexcept {
    const std::lock_guard lock(mutex_);
    return core_->pending();
  }

  void add_to(timer_stats& sum) const {
    const tick present = context_->scale.floor(context_->clock.now());
    const std::lock_guard lock(mutex_);
    core_->add_to(sum, present);
  }

  void enter(phase next) noexcept {
    const std::lock_guard lock(mutex_);
    core_->enter(next);
    notify_if_drained();
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

  /// Waits until no callback runs. \pre closed; not from a callback.
  void wait_for_runs() noexcept {
    std::unique_lock lock(mutex_);
    wait(lock, [this] { return core_->running() == 0; });
  }

  /// Waits until nothing is pending, and, unless this is called from a callback, running; at most until `deadline`. \pre
  /// draining.
  void wait_for_all(time_point deadline) noexcept {
    std::unique_lock lock(mutex_);
    const bool called = run_frame::is_called_by(context_.get());
    const auto is_idle = [&] { return core_->is_drained() && (called || core_->running() == 0); };
    if (deadline == time_point::max()) {
      return wait(lock, is_idle);
    }
    ++waiting_;
    changed_.wait_until(lock, deadline, is_idle);
    --waiting_;
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

  /// What an executor is given for a timer that is due. It holds a reference to the shard.
  class hand_over {
   public:
    hand_over(shard* owner, timer_key key) noexcept : shard_(owner), key_(key) {}
    hand_over(hand_over&& other) noexcept : shard_(std::exchange(other.shard_, nullptr)), key_(other.key_) {}
    hand_over& operator=(hand_over&&) = delete;
    ~hand_over() {
      if (shard_ != nullptr) {
        shard_->give_back(key_);
        shard_->drop_references(1);
      }
    }

    void operator()() {
      if (shard* const owner = std::exchange(shard_, nullptr); owner != nullptr) {
        owner->run_due_now(key_);
        owner->drop_references(1);
      }
    }

   private:
    shard* shard_;  // null: it was called, or moved from
    timer_key key_;
  };

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

  void wake_for_next(std::unique_lock<short_lock>& lock) noexcept {
    const tick next = core_->next_event();
    lock.unlock();
    context_->poller.wake_for(next);
  }

  // Under mutex_.
  cancel_result cancel_locked(timer_key key, task& doomed) noexcept {
    if (core_ == nullptr) {
      return cancel_result::finished;
    }
    const cancel_result result = core_->cancel(key, doomed);
    notify_if_drained();
    return result;
  }

  // Under mutex_. Whoever may have ended what is waited for calls one of these.
  void notify() noexcept {
    if (waiting_ != 0) {
      changed_.notify_all();
    }
  }
  void notify_if_drained() noexcept {
    if (core_->is_drained()) {
      notify_drained();
    }
  }
  [[gnu::noinline]] void notify_drained() noexcept {
    notify();
    context_->poller.wake();
  }

  template <class Done>
  void wait(std::unique_lock<short_lock>& lock, Done done) noexcept {
    ++waiting_;
    changed_.wait(lock, done);
    --waiting_;
  }

  // One lock per callback: it ends the run before and begins the next, so that a timer can be cancelled until its own begins.
  // What is left of the batch is in the members, so that a callback may drive the service on.
  std::size_t run_batch(time_point until) noexcept {
    std::size_t ran = 0;
    timer_node* running = nullptr;
    timer_key running_key;
    while (next_in_batch_ < batch_.size()) {
      const time_point now = context_->clock.now();
      if (has_come(until, now)) {
        break;
      }
      const timer_key key = batch_[next_in_batch_++];
      {
        const std::lock_guard lock(mutex_);
        finish(running, running_key);
        running = core_->claim(key, now, context_->clock);
        notify_if_drained();
      }
      if (running != nullptr) {
        running_key = key;
        ++ran;
        if (run(*running, key)) {
          running = nullptr;
        }
      }
    }
    const std::lock_guard lock(mutex_);
    finish(running, running_key);
    return ran;
  }

  // What is still due of the batch goes to the executor, each with a reference.
  std::size_t hand_over_batch() noexcept {
    const run_frame frame(context_.get(), doing::hand_over);
    std::size_t given = 0;
    while (next_in_batch_ < batch_.size()) {
      const timer_key key = batch_[next_in_batch_++];
      const std::optional<std::uint64_t> tag = reference_if_due(key);
      if (!tag) {
        continue;
      }
      try {
        context_->run_on(task(hand_over(this, key)));
        ++given;
      } catch (...) {
        context_->errors.report("the executor", *tag, context_->clock.now());
      }
    }
    return given;
  }

  // The tag of a timer that is due, and a reference to the shard.
  std::optional<std::uint64_t> reference_if_due(timer_key key) noexcept {
    const std::lock_guard lock(mutex_);
    const std::optional<std::uint64_t> tag = core_->due_tag(key);
    if (tag) {
      take_reference();
    }
    return tag;
  }

  // On a thread of the executor.
  void run_due_now(timer_key key) noexcept {
    const time_point now = context_->clock.now();
    run_claimed(key, [&] { return core_->claim(key, now, context_->clock); });
  }

  void give_back(timer_key key) noexcept {
    const time_point now = context_->clock.now();
    const tick present = context_->scale.floor(now);
    const tick retry = std::max(context_->scale.ceil(saturating_add(now, hand_over_retry)), present + 1);
    std::unique_lock lock(mutex_);
    if (core_ != nullptr) {
      core_->give_back(key, retry, present);
      wake_for_next(lock);
    }
  }

  template <class Claim>
  std::size_t run_claimed(timer_key key, Claim claim) noexcept {
    timer_node* node = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (core_ != nullptr) {
        node = claim();
        notify_if_drained();
      }
    }
    if (node == nullptr) {
      return 0;
    }
    if (!run(*node, key)) {
      const std::lock_guard lock(mutex_);
      finish(node, key);
    }
    return 1;
  }

  // Under mutex_. Ends a run, if there is one.
  void finish(const timer_node* node, timer_key key) noexcept {
    if (node != nullptr) {
      core_->finish(key.where);
      notify();
    }
  }

  // The node is ours while it is running: its callable is called, and destroyed, where it lies.
  // \returns whether the timer is armed again; if not, `finish` must follow.
  bool run(timer_node& node, timer_key key) noexcept {
    const run_frame frame(context_.get(), this, key);
    attempt("a callback", node, [&] { node.callback(borrowed_handle(this, key).get()); });
    if (node.recurring && rearm(node, key)) {
      return true;
    }
    node.callback.reset();
    return false;
  }

  bool rearm(timer_node& node, timer_key key) noexcept {
    const time_point now = context_->clock.now();
    std::optional<time_point> next;
    attempt("the rule for the next deadline", node, [&] { next = node.callback.next(node.deadline, now); });
    if (!next) {
      return false;
    }
    const moment when = moment_of(now, *next);
    std::unique_lock lock(mutex_);
    if (!core_->rearm(key.where, when)) {
      return false;
    }
    wake_for_next(lock);
    return true;
  }

  template <class Work>
  void attempt(const char* who, const timer_node& node, Work work) noexcept {
    try {
      work();
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        core_->count_failure();
      }
      context_->errors.report(who, node.tag, context_->clock.now());
    }
  }

  // Immutable.
  const context_pointer context_;
  // Driver only.
  std::vector<timer_key> batch_;
  std::size_t next_in_batch_ = 0;
  // Guarded by mutex_.
  alignas(64) mutable short_lock mutex_;
  std::unique_ptr<core> core_;
  std::uint64_t spare_references_ = 0;  // counted, and not yet given to a handle
  std::size_t waiting_ = 0;             // threads that wait for `changed_`
  std::condition_variable_any changed_;
};

}  // namespace timing_wheel::detail
