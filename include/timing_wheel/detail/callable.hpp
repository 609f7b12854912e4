#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

template <class F>
concept callable_alone = std::invocable<F&>;
template <class F>
concept callable_with_handle = std::invocable<F&, const timer_handle&>;

/// Calls `callable`, with the handle of its timer if it takes one.
template <class F>
void call(F& callable, const timer_handle& self) {
  if constexpr (callable_with_handle<F>) {
    static_cast<void>(callable(self));
  } else {
    static_cast<void>(callable());
  }
}

// Pointers, and what behaves as one: made from nullptr, compared with it, and tested as a condition.
template <class F>
inline constexpr bool may_be_null = std::is_pointer_v<F> || (std::is_constructible_v<F, std::nullptr_t> &&
                                                             std::is_constructible_v<bool, const F&> &&
                                                             requires(const F& callable) { callable == nullptr; });

// A task: it may be empty, and is not compared with nullptr.
template <class F>
inline constexpr bool is_task = false;

/// Whether it is a null pointer, an empty `std::function` or an empty task.
template <class F>
[[nodiscard]] bool is_null(const F& callable) noexcept {
  if constexpr (is_task<F>) {
    return !callable;
  } else if constexpr (may_be_null<F>) {
    return callable == nullptr;
  } else {
    return false;
  }
}

/// A callable that is run again and again, at the deadlines that `rule(previous deadline, now)` gives, until that gives
/// none.
template <class F, class Rule>
struct recurring {
  F callable;
  Rule rule;

  void operator()(const timer_handle& self) { call(callable, self); }
  [[nodiscard]] std::optional<time_point> next(time_point previous, time_point now) { return rule(previous, now); }
};

template <class F>
inline constexpr bool is_recurring = false;
template <class F, class Rule>
inline constexpr bool is_recurring<recurring<F, Rule>> = true;

/// The rule of the user's own: `next(previous deadline)`.
template <class Next>
struct next_deadline {
  Next next;

  std::optional<time_point> operator()(time_point previous, time_point /*now*/) { return next(previous); }
};

/// Memory for one `F`, not constructed; null if there is none.
template <class F>
[[nodiscard]] void* allocate_box() noexcept {
  if constexpr (alignof(F) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    return ::operator new(sizeof(F), std::align_val_t(alignof(F)), std::nothrow);
  } else {
    return ::operator new(sizeof(F), std::nothrow);
  }
}
template <class F>
void free_box(void* box) noexcept {
  if constexpr (alignof(F) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    ::operator delete(box, std::align_val_t(alignof(F)));
  } else {
    ::operator delete(box);
  }
}

[[noreturn]] TIMING_WHEEL_EXPORT void throw_bad_alloc();

/// Cancels a timer when a stop is requested.
struct cancel_on_stop {
  timer_handle timer;
  void operator()() const noexcept {
    const timer_handle mine = timer;  // cancelling destroys the callable, and with it this object
    mine.cancel();
  }
};

}  // namespace timing_wheel::detail
