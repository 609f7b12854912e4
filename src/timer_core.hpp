#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "admission.hpp"
#include "slab.hpp"
#include "timer_owner.hpp"
#include "timing_wheel/engine.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::detail {

/// A deadline and the present, as the caller's thread worked them out before it took the lock.
struct moment {
  time_point deadline;
  tick deadline_tick = 0;
  tick now = 0;
};

enum class verdict { accepted, stopped, too_many };

/// What a shard says to a new timer.
struct admitted {
  timer_key key;
  verdict answer = verdict::accepted;
};

/// How far a service is on its way to its end; it never goes back.
enum class phase : std::uint8_t {
  open,      // takes timers
  draining,  // refuses them, and arms no periodic timer again
  closed,    // and no callback begins
};

/// The rules of the service for one shard: which timer is in which state, and what changes it. It is told the time; it neither
/// sleeps, nor locks, nor runs anything.
///
/// A timer's way: free → armed (linked in the engine) or waiting (was due when it came) → due (in a batch) → running → free,
/// or armed again if it is periodic; from due back to armed if the executor refused it; and from each state before running
/// back to free by `cancel` and `take`. A batch holds keys, which fit nothing any more once the timer was cancelled.
///
/// Thread safety: none of its own; the mutex of the shard guards all of it.
/// Invariant: scheduled = fired + cancelled + returned + pending, where the pending ones are those armed, waiting or due.
template <timer_engine Engine>
class timer_core {
 public:
  timer_core(const engine_options& options, const tick_scale& scale, admission& door)
      : engine_(options), scale_(scale), door_(door) {}

  /// Takes `callback` only if it accepts. A recurring one is armed again after its run. Strong guarantee on `std::bad_alloc`.
  admitted add(const moment& when, task& callback, std::uint64_t tag, bool recurring) {
    if (phase_ != phase::open || !door_.enter()) {
      ++rejected_;
      return {{}, phase_ != phase::open ? verdict::stopped : verdict::too_many};
    }
    const slot s = arm_new(when);
    timer_node& node = nodes_[s];
    node.recurring = recurring;
    node.cancelled = false;
    node.callback = std::move(callback);
    node.deadline = when.deadline;
    node.tag = tag;
    ++scheduled_;
    ++pending_;
    return {nodes_.key_of(s), verdict::accepted};
  }

  /// The callable goes to `doomed`, for the caller to destroy outside the lock.
  cancel_result cancel(timer_key key, task& doomed) noexcept {
    timer_node* node = nodes_.find(key);
    if (node == nullptr) {
      return cancel_result::finished;
    }
    if (node->state == node_state::running) {
      node->cancelled = true;
      return cancel_result::running;
    }
    remove(key.where, doomed);
    ++cancelled_;
    return cancel_result::cancelled;
  }

  /// \returns whether it was pending. Strong guarantee on `std::bad_alloc`.
  bool reschedule(timer_key key, const moment& when) {
    timer_node* node = nodes_.find(key);
    if (node == nullptr || node->state == node_state::running) {
      return false;
    }
    engine_.catch_up(when.now);
    engine_.reserve(key.where, when.deadline_tick);
    engine_.erase(key.where);
    link(key.where, when);
    node->deadline = when.deadline;
    return true;
  }

  [[nodiscard]] timer_view look(timer_key key) noexcept {
    const timer_node* node = nodes_.find(key);
    if (node == nullptr) {
      return {};
    }
    return {node->state == node_state::running ? timer_status::running : timer_status::pending, node->deadline,
            node->tag};
  }

  /// Puts the keys of at most `max_timers_per_lock` timers that are due at `now` into `batch`, and does its share of cascading.
  /// \returns how many timers it looked at, and whether there is more to do at once.
  /// \throws std::bad_alloc if there is no memory to go on, and nothing is in the batch; nothing is lost.
  struct collected {
    std::size_t handled = 0;
    bool more = false;
  };
  collected collect(tick now, std::vector<timer_key>& batch) {
    // Whoever waits gets half of each batch, so that a service that cannot keep up starves nobody.
    const std::size_t budget = waiting_.empty() ? max_timers_per_lock : max_timers_per_lock / 2;
    const advance_result result = engine_.advance(now, budget);
    for (const slot s : result.due) {
      nodes_.prefetch(s);
    }
    for (const entry e : result.soon) {
      nodes_.prefetch(e.which);
    }
    for (const slot s : result.due) {
      to_batch(s, batch);
    }
    std::size_t handled = result.handled;
    for (; handled < max_timers_per_lock && !waiting_.empty(); ++handled) {
      try {
        add_or_run(waiting_.front(), now, batch);
      } catch (const std::bad_alloc&) {
        if (batch.empty()) {
          throw;
        }
        break;
      }
    }
    largest_hold_ = std::max(largest_hold_, std::uint64_t{handled});
    return {handled, result.more || !waiting_.empty()};
  }

  /// The tag of a timer that is due; none if it is not any more.
  [[nodiscard]] std::optional<std::uint64_t> due_tag(timer_key key) noexcept {
    const timer_node* node = nodes_.find(key);
    return node != nullptr && node->state == node_state::due ? std::optional(node->tag) : std::nullopt;
  }

  /// Begins the run of a timer that is due. \returns null if it is not due any more (cancelled, rescheduled, taken), or closed.
  ///
  /// `clock` is read again only if `now` is from before the deadline: the timer may have been rescheduled since.
  template <class Clock>
  timer_node* claim(timer_key key, time_point now, const Clock& clock) noexcept {
    timer_node* node = nodes_.find(key);
    if (phase_ == phase::closed || node == nullptr || node->state != node_state::due) {
      return nullptr;
    }
    if (now < node->deadline) {
      now = clock.now();
    }
    early_ += now < node->deadline ? 1U : 0U;
    --due_;
    begin(*node, now);
    return node;
  }

  /// Begins the run of a timer that is pending, whatever its deadline. \returns null if it is not pending, or closed.
  timer_node* claim_now(timer_key key, time_point now) noexcept {
    timer_node* node = nodes_.find(key);
    if (phase_ == phase::closed || node == nullptr || node->state == node_state::running) {
      return nullptr;
    }
    unlink(key.where);
    begin(*node, std::max(now, node->deadline));
    return node;
  }

  /// Arms a timer for its next run. \returns false, and changes nothing, if it is not to be: cancelled meanwhile, or draining.
  bool rearm(slot s, const moment& when) noexcept {
    timer_node& node = nodes_[s];
    if (phase_ != phase::open || node.cancelled) {
      return false;
    }
    node.deadline = when.deadline;
    link_or_wait(s, when);
    ++scheduled_;
    ++rearmed_;
    ++pending_;
    --running_;
    return true;
  }

  /// Ends the run that a claim began, and the timer. \pre the callable is destroyed.
  void finish(slot s) noexcept {
    if (nodes_[s].recurring) {
      door_.leave();
    }
    nodes_.release(s);
    --running_;
  }

  void count_failure() noexcept { ++failed_; }

  /// The executor does not want it: it is pending again, and comes back at `retry`. Nothing if it is not due any more.
  void give_back(timer_key key, tick retry, tick now) noexcept {
    timer_node* node = nodes_.find(key);
    if (node == nullptr || node->state != node_state::due) {
      return;
    }
    ++refused_;
    unlink(key.where);
    link_or_wait(key.where, {node->deadline, retry, now});
  }

  void enter(phase next) noexcept { phase_ = std::max(phase_, next); }

  /// Whether it has come to its end: nothing is pending, or will run.
  [[nodiscard]] bool is_drained() const noexcept {
    return phase_ == phase::closed || (phase_ == phase::draining && pending_ == 0);
  }

  /// Lists pending timers, looking at `max_timers_per_lock` places from `cursor` on. \pre `visit` allocates nothing.
  /// \returns whether there are places left.
  template <class Visit>
  bool list(slot& cursor, Visit visit) noexcept {
    std::uint64_t found = 0;
    const slot stop = static_cast<slot>(std::min<std::size_t>(cursor + max_timers_per_lock, nodes_.extent()));
    for (; cursor < stop; ++cursor) {
      if (is_pending(nodes_[cursor])) {
        visit(nodes_.key_of(cursor), nodes_[cursor]);
        ++found;
      }
    }
    largest_hold_ = std::max(largest_hold_, found);
    return cursor < nodes_.extent();
  }

  /// Takes pending timers out, looking at as many places as `list`. \pre closed, and `left` has room.
  bool take(slot& cursor, std::vector<pending_task>& left) noexcept {
    return list(cursor, [&](timer_key key, const timer_node& node) {
      pending_task& one = left.emplace_back(pending_task{node.deadline, node.tag, task()});
      remove(key.where, one.callback);
      ++returned_;
    });
  }

  /// When there is something to do next: 0 if at once, `never` if nothing is pending.
  [[nodiscard]] tick next_event() const noexcept {
    return waiting_.empty() ? engine_.next_expiration().value_or(never) : 0;
  }

  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }
  [[nodiscard]] std::size_t running() const noexcept { return running_; }

  /// The wheels are brought up to date before, so that their clocks show `now`.
  void add_to(timer_stats& sum, tick now) {
    engine_.catch_up(now);
    sum.scheduled += scheduled_;
    sum.fired += fired_;
    sum.cancelled += cancelled_;
    sum.returned += returned_;
    sum.pending += pending_;
    sum.rearmed += rearmed_;
    sum.due += due_;
    sum.running += running_;
    sum.rejected += rejected_;
    sum.refused += refused_;
    sum.early += early_;
    sum.failed += failed_;
    sum.largest_hold = std::max(sum.largest_hold, largest_hold_);
    sum.lateness.merge(lateness_);
    const engine_stats wheels = engine_.stats();
    sum.bytes += wheels.bytes + nodes_.bytes();
    sum.moves += wheels.moves();
    sum.looks += wheels.looks;
    merge_levels(wheels.levels, sum.levels);
  }

 private:
  static void merge_levels(const std::vector<level_stats>& from, std::vector<level_stats>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (i == to.size()) {
        to.push_back(from[i]);
        continue;
      }
      to[i].moves += from[i].moves;
      to[i].flushes += from[i].flushes;
      to[i].largest_flush = std::max(to[i].largest_flush, from[i].largest_flush);
      to[i].buckets_queued += from[i].buckets_queued;
    }
  }

  static bool is_pending(const timer_node& node) noexcept {
    return node.state != node_state::free && node.state != node_state::running;
  }

  slot arm_new(const moment& when) {
    engine_.catch_up(when.now);
    try {
      const slot s = nodes_.acquire();
      try {
        link(s, when);
        return s;
      } catch (...) {
        nodes_.release(s);
        throw;
      }
    } catch (...) {
      door_.leave();
      throw;
    }
  }

  // Add-or-run: into the engine, whose clock is up to date, or among the waiting. A timer that is in a batch, and still due,
  // stays there.
  void link(slot s, const moment& when) {
    node_state& state = nodes_[s].state;
    if (engine_.insert(s, when.deadline_tick)) {
      leave_due_or_waiting(s);
      state = node_state::armed;
    } else if (state != node_state::due && state != node_state::waiting) {
      waiting_.push_back(s);
      state = node_state::waiting;
    }
  }

  // For a timer that must not be lost, and is in no list: without memory for it, the engine gets it later.
  void link_or_wait(slot s, const moment& when) noexcept {
    nodes_[s].state = node_state::free;
    engine_.catch_up(when.now);
    try {
      link(s, when);
    } catch (const std::bad_alloc&) {
      waiting_.push_back(s);
      nodes_[s].state = node_state::waiting;
    }
  }

  // For the first that waits. On `std::bad_alloc` it is the last, so that others have their turn.
  void add_or_run(slot s, tick now, std::vector<timer_key>& batch) {
    const tick deadline = scale_.ceil(nodes_[s].deadline);
    waiting_.erase(s);
    waiting_.push_back(s);
    const bool inserted = deadline > now && engine_.insert(s, deadline);
    waiting_.erase(s);
    if (inserted) {
      nodes_[s].state = node_state::armed;
    } else {
      to_batch(s, batch);
    }
  }

  void to_batch(slot s, std::vector<timer_key>& batch) {
    nodes_[s].state = node_state::due;
    ++due_;
    batch.push_back(nodes_.key_of(s));
  }

  void leave_due_or_waiting(slot s) noexcept {
    if (nodes_[s].state == node_state::waiting) {
      waiting_.erase(s);
    } else if (nodes_[s].state == node_state::due) {
      --due_;
    }
  }

  // Out of whatever a pending timer is in.
  void unlink(slot s) noexcept {
    engine_.erase(s);
    leave_due_or_waiting(s);
  }

  void begin(timer_node& node, time_point now) noexcept {
    node.state = node_state::running;
    ++running_;
    ++fired_;
    --pending_;
    if (!node.recurring) {
      door_.leave();
    }
    lateness_.record(saturating_difference(now, node.deadline));
  }

  void remove(slot s, task& callback) noexcept {
    unlink(s);
    callback = std::move(nodes_[s].callback);
    nodes_.release(s);
    --pending_;
    door_.leave();
  }

  Engine engine_;
  const tick_scale scale_;
  admission& door_;
  slab nodes_;
  waiting_list waiting_{nodes_};
  phase phase_ = phase::open;

  std::uint64_t scheduled_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t pending_ = 0;
  std::uint64_t rearmed_ = 0;
  std::uint64_t due_ = 0;
  std::uint64_t running_ = 0;
  std::uint64_t rejected_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t early_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t largest_hold_ = 0;
  histogram lateness_;
};

}  // namespace timing_wheel::detail
