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

/// What can be scheduled: a callable that can be moved, and that takes no argument or the handle of its timer.
///
///     timer.schedule_after(1s, [] { ring(); });
///     timer.schedule_every(1s, [](const timer_handle& self) { self.cancel(); });
///
/// If both ways are possible, the service passes the handle. It ignores the result.
// clang-format off
template <class F>
concept timer_callback = (detail::callable_alone<std::decay_t<F>> || detail::callable_with_handle<std::decay_t<F>>) &&
                         std::constructible_from<std::decay_t<F>, F> && std::move_constructible<std::decay_t<F>>;
// clang-format on

/// A callable that can be moved and not copied, in 32 bytes. The service gives an `executor` a task for each timer that
/// is due, and `timer::stop` returns a task for each timer that was pending.
///
/// | A lambda captures | Bytes | It lies |
/// |---|---|---|
/// | a `std::unique_ptr` and two references | 24 | in the task |
/// | a `std::unique_ptr` and three references | 32 | in a box: one allocation |
/// | an object whose move may throw | any | in a box |
/// | a pointer, in a periodic timer (16 bytes hold the period) | 8 | in the task |
///
/// A task made from a null pointer or an empty `std::function` is empty. A service moves tasks under a lock. So the
/// move constructor of a callable must not use the service, and neither must the destructor of a callable that was
/// moved from. Thread safety: as a plain object.
class task {
 public:
  /// Bytes of captures that need no allocation.
  static constexpr std::size_t inline_size = detail::inline_size;

  /// An empty task.
  task() noexcept = default;

  /// Moves or copies `callable` into the task. \throws what that throws; std::bad_alloc if it needs a box.
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

  /// Takes over the callable of `other`, which is empty then. Never allocates; if the callable lies in a box, only the
  /// pointer moves.
  task(task&& other) noexcept { move_from(other); }
  /// Destroys the callable of this task, and takes over the callable of `other`, which is empty then.
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      reset();
      move_from(other);
    }
    return *this;
  }
  ~task() { reset(); }

  /// Whether the task holds a callable.
  [[nodiscard]] explicit operator bool() const noexcept { return kind_ != nullptr; }

  /// Calls the callable. If it takes a handle, it gets `self`. \pre not empty.
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
