#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <iosfwd>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/sleeping.hpp"
#include "timing_wheel/detail/time_limit.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_options.hpp"

/// \file
/// Sleeps and time limits, for coroutines of any type. The page docs/coroutines.md has the rules about threads and
/// lifetimes, and says how each race ends.

namespace timing_wheel {

/// How a sleep ended.
enum class sleep_result : std::uint8_t {
  elapsed,  ///< The time is over, or `timer::stop_run_now` has run the timer.
  stopped,  ///< The stop token asked for it.
  failed,   ///< The `std::error_code` tells why.
};

/// The name of the value, for instance "elapsed".
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(sleep_result result) noexcept;
/// Writes the name of the value.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, sleep_result result);

/// What `timer::sleep_for` and `timer::sleep_until` return: a sleep that has not begun. Each `co_await` of it begins a
/// new sleep.
///
///     const sleep_result end = co_await timer.sleep_for(30min, {.stop = token});
///     if (end == sleep_result::elapsed) verify(id);
///
/// | What happens | `co_await` without an `error` | with an `error` |
/// |---|---|---|
/// | the time is over | returns `elapsed`, never early | the same, and clears `error` |
/// | a stop is requested | returns `stopped` | the same, and clears `error` |
/// | the sleep cannot begin | throws what `schedule_after` throws, at once | returns `failed`, at once |
/// | the timer is dropped | throws `timer_error` (`stopped`) | returns `failed` |
/// | the executor throws, or drops its task | throws `timer_error` | returns `failed` |
///
/// A timer is dropped when the service ends, when the program destroys the timers that `stop` returned, or when a
/// handle or a key cancels it. The error of an executor is `std::errc::resource_unavailable_try_again`.
///
/// | The coroutine goes on | on |
/// |---|---|
/// | after its time, or after a stop request | `sleep_options::on`; else where the service runs callbacks |
/// | when the timer is dropped | `sleep_options::on`; else the thread that drops it |
/// | when the executor refuses | the thread that called the executor, or that destroyed its task |
///
/// A stop request does not run the coroutine. It makes the timer due at the next tick.
///
/// **Cost.** A sleep is one timer, and allocates nothing, because it lies in the frame of the coroutine.
///
/// If you destroy a coroutine that sleeps, its timer is cancelled. As with every coroutine, do not destroy it while
/// another thread may resume it. Thread safety: as a plain object.
class [[nodiscard]] sleep_operation {
 public:
  /// Begins the sleep, in a coroutine. This object may be destroyed while the coroutine sleeps.
  /// \returns an awaiter, whose result is a `sleep_result`.
  auto operator co_await() const noexcept { return detail::awaited_sleep(what_); }

 private:
  friend class timer;
  explicit sleep_operation(detail::sleep_request what) noexcept : what_(std::move(what)) {}

  detail::sleep_request what_;
};

template <class Rep, class Period>
sleep_operation timer::sleep_for(std::chrono::duration<Rep, Period> delay, const sleep_arguments& options) {
  return sleep_operation({this, detail::time_kind::delay, saturating_nanoseconds(delay), options, nullptr});
}
template <class Rep, class Period>
sleep_operation timer::sleep_for(std::chrono::duration<Rep, Period> delay, const sleep_arguments& options,
                                 std::error_code& error) {
  return sleep_operation({this, detail::time_kind::delay, saturating_nanoseconds(delay), options, &error});
}

template <deadline_clock Clock, class Duration>
sleep_operation timer::sleep_until(std::chrono::time_point<Clock, Duration> deadline, const sleep_arguments& options) {
  return sleep_operation(
      {this, detail::kind_of<Clock>, detail::nanoseconds_of(deadline).time_since_epoch(), options, nullptr});
}
template <deadline_clock Clock, class Duration>
sleep_operation timer::sleep_until(std::chrono::time_point<Clock, Duration> deadline, const sleep_arguments& options,
                                   std::error_code& error) {
  return sleep_operation(
      {this, detail::kind_of<Clock>, detail::nanoseconds_of(deadline).time_since_epoch(), options, &error});
}

/// Limits the time of an awaitable. `co_await` calls `make(stop_token)`, and awaits the awaitable that `make` returns.
///
///     auto page = co_await with_timeout(timer, 5s, [&](std::stop_token stop) { return fetch(url, stop); });
///     if (!page) give_up();  // 5 s were not enough
///
/// When the limit is over, `with_timeout` requests a stop of the token, **and goes on waiting until the awaitable has
/// ended**. So nothing is left behind that uses destroyed objects, and an awaitable that ignores its token ends late. A
/// stop request of `options.stop` is passed on to the token.
///
/// | The awaitable ends | `co_await` returns, or throws |
/// |---|---|
/// | in time, with a value | the value, as an optional |
/// | in time, with a reference | a pointer |
/// | in time, with `void` | `true` |
/// | in time, with an exception; also after a stop request of `options.stop` | that exception |
/// | late, in whatever way | an empty optional, a null pointer, or `false`; its value or exception is destroyed |
/// | before the coroutine was suspended, because `make`, `await_ready` or `await_suspend` throws | that exception |
///
/// | What fails | without an `error` | with an `error` |
/// |---|---|---|
/// | the service refuses the limit: `make` is not called | throws as `timer::schedule_after` | an empty answer |
/// | the service drops the limit | throws `timer_error` (`stopped`) | an empty answer |
/// | memory for the two allocations of `with_timeout` itself | throws `std::bad_alloc` | throws the same |
///
/// If the service drops the limit, `with_timeout` also requests a stop, and waits until the awaitable has ended.
///
/// Await the result of `with_timeout` once, as an rvalue. The coroutine goes on where the awaitable resumes it. If the
/// awaitable ends late, that may be inside `request_stop`, on the thread that drives the service.
template <class Rep, class Period, class Make>
requires detail::awaited_with_stop<std::decay_t<Make>>
auto with_timeout(timer& timer, std::chrono::duration<Rep, Period> limit, Make&& make,
                  const timeout_arguments& options = {}) {
  return detail::time_limited<std::decay_t<Make>>({&timer, saturating_nanoseconds(limit), options.tag,
                                                   options.stop.token(), options.window, nullptr,
                                                   std::forward<Make>(make)});
}
/// The form with an `error`.
template <class Rep, class Period, class Make>
requires detail::awaited_with_stop<std::decay_t<Make>>
auto with_timeout(timer& timer, std::chrono::duration<Rep, Period> limit, Make&& make, const timeout_arguments& options,
                  std::error_code& error) {
  return detail::time_limited<std::decay_t<Make>>({&timer, saturating_nanoseconds(limit), options.tag,
                                                   options.stop.token(), options.window, &error,
                                                   std::forward<Make>(make)});
}

}  // namespace timing_wheel
