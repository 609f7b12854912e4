#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/offers.hpp"
#include "core/slab.hpp"
#include "core/waiting_list.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/pending.hpp"
#include "timing_wheel/timer_stats.hpp"

namespace timing_wheel::detail {

/// A deadline and the present. The caller's thread works out the ticks before it takes the lock.
struct moment {
  constexpr moment(time_point present, time_point when, const tick_scale& scale) noexcept
      : deadline(when), deadline_tick(scale.ceil(when)), now(scale.floor(present)) {}
  constexpr moment(time_point when, tick tick_of_it, tick present) noexcept
      : deadline(when), deadline_tick(tick_of_it), now(present) {}

  time_point deadline;
  tick deadline_tick;
  tick now;
};

/// What a handle shows of its timer.
struct timer_view {
  timer_status status = timer_status::finished;
  time_point deadline;
  std::uint64_t tag = 0;
};

enum class verdict { accepted, stopped, too_many };

/// What a shard says to a new timer. The halves of the id are joined, so that they are returned in one register: a
/// processor waits if it loads in one piece what it has just stored in two.
class admitted {
 public:
  explicit admitted(verdict answer) noexcept : answer_(answer) {}
  explicit admitted(timer_id id) noexcept : id_((std::uint64_t{id.generation} << 32) | id.number) {}

  [[nodiscard]] timer_id id() const noexcept {
    return {static_cast<std::uint32_t>(id_), static_cast<std::uint32_t>(id_ >> 32)};
  }
  [[nodiscard]] verdict answer() const noexcept { return answer_; }

 private:
  std::uint64_t id_ = 0;
  verdict answer_ = verdict::accepted;
};

/// How many timers `schedule_many` and `cancel_many` take under one lock: enough for memory to come side by side.
inline constexpr std::size_t timers_per_group = 32;

/// What a core has counted.
struct core_stats {
  core_stats() { wheels.levels.reserve(64); }  // as many as there can be

  timer_counts counts;
  histogram lateness;
  engine_stats wheels;
  std::size_t slab_bytes = 0;
};

/// How far a service is on its way to its end; it never goes back.
enum class phase : std::uint8_t {
  open,      // takes timers
  draining,  // refuses them, and arms no periodic timer again
  closed,    // and no callback begins
};

/// The rules of the service for one shard: which timer is in which state, and what changes it. It is told the time,
/// always; it neither reads a clock, nor sleeps, nor locks, nor runs anything.
///
/// A timer's way: free → armed (linked in the engine) or waiting (was due when it came) → due (in a batch) → offered
/// (among the offers, without an executor, unless it is alone in its batch) → running → free, or armed again if it
/// is periodic; from due back to armed if the executor refused it, or to waiting if there is no memory for that; from
/// offered to waiting when it is withdrawn; and from each state before running back to free by `cancel` and
/// `remove_pending`. A batch holds ids, which fit nothing any more once the timer was cancelled.
///
/// `settle` counts what the driver has begun and ended of its offers. Each member that such a run may concern, and each
/// that reads the counts, settles first; so nobody sees the difference.
///
/// Thread safety: none of its own; the mutex of the shard guards all of it, except the driver's part of the
/// offers and `leave_by_itself`. Invariant: scheduled = fired + cancelled + returned + pending, where the pending ones
/// are those armed, waiting, due or offered.
template <timer_engine Engine>
class timer_core {
 public:
  timer_core(const engine_options& options, const tick_scale& scale, admission& door)
      : engine_(options), scale_(scale), door_(door), nodes_(options.huge_pages) {}

  /// Moves the callable into the timer only if it accepts. A recurring one is armed again after its run. The timer may
  /// fire up to `window` ticks after its own. Strong guarantee on `std::bad_alloc`, and on what the move throws.
  admitted add(const moment& when, task_source& callback, std::uint64_t tag, bool recurring, tick window = 0) {
    if (phase_ != phase::open || !door_.enter()) {
      ++counts_.rejected;
      return admitted(phase_ != phase::open ? verdict::stopped : verdict::too_many);
    }
    const timer_number n = acquire();
    timer_node& node = nodes_[n];
    arm_new(n, node, when, window, callback);
    node.recurring = recurring;
    node.cancelled = false;
    node.window = short_window(window);
    node.deadline = when.deadline;
    node.tag = tag;
    ++counts_.scheduled;
    ++counts_.pending;
    return admitted({n, node.generation});
  }

  /// Whether there was ever a timer of that number. The ids that other members are given have such numbers.
  [[nodiscard]] bool has_place(timer_number n) const noexcept { return n < nodes_.extent(); }

  /// A hint that these are about to be cancelled.
  void prefetch(std::span<const timer_id> ids) const noexcept {
    std::array<timer_number, timers_per_group> numbers{};
    const std::size_t count = std::min(ids.size(), numbers.size());
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = ids[i].number;
      nodes_.prefetch(ids[i].number);
    }
    engine_.prefetch(std::span(numbers.data(), count));
  }

  /// The callable goes to `doomed`, for the caller to destroy outside the lock. \pre `doomed` is empty.
  cancel_result cancel(timer_id id, task& doomed) noexcept {
    timer_node& node = nodes_[id.number];
    if (node.generation != id.generation || node.state != node_state::armed) [[unlikely]] {
      return cancel_unarmed(id, doomed);
    }
    engine_.erase(id.number);
    return end_cancelled(id.number, node, doomed);
  }

  /// \returns whether it was pending. Strong guarantee on `std::bad_alloc`.
  bool reschedule(timer_id id, const moment& when) {
    timer_node* node = find(id);
    if (node == nullptr || node->state == node_state::running) {
      return false;
    }
    const tick window = node->window.length();
    engine_.catch_up(when.now);
    engine_.reserve(id.number, due_tick(when, window));
    engine_.erase(id.number);
    link(id.number, *node, when, window);
    node->deadline = when.deadline;
    return true;
  }

  [[nodiscard]] timer_view look(timer_id id) noexcept {
    const timer_node* node = nodes_.find(id);
    if (node != nullptr && node->state >= node_state::offered) {
      settle();
      node = nodes_.find(id);
    }
    if (node == nullptr) {
      return {};
    }
    return {node->state == node_state::running ? timer_status::running : timer_status::pending, node->deadline,
            node->tag};
  }

  /// Puts the ids of at most `max_timers_per_lock` timers that are due at `now` into `batch`, and does its share of
  /// cascading.
  /// \returns how many timers it looked at, and whether there is more to do at once.
  /// \throws std::bad_alloc if there is no memory to go on, and nothing is in the batch; nothing is lost.
  struct collected {
    std::size_t handled = 0;
    bool more = false;
  };
  collected collect(tick now, timer_batch& batch) {
    // Whoever waits gets half of each batch, so that a service that cannot keep up starves nobody.
    const std::size_t budget = waiting_.empty() ? max_timers_per_lock : max_timers_per_lock / 2;
    const advance_result result = engine_.advance(now, budget);
    for (const timer_number n : result.due) {
      nodes_.prefetch(n);
    }
    for (const entry e : result.soon) {
      nodes_.prefetch(e.which);
    }
    for (const timer_number n : result.due) {
      to_batch(n, batch);
    }
    counts_.due += result.due.size();
    std::size_t handled = result.handled;
    for (; handled < max_timers_per_lock && !waiting_.empty(); ++handled) {
      try {
        collect_waiting(waiting_.front(), now, batch);
      } catch (const std::bad_alloc&) {
        if (batch.empty()) {
          throw;
        }
        break;
      }
    }
    counts_.largest_hold = std::max(counts_.largest_hold, std::uint64_t{handled});
    return {handled, result.more || !waiting_.empty()};
  }

  /// The tag of a timer that is due; none if it is not any more.
  [[nodiscard]] std::optional<std::uint64_t> due_tag(timer_id id) noexcept {
    const timer_node* node = nodes_.find(id);
    return node != nullptr && node->state == node_state::due ? std::optional(node->tag) : std::nullopt;
  }

  /// Begins the run of a timer that is due. \returns null if it is not due any more (cancelled, rescheduled, taken), or
  /// closed; or if `now` is from before its deadline: it may have been rescheduled since, so `claim_again` with the
  /// time of then.
  timer_node* claim(timer_id id, time_point now) noexcept {
    timer_node* const node = find_due(id);
    if (node == nullptr || now < node->deadline) {
      return nullptr;
    }
    begin_due(*node, now);
    return node;
  }

  /// The same, with a time that was read under the lock of this call. If that is before the deadline too, the clock has
  /// stepped back: the run begins, and counts as early.
  timer_node* claim_again(timer_id id, time_point now) noexcept {
    timer_node* const node = find_due(id);
    if (node == nullptr) {
      return nullptr;
    }
    begin_due(*node, now);
    return node;
  }

  /// Offers the first timers of a batch to the driver. Those that are not due any more are left out.
  /// What is due here has a deadline that a reading of the clock from before has shown to have come. \pre each place of
  /// the offers is begun or withdrawn; `count` is not 0.
  /// \returns how many it has looked at; each has a place.
  unsigned offer(const timer_id* batch, std::size_t count) noexcept {
    settle();
    const auto places = static_cast<unsigned>(std::min<std::size_t>(count, offers::size));
    offers_.clear(places);
    const bool open = phase_ != phase::closed;
    for (unsigned place = 0; place < places; ++place) {
      timer_node& node = nodes_[batch[place].number];
      if (!open || !is_due(node, batch[place])) {
        offers_.put_none(place);
        continue;
      }
      node.state = node_state::offered;
      node.next = place;
      offers_.put(place, batch[place], node);
    }
    return places;
  }

  /// Counts what the driver has done with its offers since the last call, and frees the timers whose runs are over.
  /// Complexity: O(1) if it has done nothing.
  void settle() noexcept {
    const offers::steps news = offers_.news();
    if ((news.begun | news.ended) != 0) {
      count(news);
    }
  }

  [[nodiscard]] offers& offered() noexcept { return offers_; }

  /// The tick in which the earliest of these, the rest of a batch, was due; `never` if each was cancelled or moved. A
  /// batch is in no order. Complexity: O(the rest).
  [[nodiscard]] tick due_since(const timer_id* first, const timer_id* last) noexcept {
    time_point earliest = time_point::max();
    std::for_each(first, last, [&](timer_id id) {
      const timer_node& node = nodes_[id.number];
      if (is_due(node, id) || (node.generation == id.generation && node.state == node_state::offered)) {
        earliest = std::min(earliest, node.deadline);
      }
    });
    return earliest == time_point::max() ? never : scale_.ceil(earliest);
  }

  /// What the run of an offer does at once, without the lock: a timer that is not periodic counts
  /// against the limit no more.
  void leave_by_itself(const timer_node& node) noexcept {
    if (!node.recurring) {
      door_.leave();
    }
  }

  /// Begins the run of a timer that is pending, whatever its deadline. \returns null if it is not pending, or closed.
  timer_node* claim_now(timer_id id, time_point now) noexcept {
    timer_node* node = find(id);
    if (phase_ == phase::closed || node == nullptr || node->state == node_state::running) {
      return nullptr;
    }
    unlink(id.number, *node);
    begin(*node, std::max(now, node->deadline));
    return node;
  }

  /// Arms a timer for its next run. \returns false, and changes nothing, if it is not to be: cancelled meanwhile, or
  /// draining.
  bool rearm(timer_number n, const moment& when) noexcept {
    settle();
    timer_node& node = nodes_[n];
    if (phase_ != phase::open || node.cancelled) {
      return false;
    }
    node.deadline = when.deadline;
    link_or_wait(n, node, when, node.window.length());
    ++counts_.scheduled;
    ++counts_.rearmed;
    ++counts_.pending;
    --counts_.running;
    return true;
  }

  /// Ends the run that a claim began, and the timer. \pre the callable is destroyed, and `node` is that of `n`.
  void finish(timer_number n, timer_node& node) noexcept {
    free(n, node);
    --counts_.running;
  }

  void count_failure() noexcept { ++counts_.failed; }

  /// The executor does not want it: it is pending again, and comes back at `retry`. Nothing if it is not due any more.
  void give_back(timer_id id, tick retry, tick now) noexcept {
    timer_node* node = nodes_.find(id);
    if (node == nullptr || node->state != node_state::due) {
      return;
    }
    ++counts_.refused;
    unlink(id.number, *node);
    link_or_wait(id.number, *node, {node->deadline, retry, now}, 0);
  }

  /// Closed, it also withdraws what is offered.
  void enter(phase next) noexcept {
    phase_ = std::max(phase_, next);
    if (phase_ == phase::closed) {
      offers_.withdraw_all([this](timer_id id, timer_node& node) { wait_instead(id.number, node); });
    }
  }

  /// Whether it has come to its end: nothing is pending, or will run.
  [[nodiscard]] bool is_drained() noexcept {
    return phase_ != phase::open && (phase_ == phase::closed || pending() == 0);
  }

  /// Lists pending timers, looking at `max_timers_per_lock` places from `cursor` on. \pre `visit` allocates nothing.
  /// \returns whether there are places left.
  template <class Visit>
  bool list(timer_number& cursor, Visit visit) noexcept {
    settle();
    std::uint64_t found = 0;
    const timer_number stop =
        static_cast<timer_number>(std::min<std::size_t>(cursor + max_timers_per_lock, nodes_.extent()));
    for (; cursor < stop; ++cursor) {
      if (is_pending(nodes_[cursor])) {
        visit(nodes_.id_of(cursor), nodes_[cursor]);
        ++found;
      }
    }
    counts_.largest_hold = std::max(counts_.largest_hold, found);
    return cursor < nodes_.extent();
  }

  /// Takes pending timers out, looking at as many places as `list`. \pre closed, and `left` has room.
  bool remove_pending(timer_number& cursor, std::vector<pending_task>& left) noexcept {
    return list(cursor, [&](timer_id id, timer_node& node) {
      pending_task& one =
          left.emplace_back(pending_task{node.deadline, node.tag, task(), scale_.length_of(node.window.length())});
      unlink(id.number, node);
      end(id.number, node, one.callback);
      ++counts_.returned;
    });
  }

  /// When there is something to do next: 0 if at once, `never` if nothing is pending.
  [[nodiscard]] tick next_event() const noexcept {
    return waiting_.empty() ? engine_.next_expiration().value_or(never) : 0;
  }

  [[nodiscard]] std::size_t pending() noexcept {
    settle();
    return counts_.pending;
  }
  [[nodiscard]] std::size_t running() noexcept {
    settle();
    return counts_.running;
  }

  /// A step of giving back memory that no pending timer needs. \returns whether there may be more to do.
  bool shrink_some() noexcept {
    settle();
    if (!nodes_are_shrunk_) {
      nodes_are_shrunk_ = !nodes_.shrink_some();
      return true;
    }
    nodes_are_shrunk_ = engine_.shrink_some();
    return nodes_are_shrunk_;
  }

  /// Copies all counts, and allocates nothing if there is room for the levels. The wheels are brought up to date
  /// before, so that their clocks show `now`.
  void read(core_stats& into, tick now) {
    settle();
    engine_.catch_up(now);
    into.counts = counts_;
    into.lateness = lateness_;
    into.slab_bytes = nodes_.bytes();
    engine_.read(into.wheels);
  }

 private:
  static bool is_pending(const timer_node& node) noexcept {
    return node.state != node_state::free && node.state != node_state::running;
  }

  // As the slab finds it; withdrawn, and waiting, if it was offered and its run has not begun.
  [[nodiscard]] timer_node* find(timer_id id) noexcept {
    timer_node* const node = nodes_.find(id);
    return node == nullptr || node->state < node_state::offered ? node : withdraw(id, *node);
  }
  [[gnu::noinline]] timer_node* withdraw(timer_id id, timer_node& node) noexcept {
    if (node.state == node_state::offered && offers_.withdraw(node.next)) {
      wait_instead(id.number, node);
      return &node;
    }
    settle();
    return nodes_.find(id);
  }

  // `cancel` of all but an armed one. Out of line, so that the cancel of an armed one looks at its state once.
  [[gnu::noinline]] cancel_result cancel_unarmed(timer_id id, task& doomed) noexcept {
    timer_node* node = find(id);
    if (node == nullptr) {
      return cancel_result::finished;
    }
    if (node->state == node_state::running) {
      node->cancelled = true;
      return cancel_result::running;
    }
    leave_due_or_waiting(id.number, *node);
    return end_cancelled(id.number, *node, doomed);
  }

  // For one that was offered.
  void wait_instead(timer_number n, timer_node& node) noexcept {
    --counts_.due;
    node.state = node_state::waiting;
    waiting_.push_back(n);
  }

  // A place for a timer that the door has let in.
  timer_number acquire() {
    try {
      return nodes_.acquire();
    } catch (...) {
      door_.leave();
      throw;
    }
  }

  // If it cannot be, the place is free again.
  void arm_new(timer_number n, timer_node& node, const moment& when, tick window, task_source& callback) {
    engine_.catch_up(when.now);
    try {
      if (insert(n, when, window)) {
        node.state = node_state::armed;
      } else {
        wait(n, node);
      }
      move_in(n, node, callback);
    } catch (...) {
      nodes_.release(n, node);
      door_.leave();
      throw;
    }
  }

  void move_in(timer_number n, timer_node& node, task_source& callback) {
    try {
      callback.move_into(node.callback);
    } catch (...) {
      unlink(n, node);
      throw;
    }
  }

  // A timer that is due at the next tick is not put off: a stop of a sleep is such a reschedule.
  static bool is_exact(const moment& when, tick window) noexcept {
    return window == 0 || when.deadline_tick <= when.now + 1;
  }
  [[nodiscard]] tick due_tick(const moment& when, tick window) const noexcept {
    return is_exact(when, window) ? when.deadline_tick : engine_.coalesce(when.deadline_tick, window);
  }

  bool insert(timer_number n, const moment& when, tick window) {
    return is_exact(when, window) ? engine_.insert(n, when.deadline_tick)
                                  : engine_.insert(n, when.deadline_tick, window);
  }
  // Out of line, so that a timer which is armed does not keep in memory what only this needs.
  [[gnu::noinline]] void wait(timer_number n, timer_node& node) noexcept {
    waiting_.push_back(n);
    node.state = node_state::waiting;
  }

  // Add-or-run: into the engine, whose clock is up to date, or among the waiting. A timer that is in a batch, and still
  // due, stays there.
  void link(timer_number n, timer_node& node, const moment& when, tick window) {
    if (insert(n, when, window)) {
      if (node.state != node_state::armed) {
        leave_due_or_waiting(n, node);
        node.state = node_state::armed;
      }
    } else if (node.state != node_state::due && node.state != node_state::waiting) {
      wait(n, node);
    }
  }

  // For a timer that must not be lost, and is in no list: without memory for it, the engine gets it later.
  void link_or_wait(timer_number n, timer_node& node, const moment& when, tick window) noexcept {
    node.state = node_state::free;
    engine_.catch_up(when.now);
    try {
      link(n, node, when, window);
    } catch (const std::bad_alloc&) {
      wait(n, node);
    }
  }

  // For the first that waits. On `std::bad_alloc` it is the last, so that others have their turn.
  void collect_waiting(timer_number n, tick now, timer_batch& batch) {
    const tick deadline = scale_.ceil(nodes_[n].deadline);
    waiting_.erase(n);
    waiting_.push_back(n);
    const bool inserted = deadline > now && engine_.insert(n, deadline);
    waiting_.erase(n);
    if (inserted) {
      nodes_[n].state = node_state::armed;
    } else {
      to_batch(n, batch);
      ++counts_.due;
    }
  }

  // Who calls it counts it as due.
  void to_batch(timer_number n, timer_batch& batch) noexcept {
    timer_node& node = nodes_[n];
    node.state = node_state::due;
    batch.push_back({n, node.generation});
  }

  // Out of line, as `wait` is. Nothing, unless it is due or waits.
  [[gnu::noinline]] void leave_due_or_waiting(timer_number n, const timer_node& node) noexcept {
    if (node.state == node_state::waiting) {
      waiting_.erase(n);
    } else if (node.state == node_state::due) {
      --counts_.due;
    }
  }

  // Out of whatever a pending timer is in. The engine has those that are armed, and no others.
  void unlink(timer_number n, const timer_node& node) noexcept {
    if (node.state == node_state::armed) {
      engine_.erase(n);
    } else {
      leave_due_or_waiting(n, node);
    }
  }

  // Whether the timer of `id` is due. \pre `node` is that of its place.
  static bool is_due(const timer_node& node, timer_id id) noexcept {
    return node.generation == id.generation && node.state == node_state::due;
  }
  // Null if it is not due, or closed.
  [[nodiscard]] timer_node* find_due(timer_id id) noexcept {
    timer_node& node = nodes_[id.number];
    return phase_ != phase::closed && is_due(node, id) ? &node : nullptr;
  }

  void begin_due(timer_node& node, time_point now) noexcept {
    --counts_.due;
    begin(node, now);
  }

  void begin(timer_node& node, time_point now) noexcept {
    node.state = node_state::running;
    count_begun(1);
    leave_by_itself(node);
    record(node, now);
  }

  // Nearly all that has begun has ended too, but for the one that runs.
  void count(offers::steps news) noexcept {
    const auto begun = static_cast<std::size_t>(std::popcount(news.begun));
    counts_.due -= begun;
    count_begun(begun);
    counts_.running -= news.ended == news.begun ? begun : static_cast<std::size_t>(std::popcount(news.ended));
    offers::for_each(news.begun & news.ended, [this](unsigned place) {
      timer_node& node = offers_.node_of(place);
      record(node, offers_.begun_at(place));
      free(offers_.id_of(place).number, node);
    });
    offers::for_each(news.begun & ~news.ended, [this](unsigned place) {
      timer_node& node = offers_.node_of(place);
      record(node, offers_.begun_at(place));
      node.state = node_state::running;
    });
    offers::for_each(news.ended & ~news.begun,
                     [this](unsigned place) { free(offers_.id_of(place).number, offers_.node_of(place)); });
  }

  void count_begun(std::size_t runs) noexcept {
    counts_.running += runs;
    counts_.fired += runs;
    counts_.pending -= runs;
  }

  void record(const timer_node& node, time_point begun_at) noexcept {
    if (begun_at < node.deadline) [[unlikely]] {
      ++counts_.early;
      lateness_.record(std::chrono::nanoseconds(0));
      return;
    }
    constexpr auto most = static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count());
    const std::uint64_t late = std::min(distance(node.deadline, begun_at), most);
    lateness_.record(std::chrono::nanoseconds(static_cast<std::int64_t>(late)));
  }

  void free(timer_number n, timer_node& node) noexcept {
    if (node.recurring) {
      door_.leave();
    }
    nodes_.release(n, node);
  }

  cancel_result end_cancelled(timer_number n, timer_node& node, task& doomed) noexcept {
    end(n, node, doomed);
    ++counts_.cancelled;
    return cancel_result::cancelled;
  }

  // Ends a pending timer that is unlinked. The callable goes to `place`, an empty task: constructed there anew, because
  // an assignment would look what it had.
  void end(timer_number n, timer_node& node, task& place) noexcept {
    std::construct_at(&place, std::move(node.callback));
    nodes_.release(n, node);
    --counts_.pending;
    door_.leave();
  }

  Engine engine_;
  const tick_scale scale_;
  admission& door_;
  slab nodes_;
  waiting_list waiting_{nodes_};
  offers offers_;
  phase phase_ = phase::open;
  bool nodes_are_shrunk_ = false;  // so it is the engine's turn

  timer_counts counts_;
  histogram lateness_;
};

}  // namespace timing_wheel::detail
