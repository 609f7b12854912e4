#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <utility>

#include "timing_wheel/asio/wheel_timer.hpp"
#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/limits.hpp"

// Asio 1.22, and Boost 1.79.
#ifdef TIMING_WHEEL_ASIO_HAS_LIMITS

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// Cancels an operation that takes longer than `limit`, which counts from its begin. As `cancel_after` of Boost 1.86,
/// with a timer on a wheel: `socket.async_read_some(buffer, cancel_after(timer, 5s, handler))`.
///
/// The operation ends as one whose cancellation slot got a signal of that type: most with `error::operation_aborted`.
/// If the operation ends first, its result stands, also if the limit passes before its handler is called. The handler
/// is called once the operation and the wait of the timer have both ended. Until then the timer is the operation's: a
/// new expiry or a cancel of the timer cancels the operation, and so does a wheel that refuses the wait.
///
/// The handler's executor, allocator and cancellation slot are the operation's; the wait has the first two as well.
/// Both share one block of that allocator, which has it back before the handler is called.
///
/// `timer` must outlive the operation. Complexity: that of one wait. Thread safety: the operation has to be in a
/// strand, or in a context that one thread runs. \throws what the initiation throws; std::bad_alloc; what `async_wait`
/// throws.
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
/// The same for the default token of the operation, or for another that it is called with.
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
/// The same for the default token of the operation, or for another that it is called with.
template <class Executor>
[[nodiscard]] auto cancel_at(basic_wheel_timer<Executor>& timer, std::chrono::steady_clock::time_point limit,
                             detail::net::cancellation_type_t type = detail::net::cancellation_type_t::terminal) {
  return detail::limited_default(detail::limit_of(timer, limit, type));
}

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio

#endif
