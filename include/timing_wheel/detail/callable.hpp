#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

template <class F>
concept callable_alone = requires(F& f) {
  f();
};
template <class F>
concept callable_with_handle = requires(F& f, const timer_handle& self) {
  f(self);
};

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

/// Memory for a callable, not constructed; null if there is none.
[[nodiscard]] inline void* allocate_box(std::size_t size, std::size_t alignment) noexcept {
  return alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? ::operator new(size, std::align_val_t(alignment), std::nothrow)
                                                      : ::operator new(size, std::nothrow);
}
inline void free_box(void* box, std::size_t alignment) noexcept {
  if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    ::operator delete(box, std::align_val_t(alignment));
  } else {
    ::operator delete(box);
  }
}

/// Bytes of captures that lie in a task.
inline constexpr std::size_t inline_size = 24;

/// What is known of a callable whose type is not. `self` is where it is kept: its own place, or if it is boxed, that of
/// the pointer to its box, a `void*`.
struct callable_kind {
  void (*call)(std::byte* self, const timer_handle& timer);
  std::optional<time_point> (*next)(std::byte* self, time_point previous, time_point now);  // null: it does not recur
  void (*relocate)(std::byte* from, std::byte* to) noexcept;                                // null: copy the bytes
  void (*destroy)(std::byte* self) noexcept;           // null: nothing to do. It, and its box
  void (*destroy_in_place)(std::byte* self) noexcept;  // null: nothing to do. It alone
  std::size_t size;
  std::size_t alignment;
  bool boxed;
};

/// The functions of `callable_kind_of`.
template <class F>
struct functions_of {
  static constexpr bool boxed = sizeof(F) > inline_size || alignof(F) > alignof(void*) ||
                                !std::is_nothrow_move_constructible_v<F>;

  static F& get(std::byte* self) noexcept {
    if constexpr (boxed) {
      return *static_cast<F*>(*std::launder(reinterpret_cast<void**>(self)));
    } else {
      return *std::launder(reinterpret_cast<F*>(self));
    }
  }
  static void call_it(std::byte* self, const timer_handle& timer) { call(get(self), timer); }
  static std::optional<time_point> next(std::byte* self, time_point previous, time_point now) {
    return get(self).next(previous, now);
  }
  static void relocate(std::byte* from, std::byte* to) noexcept {
    ::new (static_cast<void*>(to)) F(std::move(get(from)));
    get(from).~F();
  }
  static void destroy_in_place(std::byte* self) noexcept { get(self).~F(); }
  static void destroy_with_box(std::byte* self) noexcept {
    F* const callable = std::addressof(get(self));
    callable->~F();
    free_box(callable, alignof(F));
  }

  static constexpr callable_kind kind() noexcept {
    callable_kind made{&call_it, nullptr, nullptr, nullptr, nullptr, sizeof(F), alignof(F), boxed};
    if constexpr (is_recurring<F>) {
      made.next = &next;
    }
    if constexpr (!boxed && !std::is_trivially_copyable_v<F>) {
      made.relocate = &relocate;
    }
    if constexpr (!std::is_trivially_destructible_v<F>) {
      made.destroy_in_place = &destroy_in_place;
    }
    if constexpr (boxed) {
      made.destroy = &destroy_with_box;
    } else {
      made.destroy = made.destroy_in_place;
    }
    return made;
  }
};

template <class F>
inline constexpr callable_kind callable_kind_of = functions_of<F>::kind();

[[noreturn]] TIMING_WHEEL_EXPORT void throw_bad_alloc();

}  // namespace timing_wheel::detail
