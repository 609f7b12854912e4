#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "timing_wheel/tick.hpp"
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

// Types of the library that hold a callable of the user's.
template <class F>
inline constexpr bool is_wrapper = false;

/// Whether it is a null pointer or an empty `std::function`, or wraps one.
template <class F>
[[nodiscard]] bool is_null(const F& callable) noexcept {
  if constexpr (is_wrapper<F>) {
    return callable.wraps_null();
  } else if constexpr (may_be_null<F>) {
    return callable == nullptr;
  } else {
    return false;
  }
}

/// A callable that is run again and again, at the deadlines that `rule(previous deadline, now)` gives, until that gives none.
template <class F, class Rule>
struct recurring {
  F callable;
  Rule rule;

  void operator()(const timer_handle& self) { call(callable, self); }
  [[nodiscard]] bool wraps_null() const noexcept { return is_null(callable) || is_null(rule); }
};

template <class F>
inline constexpr bool is_recurring = false;
template <class F, class Rule>
inline constexpr bool is_recurring<recurring<F, Rule>> = true;
template <class F, class Rule>
inline constexpr bool is_wrapper<recurring<F, Rule>> = true;

/// The rule of the user's own: `next(previous deadline)`.
template <class Next>
struct next_deadline {
  Next next;

  std::optional<time_point> operator()(time_point previous, time_point /*now*/) { return next(previous); }
  [[nodiscard]] bool wraps_null() const noexcept { return is_null(next); }
};

template <class Next>
inline constexpr bool is_wrapper<next_deadline<Next>> = true;

/// Cancels a timer when a stop is requested.
struct cancel_on_stop {
  timer_handle timer;
  void operator()() const noexcept {
    const timer_handle mine = timer;  // cancelling destroys the callable, and with it this object
    mine.cancel();
  }
};

/// Shared by a timer's callable and by who schedules it, since the timer may have ended before its handle is known.
struct stop_link {
  std::optional<std::stop_callback<cancel_on_stop>> on_stop;
};

/// A callable whose timer a `std::stop_token` cancels.
template <class F>
struct stoppable {
  F callable;
  std::shared_ptr<stop_link> link;

  void operator()(const timer_handle& self) { call(callable, self); }
  [[nodiscard]] bool wraps_null() const noexcept { return is_null(callable); }
};
template <class F>
inline constexpr bool is_wrapper<stoppable<F>> = true;

/// `schedule(callable)` returns a handle; from then on `token` cancels it.
template <class F, class Schedule>
timer_handle schedule_stoppable(std::stop_token&& token, F&& callable, Schedule schedule) {
  const auto link = std::make_shared<stop_link>();
  timer_handle timer = schedule(stoppable<std::decay_t<F>>{std::forward<F>(callable), link});
  link->on_stop.emplace(std::move(token), cancel_on_stop{timer});
  return timer;
}

}  // namespace timing_wheel::detail
