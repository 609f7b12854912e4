#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <system_error>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/execution.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/detail/sleeping.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"

/// \file
/// A timer as a scheduler of `std::execution` (P2300), for any library of senders: that of C++26, stdexec, or your own.
/// The page docs/execution.md has the rules about threads and lifetimes. `timing_wheel.hpp` does not include this
/// header.

/// Senders on a timer.
namespace timing_wheel::execution {

/// The names that a library of senders has. This header includes no such library, so you name yours, once in a program:
///
///     struct my_library {
///       using sender_t = stdexec::sender_t;
///       using scheduler_t = stdexec::scheduler_t;
///       using operation_state_t = stdexec::operation_state_t;
///       using set_value_t = stdexec::set_value_t;
///       using set_error_t = stdexec::set_error_t;
///       using set_stopped_t = stdexec::set_stopped_t;
///       using get_env_t = stdexec::get_env_t;
///       using get_stop_token_t = stdexec::get_stop_token_t;
///       template <class... Signatures>
///       using completion_signatures = stdexec::completion_signatures<Signatures...>;
///       template <class Signal>
///       using get_completion_scheduler_t = stdexec::get_completion_scheduler_t<Signal>;
///     };
// clang-format off
template <class L>
concept sender_library = requires {
  typename L::sender_t;
  typename L::scheduler_t;
  typename L::operation_state_t;
  typename L::set_value_t;
  typename L::set_error_t;
  typename L::set_stopped_t;
  typename L::get_env_t;
  typename L::get_stop_token_t;
  typename L::template completion_signatures<typename L::set_stopped_t()>;
  typename L::template get_completion_scheduler_t<typename L::set_value_t>;
};

/// A scheduler with a clock. A function that sleeps should take a `timed_scheduler`, so that it works with other timed
/// schedulers, such as stdexec's. The concept only asks that these calls compile.
template <class S>
concept timed_scheduler = std::copyable<S> && std::equality_comparable<S> && requires(const S& on) {
  typename S::scheduler_concept;
  on.schedule();
  on.schedule_after(on.now() - on.now());
  on.schedule_at(on.now());
};
// clang-format on

template <sender_library Library>
class scheduler;

/// What `scheduler::schedule_after` returns: a sleep that has not begun. Connect it to receivers, as often as you like,
/// and start each operation once; or pass it to algorithms of your library, such as `then` and `when_any`.
///
/// | What happens | The receiver gets | on |
/// |---|---|---|
/// | the time is over | `set_value()`, never early | where the service runs callbacks |
/// | `timer::stop_run_now` runs the timer | `set_value()` | the thread that calls that |
/// | a stop is requested after the start | `set_stopped()` | the thread that requests the stop |
/// | a stop was requested before the start | `set_stopped()` | the thread that starts |
/// | the service was stopped before the start | `set_stopped()` | the thread that starts |
/// | the timer is dropped | `set_stopped()` | the thread that drops the timer |
/// | the service refuses for another reason | `set_error(c)`, `c` as in `timer::schedule_after` | the one that starts |
///
/// The comment of `timing_wheel::sleep_operation` in coroutine.hpp says when a timer is dropped. A stop request wakes
/// no thread. It cancels the timer, so the timer's memory comes back before the request returns. If the time is over at
/// the same moment, one of the two wins.
///
/// **The stop token** is that of the receiver's environment. Its type may be any type with a `callback_type`, such as
/// the `inplace_stop_token` of C++26. It may also be `std::stop_token`, although C++20 gives that no `callback_type`.
/// A token that cannot be stopped costs no space.
///
/// **Cost.** An operation is one timer. Beside that timer, all that the library keeps lies in the operation, so the
/// library allocates nothing else. The operation must stay at its address, and must live until it completes. When it
/// completes, the receiver may destroy the operation and the service. Thread safety: as a plain object. Complexity:
/// that of `timer::schedule_after`, and of `timer_handle::cancel`.
template <sender_library Library>
class [[nodiscard]] sleep_sender {
 public:
  using sender_concept = typename Library::sender_t;  ///< A sender.
  /// How it may complete.
  using completion_signatures =
      typename Library::template completion_signatures<typename Library::set_value_t(),
                                                       typename Library::set_error_t(std::error_code),
                                                       typename Library::set_stopped_t()>;

  /// An operation that has not begun. Throws what moving the receiver throws.
  template <class Receiver>
  requires detail::receives_sleep<Library, Receiver>
  [[nodiscard]] auto connect(Receiver receiver) const noexcept(std::is_nothrow_move_constructible_v<Receiver>) {
    return detail::sleep_of<Library, Receiver>(what_, std::move(receiver));
  }

  /// The environment. It names the scheduler on which `set_value` is called.
  [[nodiscard]] auto get_env() const noexcept {
    return detail::environment<Library, scheduler<Library>>(scheduler<Library>(*what_.by, what_.tag));
  }

 private:
  friend scheduler<Library>;
  explicit sleep_sender(const timing_wheel::detail::sleep_time& what) noexcept : what_(what) {}

  timing_wheel::detail::sleep_time what_;
};

/// A timer as a scheduler, with a clock. The timer must live when `now` is called and when a sender is started. A
/// sender that has started may outlive it.
///
///     execution::scheduler<my_library> wheel(timer);
///     auto late = wheel.schedule_after(30min) | stdexec::then([] { verify(7); });
///     auto some_time_later = wheel.schedule_after(30min, 2s);  // between 30 min and 30 min 2 s after the start
///
/// It works with a `manual_timer` in tests, and with a `loop_timer` in a loop. Thread safety: as a plain object.
template <sender_library Library>
class scheduler {
 public:
  using scheduler_concept = typename Library::scheduler_t;  ///< A scheduler.

  /// A scheduler on the timer `of`. `tag` is the `schedule_options::tag` of the sleeps.
  explicit scheduler(timer& of, std::uint64_t tag = 0) noexcept : timer_(&of), tag_(tag) {}

  /// `timer::now`.
  [[nodiscard]] time_point now() const noexcept { return timer_->now(); }

  /// Completes as soon as possible, where the service runs callbacks.
  sleep_sender<Library> schedule() const noexcept { return schedule_after(std::chrono::nanoseconds::zero()); }

  /// Completes `delay` after its operation is started, or up to `window` later, as `schedule_options::window`. A zero
  /// or negative delay means as soon as possible.
  template <class Rep, class Period>
  sleep_sender<Library> schedule_after(std::chrono::duration<Rep, Period> delay,
                                       std::chrono::nanoseconds window = {}) const noexcept {
    return sender(timing_wheel::detail::time_kind::delay, saturating_nanoseconds(delay), window);
  }

  /// Completes at `deadline`, a time point as for `timer::schedule_at`, or up to `window` later. A time of the wall
  /// clock is converted when the operation is started.
  template <deadline_clock Clock, class Duration>
  sleep_sender<Library> schedule_at(std::chrono::time_point<Clock, Duration> deadline,
                                    std::chrono::nanoseconds window = {}) const noexcept {
    return sender(timing_wheel::detail::kind_of<Clock>,
                  timing_wheel::detail::nanoseconds_of(deadline).time_since_epoch(), window);
  }

  /// Whether timer and tag are the same.
  friend bool operator==(const scheduler&, const scheduler&) noexcept = default;

 private:
  sleep_sender<Library> sender(timing_wheel::detail::time_kind kind, std::chrono::nanoseconds time,
                               std::chrono::nanoseconds window) const noexcept {
    return sleep_sender<Library>({timer_, kind, time, tag_, window});
  }

  timer* timer_;
  std::uint64_t tag_;
};

}  // namespace timing_wheel::execution
