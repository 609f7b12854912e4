#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <utility>

#include "timing_wheel/asio/wheel_timer.hpp"
#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/limits.hpp"

// These functions need at least Asio 1.22 or Boost 1.79.
#ifdef TIMING_WHEEL_ASIO_HAS_LIMITS

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// Cancels an operation that takes longer than `limit`, counted from its begin. As `cancel_after` of Boost 1.86, with a
/// timer on a wheel: `socket.async_read_some(buffer, cancel_after(timer, 5s, handler))`.
///
/// | what happens first | the handler gets |
/// |---|---|
/// | the operation ends | its result, also if the limit passes before the handler is called |
/// | the limit passes | what the operation makes of a signal of `type`: most end with `error::operation_aborted` |
/// | somebody cancels the timer, or gives it a new expiry | the same as if the limit had passed |
/// | the wheel refuses the wait | the same as if the limit had passed |
///
/// The handler is called when the operation and the wait of the timer have both ended. Until then the timer belongs to
/// the operation. The operation uses the handler's executor, allocator and cancellation slot; the wait uses the first
/// two. Operation and wait share one block of that allocator, and free it before the handler is called.
///
/// `timer` must outlive the operation. Complexity: that of one wait. Thread safety: the operation has to be in a
/// strand, or in a context that one thread runs. \throws when the operation begins: std::bad_alloc; what `async_wait`
/// throws; what the initiation throws. If the initiation throws, the wait is cancelled and the handler's slot cleared
/// before you get the exception.
template <class Executor, class Rep, class Period, class Token>
[[nodiscard]] auto cancel_after(basic_wheel_timer<Executor>& timer, std::chrono::duration<Rep, Period> limit,
                                detail::net::cancellation_type_t type, Token&& token) {
  return detail::limited_token(std::forward<Token>(token), detail::limit_of(timer, limit, type));
}
/// The same with `cancellation_type::terminal`.
template <class Executor, class Rep, class Period, class Token>
[[nodiscard]] auto cancel_after(basic_wheel_timer<Executor>& timer, std::chrono::duration<Rep, Period> limit,
                                Token&& token) {
  return cancel_after(timer, limit, detail::net::cancellation_type_t::terminal, std::forward<Token>(token));
}
/// Returns a token that stands for the default token of the operation. `cancel_after(timer, limit)(token)` is
/// `cancel_after(timer, limit, token)`.
template <class Executor, class Rep, class Period>
[[nodiscard]] auto cancel_after(basic_wheel_timer<Executor>& timer, std::chrono::duration<Rep, Period> limit,
                                detail::net::cancellation_type_t type = detail::net::cancellation_type_t::terminal) {
  return detail::limited_default(detail::limit_of(timer, limit, type));
}

/// Cancels an operation that has not ended at `limit`; else as `cancel_after`.
template <class Executor, class Token>
[[nodiscard]] auto cancel_at(basic_wheel_timer<Executor>& timer, std::chrono::steady_clock::time_point limit,
                             detail::net::cancellation_type_t type, Token&& token) {
  return detail::limited_token(std::forward<Token>(token), detail::limit_of(timer, limit, type));
}
/// The same with `cancellation_type::terminal`.
template <class Executor, class Token>
[[nodiscard]] auto cancel_at(basic_wheel_timer<Executor>& timer, std::chrono::steady_clock::time_point limit,
                             Token&& token) {
  return cancel_at(timer, limit, detail::net::cancellation_type_t::terminal, std::forward<Token>(token));
}
/// Returns a token that stands for the default token of the operation. `cancel_at(timer, limit)(token)` is
/// `cancel_at(timer, limit, token)`.
template <class Executor>
[[nodiscard]] auto cancel_at(basic_wheel_timer<Executor>& timer, std::chrono::steady_clock::time_point limit,
                             detail::net::cancellation_type_t type = detail::net::cancellation_type_t::terminal) {
  return detail::limited_default(detail::limit_of(timer, limit, type));
}

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio

#endif
