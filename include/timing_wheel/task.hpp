#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel {

class task;

namespace detail {
class task_source;
std::optional<time_point> deadline_after_run(task& of, time_point previous, time_point now);
}  // namespace detail

/// What can be scheduled: anything that can be moved, and called without arguments or with the handle of its timer
/// (`const timer_handle&`; with it, if both are possible). What it returns is ignored.
// clang-format off
template <class F>
concept timer_callback = (detail::callable_alone<std::decay_t<F>> || detail::callable_with_handle<std::decay_t<F>>) &&
                         std::constructible_from<std::decay_t<F>, F> && std::move_constructible<std::decay_t<F>>;
// clang-format on

/// A callable that can be moved and not copied, in 32 bytes.
///
/// Up to 24 bytes of captures lie inside, if they can be moved without throwing; larger ones are boxed, in one
/// allocation. A task made from a null pointer or an empty `std::function` is empty. A service moves tasks under a
/// lock, so the move constructor of a callable, and the destructor of one moved from, must not use it. Thread safety:
/// as a plain object.
///
/// Example: a lambda that captures a `std::unique_ptr` and two references has 24 bytes, and lies inside. With a third
/// reference it has 32, and is boxed. In a periodic timer the period lies there too, and leaves 8 bytes.
///
/// Users meet it in two places: an `executor` is given one for each timer that is due, and `stop` returns one for each
/// that was pending.
class task {
 public:
  /// Bytes of captures that need no allocation.
  static constexpr std::size_t inline_size = detail::inline_size;

  /// An empty task.
  task() noexcept = default;

  /// Holds `callable`, moved or copied here. Throws what that throws, and `std::bad_alloc` if it has to be boxed.
  // clang-format off
  template <class F>
    requires(!std::same_as<std::decay_t<F>, task>) && timer_callback<F>
  explicit task(F&& callable) {  // NOLINT(bugprone-forwarding-reference-overload): constrained above
    // clang-format on
    using callable_type = std::decay_t<F>;
    if (detail::is_null<std::remove_cvref_t<F>>(callable)) {
      return;
    }
    constexpr const detail::callable_kind& kind = detail::callable_kind_of<callable_type>;
    if constexpr (kind.boxed) {
      struct free {
        void operator()(void* unused) const noexcept { detail::free_box(unused, alignof(callable_type)); }
      };
      std::unique_ptr<void, free> box(detail::allocate_box(sizeof(callable_type), alignof(callable_type)));
      if (box == nullptr) {
        detail::throw_bad_alloc();
      }
      ::new (box.get()) callable_type(std::forward<F>(callable));
      keep(box.release());
    } else {
      ::new (static_cast<void*>(storage_.data())) callable_type(std::forward<F>(callable));
    }
    kind_ = &kind;
  }

  /// Takes the callable over; `other` is empty then. Moves the callable if it lies inside, else only its box. Never
  /// allocates.
  task(task&& other) noexcept { move_from(other); }
  /// Destroys the callable that it had, and takes over that of `other`, which is empty then.
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      reset();
      move_from(other);
    }
    return *this;
  }
  ~task() { reset(); }

  /// Whether there is a callable.
  [[nodiscard]] explicit operator bool() const noexcept { return kind_ != nullptr; }

  /// Calls it; a callable that takes a handle gets `self`. \pre not empty.
  void operator()(const timer_handle& self = {}) { kind_->call(storage_.data(), self); }

  /// Destroys the callable and what it captured.
  void reset() noexcept {
    if (const detail::callable_kind* old = std::exchange(kind_, nullptr); old != nullptr && old->destroy != nullptr) {
      old->destroy(storage_.data());
    }
  }

 private:
  friend class detail::task_source;
  friend std::optional<time_point> detail::deadline_after_run(task& of, time_point previous, time_point now);

  void keep(void* box) noexcept { ::new (static_cast<void*>(storage_.data())) void*(box); }

  void move_from(task& other) noexcept {
    kind_ = std::exchange(other.kind_, nullptr);
    if (kind_ != nullptr && kind_->relocate != nullptr) {
      kind_->relocate(other.storage_.data(), storage_.data());
    } else {
      storage_ = other.storage_;
    }
  }

  const detail::callable_kind* kind_ = nullptr;
  alignas(void*) std::array<std::byte, inline_size> storage_{};
};

static_assert(sizeof(task) == 32);

/// \cond
/// When it is to be called again, if `previous` was its last deadline; none if no more. Throws what the user's rule
/// throws.
/// \pre it recurs.
inline std::optional<time_point> detail::deadline_after_run(task& of, time_point previous, time_point now) {
  return of.kind_->next(of.storage_.data(), previous, now);
}

template <>
inline constexpr bool detail::is_task<task> = true;
/// \endcond

}  // namespace timing_wheel
