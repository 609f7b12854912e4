#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

/// Cancels a timer when a stop is requested.
struct cancel_on_stop {
  timer_handle timer;
  void operator()() const noexcept {
    const timer_handle mine = timer;  // cancelling destroys the callable, and with it this object
    mine.cancel();
  }
};

/// A callable whose timer a `std::stop_token` cancels, in one allocation together with what cancels it.
///
/// The timer owns it, and so does the thread that schedules it until the handle is known, since the timer may have
/// ended before. The callable goes when the timer ends.
class stop_block {
 public:
  struct leave {
    void operator()(stop_block* mine) const noexcept { mine->leave_it(); }
  };

  stop_block(const stop_block&) = delete;
  stop_block& operator=(const stop_block&) = delete;

  /// For a callable of a kind, which comes later. Null if there is no memory.
  [[nodiscard]] static stop_block* allocate(const callable_kind& kind) noexcept {
    void* const memory = allocate_box(callable_offset(kind) + kind.size, alignment(kind));
    return memory == nullptr ? nullptr : ::new (memory) stop_block(kind);
  }

  /// Cancels `timer` when a stop is requested, at once if that was before.
  void cancel_with(const std::stop_token& token, const timer_handle& timer) {
    on_stop_.emplace(token, cancel_on_stop{timer});
  }

  /// Constructs the callable; the timer owns the block from then on. Throws as `task_source::make_at`.
  void make_callable(task_source& source) {
    source.make_at(callable_);
    // Memory order: the timer becomes an owner while the scheduling thread is one, so that orders nothing.
    owners_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Of the callable. \pre `make_callable` has been called.
  void call(const timer_handle& timer) { kind_->call(self(), timer); }
  std::optional<time_point> next(time_point previous, time_point now) { return kind_->next(self(), previous, now); }

  /// The timer has ended.
  void end() noexcept {
    if (kind_->destroy_in_place != nullptr) {
      kind_->destroy_in_place(self());
    }
    leave_it();
  }

 private:
  explicit stop_block(const callable_kind& kind) noexcept
      : kind_(&kind), callable_(reinterpret_cast<std::byte*>(this) + callable_offset(kind)) {}
  ~stop_block() = default;

  [[nodiscard]] static std::size_t alignment(const callable_kind& kind) noexcept {
    return std::max(alignof(stop_block), kind.alignment);
  }
  [[nodiscard]] static std::size_t callable_offset(const callable_kind& kind) noexcept {
    return (sizeof(stop_block) + kind.alignment - 1) / kind.alignment * kind.alignment;
  }

  // What the functions of the kind expect.
  [[nodiscard]] std::byte* self() noexcept {
    return kind_->boxed ? reinterpret_cast<std::byte*>(&callable_) : static_cast<std::byte*>(callable_);
  }

  // Memory order: each that leaves releases what it did, and the last one acquires it.
  void leave_it() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::size_t aligned = alignment(*kind_);
      this->~stop_block();
      free_box(this, aligned);
    }
  }

  std::atomic<int> owners_{1};  // the thread that schedules; and the timer, once it has the callable
  const callable_kind* const kind_;
  void* callable_;
  std::optional<std::stop_callback<cancel_on_stop>> on_stop_;
};

/// What the timer has.
template <bool Recurs>
class stoppable {
 public:
  explicit stoppable(stop_block* owned) noexcept : block_(owned) {}
  stoppable(stoppable&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  stoppable& operator=(stoppable&&) = delete;
  ~stoppable() {
    if (block_ != nullptr) {
      block_->end();
    }
  }

  void operator()(const timer_handle& self) { block_->call(self); }
  [[nodiscard]] std::optional<time_point> next(time_point previous, time_point now) {
    return block_->next(previous, now);
  }

 private:
  stop_block* block_;
};

template <>
inline constexpr bool is_recurring<stoppable<true>> = true;

/// Makes a task of a callable in a block.
class stoppable_source final : public task_source {
 public:
  stoppable_source(task_source& callback, stop_block& block) noexcept
      : task_source(
            callback.kind().next != nullptr ? callable_kind_of<stoppable<true>> : callable_kind_of<stoppable<false>>,
            kept::inside, callback.kind().next != nullptr ? &make<true> : &make<false>),
        callback_(callback),
        block_(block) {}

 private:
  template <bool Recurs>
  static void make(task_source& self, void* place) {
    auto& me = static_cast<stoppable_source&>(self);
    me.block_.make_callable(me.callback_);
    ::new (place) stoppable<Recurs>(&me.block_);
  }

  task_source& callback_;
  stop_block& block_;
};

}  // namespace timing_wheel::detail
