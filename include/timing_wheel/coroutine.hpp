#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/detail/sleeping.hpp"
#include "timing_wheel/detail/time_limit.hpp"
#include "timing_wheel/executor.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

/// \file
/// For coroutines of any type: `co_await timer.sleep_for(30min)`, and `co_await with_timeout(timer, 5s, …)`. The page
/// docs/coroutines.md has the rules about threads and lifetimes, and what each race ends in.

namespace timing_wheel {

/// What may be said of a sleep: the argument after the time. Written in the braces of the call, its stop token may be a
/// temporary: `t.sleep_for(1s, {.stop = source.get_token()})`. A `sleep_options` that has a name refers to its stop
/// token, which must live until the call; so a temporary does not compile there.
struct sleep_options {
  /// A number of the caller's, which `stop`, `for_each_pending` and `on_error` give back.
  std::uint64_t tag = 0;
  /// Ends the sleep when a stop is requested; there is none if it was before. It costs no allocation.
  stop_token_ref stop = {};
  /// Where the coroutine goes on; that must live until it does, so a temporary does not compile. Empty: where the
  /// service runs its callbacks.
  executor_ref on = {};

  /// What the calls take.
  operator detail::sleep_options_in_braces() const noexcept {  // NOLINT(google-explicit-constructor)
    return {tag, stop, on};
  }
};

/// What may be said of a limit: the argument after what it is for. As `sleep_options`.
struct timeout_options {
  /// As that of a sleep.
  std::uint64_t tag = 0;
  /// A stop that is requested of it is passed on.
  stop_token_ref stop = {};

  /// What the calls take.
  operator detail::timeout_options_in_braces() const noexcept {  // NOLINT(google-explicit-constructor)
    return {tag, stop};
  }
};

/// A sleep that has not begun: what `timer::sleep_for` and `timer::sleep_until` return. It begins when it is awaited,
/// each time anew.
///
///     const sleep_result end = co_await timer.sleep_for(30min, {.stop = token});
///     if (end == sleep_result::elapsed) {
///       verify(id);
///     }
///
/// **What comes back.** `elapsed`, never early; or `stopped`, if the stop token asked for it. If the service refuses,
/// or has been stopped meanwhile, nothing is lost: the coroutine goes on, and `co_await` throws what `schedule_after`
/// would. Given a `std::error_code&`, it returns `failed` instead, and the error tells why. These are the errors:
///
/// - those of `schedule_after`, if the sleep could not begin: the coroutine was not suspended
/// - `timer_errc::stopped`, if the timer was dropped: the service has ended, or what `stop` returned was destroyed
///   without a call, or somebody has cancelled the timer by a handle or a key
/// - `std::errc::resource_unavailable_try_again`, if the executor that was asked for threw, or destroyed what it was
///   given; so the coroutine is on the thread that did
///
/// **Where it goes on.** On `sleep_options::on`, if given. Else as a callback would: on the thread that drives the
/// service, or on its executor. A stop request does not run the coroutine: it makes its timer due at once. When the
/// timer is dropped, the coroutine goes on where it is dropped, or on `sleep_options::on`.
///
/// **Cost.** One timer; no allocation: what is needed lies in the frame of the coroutine.
///
/// **Destroying a coroutine that sleeps** cancels its timer. It must not be destroyed while another thread may resume
/// it, as every coroutine.
///
/// Thread safety: as a plain object.
class [[nodiscard]] sleep_operation {
 public:
  /// Begins the sleep, in a coroutine. `this` may go meanwhile.
  /// \returns what awaits it: a `sleep_result`, see above.
  detail::sleeping operator co_await() const noexcept { return detail::sleeping(what_); }

 private:
  friend class timer;
  explicit sleep_operation(detail::sleep_request what) noexcept : what_(std::move(what)) {}

  detail::sleep_request what_;
};

template <class Rep, class Period>
sleep_operation timer::sleep_for(std::chrono::duration<Rep, Period> delay) {
  return sleep_operation({this, detail::time_kind::delay, saturating_nanoseconds(delay), 0, {}, {}, nullptr});
}
template <class Rep, class Period>
sleep_operation timer::sleep_for(std::chrono::duration<Rep, Period> delay,
                                 const detail::sleep_options_in_braces& options) {
  return sleep_operation({this, detail::time_kind::delay, saturating_nanoseconds(delay), options.tag,
                          options.stop.token(), options.on, nullptr});
}
template <class Rep, class Period>
sleep_operation timer::sleep_for(std::chrono::duration<Rep, Period> delay, std::error_code& error) {
  return sleep_operation({this, detail::time_kind::delay, saturating_nanoseconds(delay), 0, {}, {}, &error});
}
template <class Rep, class Period>
sleep_operation timer::sleep_for(std::chrono::duration<Rep, Period> delay,
                                 const detail::sleep_options_in_braces& options, std::error_code& error) {
  return sleep_operation({this, detail::time_kind::delay, saturating_nanoseconds(delay), options.tag,
                          options.stop.token(), options.on, &error});
}

template <detail::deadline_clock Clock, class Duration>
sleep_operation timer::sleep_until(std::chrono::time_point<Clock, Duration> deadline) {
  return sleep_operation(
      {this, detail::kind_of<Clock>, saturating_nanoseconds(deadline.time_since_epoch()), 0, {}, {}, nullptr});
}
template <detail::deadline_clock Clock, class Duration>
sleep_operation timer::sleep_until(std::chrono::time_point<Clock, Duration> deadline,
                                   const detail::sleep_options_in_braces& options) {
  return sleep_operation({this, detail::kind_of<Clock>, saturating_nanoseconds(deadline.time_since_epoch()),
                          options.tag, options.stop.token(), options.on, nullptr});
}
template <detail::deadline_clock Clock, class Duration>
sleep_operation timer::sleep_until(std::chrono::time_point<Clock, Duration> deadline, std::error_code& error) {
  return sleep_operation(
      {this, detail::kind_of<Clock>, saturating_nanoseconds(deadline.time_since_epoch()), 0, {}, {}, &error});
}
template <detail::deadline_clock Clock, class Duration>
sleep_operation timer::sleep_until(std::chrono::time_point<Clock, Duration> deadline,
                                   const detail::sleep_options_in_braces& options, std::error_code& error) {
  return sleep_operation({this, detail::kind_of<Clock>, saturating_nanoseconds(deadline.time_since_epoch()),
                          options.tag, options.stop.token(), options.on, &error});
}

/// What `with_timeout` returns, before it is awaited. To be awaited once, as an rvalue.
template <class Make>
class [[nodiscard]] time_limited {
 public:
  /// Begins, in a coroutine.
  detail::limited<Make> operator co_await() && noexcept(std::is_nothrow_move_constructible_v<Make>) {
    return detail::limited<Make>(std::move(what_));
  }

  /// For `with_timeout`.
  explicit time_limited(detail::limit_request<Make> what) : what_(std::move(what)) {}

 private:
  detail::limit_request<Make> what_;
};

/// Makes something that can be awaited, and awaits it, `limit` long at most.
///
///     auto page = co_await with_timeout(timer, 5s, [&](std::stop_token stop) { return fetch(url, stop); });
///     if (!page) { give_up(); }    // 5 s were not enough
///
/// `make(stop_token)` is called when the coroutine awaits. When the time is over, a stop is requested of that token,
/// **and what was made is waited for all the same**: it runs in the coroutine that awaits, and nothing is left behind
/// that uses what has gone. So what ignores the token is waited for until it ends by itself. A stop that is requested
/// of `options.stop` is passed on.
///
/// \returns an empty optional if the time was over before it ended; whatever it ended with then, a value or an
/// exception, is destroyed. Else what it returned, as an optional; a pointer, if that is a reference; `true` and
/// `false`, if it returns nothing. What it throws in time gets out, and so what it does after `options.stop` has asked.
/// \throws timer_error, std::bad_alloc as `timer::schedule_after`; then nothing was made. timer_error (`stopped`) if
/// the service has dropped the limit; then a stop was requested too, and waited for. With an `error`, these are told by
/// it, and the answer is empty; but for a lack of memory for the two small allocations that it makes, a count of owners
/// and the state of a `std::stop_source`, which throws.
///
/// The coroutine goes on where what was made resumes it. It may be on the thread that drives the service, inside
/// `request_stop`.
template <class Rep, class Period, class Make>
requires detail::awaited_with_stop<std::decay_t<Make>> time_limited<std::decay_t<Make>> with_timeout(
    timer& timer, std::chrono::duration<Rep, Period> limit, Make&& make,
    const detail::timeout_options_in_braces& options = {}) {
  return time_limited<std::decay_t<Make>>(
      {&timer, saturating_nanoseconds(limit), options.tag, options.stop.token(), nullptr, std::forward<Make>(make)});
}
/// The same, without a `timer_error`: see above.
template <class Rep, class Period, class Make>
requires detail::awaited_with_stop<std::decay_t<Make>> time_limited<std::decay_t<Make>> with_timeout(
    timer& timer, std::chrono::duration<Rep, Period> limit, Make&& make,
    const detail::timeout_options_in_braces& options, std::error_code& error) {
  return time_limited<std::decay_t<Make>>(
      {&timer, saturating_nanoseconds(limit), options.tag, options.stop.token(), &error, std::forward<Make>(make)});
}
/// The same, without a `timer_error`: see above.
template <class Rep, class Period, class Make>
requires detail::awaited_with_stop<std::decay_t<Make>> time_limited<std::decay_t<Make>> with_timeout(
    timer& timer, std::chrono::duration<Rep, Period> limit, Make&& make, std::error_code& error) {
  return time_limited<std::decay_t<Make>>(
      {&timer, saturating_nanoseconds(limit), 0, {}, &error, std::forward<Make>(make)});
}

}  // namespace timing_wheel
