#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/timer_handle.hpp"

/// \file
/// How a callable of the caller's becomes the task of a timer: only when the service has accepted it. Until then it
/// stays where it is, so that a refusal leaves it with the caller.

namespace timing_wheel::detail {

/// Why nothing was scheduled.
enum class refusal : std::uint8_t {
  none,
  stopped,
  too_many_pending,
  empty_callback,
  invalid_period,
  forked,
  no_memory
};

/// What came of a `schedule` call.
struct started {
  timer_handle handle;
  refusal why = refusal::none;
};

/// A callable that waits for the service to accept it.
class task_source {
 public:
  task_source(const task_source&) = delete;
  task_source& operator=(const task_source&) = delete;

  /// Makes the task in `place`, which is empty. Throws what the move of the callable throws; then nothing has happened.
  void move_into(task& place) { move_(*this, place); }

 protected:
  using mover = void (*)(task_source& self, task& place);
  explicit task_source(mover move) noexcept : move_(move) {}
  ~task_source() = default;

 private:
  mover move_;
};

/// What the caller has given: itself, if it may be moved from, else a copy.
template <class T>
class held {
 public:
  explicit held(T&& given) noexcept : given_(given) {}
  [[nodiscard]] T& get() noexcept { return given_; }

 private:
  T& given_;
};
// clang-format off
template <class T>
  requires(std::is_lvalue_reference_v<T> || std::is_const_v<std::remove_reference_t<T>>)
class held<T> {
  // clang-format on
 public:
  // NOLINTNEXTLINE(modernize-pass-by-value): a callable may be of a kind that is copied and not moved
  explicit held(const std::remove_reference_t<T>& given) : copy_(given) {}
  [[nodiscard]] std::decay_t<T>& get() noexcept { return copy_; }

 private:
  std::decay_t<T> copy_;
};
template <class T>
held(T&&) -> held<T>;

/// Makes a task of a `Callable`, which `make(place)` constructs. A large one lies in a box, which is allocated here,
/// and not under a lock.
template <class Callable, class Make>
class source_of final : public task_source {
 public:
  explicit source_of(Make make) noexcept : task_source(&move), make_(make), box_(allocate()) {}
  source_of(const source_of&) = delete;
  source_of& operator=(const source_of&) = delete;
  ~source_of() {
    if constexpr (boxed<Callable>) {
      free_box<Callable>(box_);
    }
  }

  /// Whether it has all the memory that it needs.
  [[nodiscard]] bool is_ready() const noexcept { return !boxed<Callable> || box_ != nullptr; }

 private:
  template <class T>
  static constexpr bool boxed = !std::same_as<T, task> && !task::fits<T>;

  static void* allocate() noexcept {
    if constexpr (boxed<Callable>) {
      return allocate_box<Callable>();
    } else {
      return nullptr;
    }
  }
  static void move(task_source& self, task& place) {
    auto& me = static_cast<source_of&>(self);
    if constexpr (std::same_as<Callable, task>) {
      me.make_(&place);
    } else {
      place.construct<Callable>(me.make_, me.box_);
    }
  }

  Make make_;
  void* box_;
};

/// A callable whose timer a `std::stop_token` cancels, in one allocation together with what cancels it.
///
/// The timer owns it, and so does who schedules it until the handle is known, since the timer may have ended before.
/// The callable goes when the timer ends.
template <class F>
class stoppable {
 public:
  struct block {
    std::atomic<int> owners{1};  // who schedules; and the timer, once it has the callable
    union {
      F callable;  // there while the timer is
    };
    std::optional<std::stop_callback<cancel_on_stop>> on_stop;

    block() noexcept {}  // NOLINT(modernize-use-equals-default): the callable comes later
    ~block() {}          // NOLINT(modernize-use-equals-default): the callable has gone before
    block(const block&) = delete;
    block& operator=(const block&) = delete;

    // Memory order: the timer becomes an owner while who schedules is one, so that orders nothing. Each that leaves
    // releases what it did, and the last one acquires it.
    void join() noexcept { owners.fetch_add(1, std::memory_order_relaxed); }
    void leave() noexcept {
      if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete this;
      }
    }
  };

  explicit stoppable(block* owned) noexcept : block_(owned) {}
  stoppable(stoppable&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  stoppable& operator=(stoppable&&) = delete;
  ~stoppable() {
    if (block_ != nullptr) {
      block_->callable.~F();
      block_->leave();
    }
  }

  void operator()(const timer_handle& self) { call(block_->callable, self); }
  [[nodiscard]] std::optional<time_point> next(time_point previous, time_point now) requires is_recurring<F> {
    return block_->callable.next(previous, now);
  }

 private:
  block* block_;
};

template <class F>
inline constexpr bool is_recurring<stoppable<F>> = is_recurring<F>;

/// `start(source)` schedules; from then on `token` cancels the timer.
template <class Callable, class Make, class Start>
started start_stoppable(const std::stop_token& token, Make make, Start start) {
  using block = typename stoppable<Callable>::block;
  struct leave {
    void operator()(block* mine) const noexcept { mine->leave(); }
  };
  const std::unique_ptr<block, leave> mine(new (std::nothrow) block);
  if (mine == nullptr) {
    return {{}, refusal::no_memory};
  }
  const auto make_owner = [&make, &mine](void* place) {
    make(static_cast<void*>(&mine->callable));
    mine->join();
    ::new (place) stoppable<Callable>(mine.get());
  };
  source_of<stoppable<Callable>, decltype(make_owner)> source(make_owner);
  started result = start(source);
  if (result.handle) {
    mine->on_stop.emplace(token, cancel_on_stop{result.handle});
  }
  return result;
}

/// `start(source)` schedules what `make(place)` constructs, a `Callable`.
template <class Callable, class Make, class Start>
started start_made(const std::stop_token& token, Make make, Start start) {
  if (token.stop_possible()) {
    return start_stoppable<Callable>(token, make, start);
  }
  source_of<Callable, Make> source(make);
  return source.is_ready() ? start(source) : started{{}, refusal::no_memory};
}

}  // namespace timing_wheel::detail
