#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>

#include "timing_wheel/asio/wheel_service.hpp"
#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/states.hpp"
#include "timing_wheel/detail/asio/waits.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// A timer to wait for, with the interface of Asio's `steady_timer`, on the wheel of its context. Arming, moving and
/// cancelling it are O(1), however many timers there are.
///
///     timing_wheel::asio::wheel_timer idle(context, 30s);
///     idle.async_wait([&](const boost::system::error_code& error) {
///       if (!error) hang_up();
///     });
///     idle.expires_after(30s);  // the wait ends with operation_aborted
///
/// **A wait** ends once:
///
/// | a wait ends | its handler gets |
/// |---|---|
/// | at the expiry: never before it, and less than a tick of the wheel plus the machine's latency after it | no error |
/// | because it was cancelled, moved, or its timer destroyed | `error::operation_aborted` |
/// | because the wheel refuses it | another error, see `to_error_code` |
///
/// If the handler's associated executor is one of an `io_context`, a strand of one, or an `any_io_executor`, the wheel
/// posts the handler to it. Otherwise the wheel posts the handler to the timer's executor, which dispatches it to the
/// associated one. The handler is never called within the call that starts or ends the wait. The wait counts as work of
/// both executors. The wait lies in memory of the handler's associated allocator, and is freed before the handler is
/// called. A thread of the wheel neither moves a handler nor uses its allocator. If the executor throws, for instance
/// for lack of memory, the handler is destroyed. The call that ended the wait throws what the executor threw; at an
/// expiry, `timer_options::on_error` gets it.
///
/// **A cancel** ends the waits whose handler is not posted yet. A cancel that comes later changes nothing.
///
/// The forms with an `error_code` clear it. `wheel_service` makes a wheel for each context; `use_timer` gives the
/// context another one.
///
/// **Its size** is three words, if `Executor` is `any_io_executor` and the executor is that of an `io_context`. Another
/// executor, such as a strand, lies in a block of its own. So the constructors allocate for it and may throw
/// std::bad_alloc; a move does not. Without RTTI, or with another `Executor`, the executor lies in the timer.
///
/// Thread safety: distinct timers, any thread; one timer as an `int`, so handlers that share a timer belong into a
/// strand. A timer may be destroyed after its context.
template <class Executor = detail::net::any_io_executor>
class basic_wheel_timer {
 public:
  /// Handlers that have no executor of their own run on this one.
  using executor_type = Executor;
  /// The monotonic clock.
  using clock_type = std::chrono::steady_clock;
  /// Of that clock.
  using duration = clock_type::duration;
  /// Of that clock.
  using time_point = clock_type::time_point;

  /// The same timer for another executor; for default completion tokens.
  template <class Other>
  struct rebind_executor {
    using other = basic_wheel_timer<Other>;  ///< That timer.
  };

  /// Expired, from the start.
  explicit basic_wheel_timer(executor_type executor) : executor_(std::move(executor)) {}
  /// Expires at `expiry`.
  basic_wheel_timer(executor_type executor, const time_point& expiry)
      : executor_(std::move(executor)), expiry_(expiry) {}
  /// Expires `delay` from now.
  basic_wheel_timer(executor_type executor, const duration& delay)
      : executor_(std::move(executor)), expiry_(from_now(delay)) {}

  // clang-format off
  /// Expired, on the executor of `context`.
  template <class Context>
    requires std::derived_from<Context, detail::net::execution_context>
  explicit basic_wheel_timer(Context& context) : executor_(context.get_executor()) {}
  /// Expires at `expiry`.
  template <class Context>
    requires std::derived_from<Context, detail::net::execution_context>
  basic_wheel_timer(Context& context, const time_point& expiry) : executor_(context.get_executor()), expiry_(expiry) {}
  /// Expires `delay` from now.
  template <class Context>
    requires std::derived_from<Context, detail::net::execution_context>
  basic_wheel_timer(Context& context, const duration& delay)
      : executor_(context.get_executor()), expiry_(from_now(delay)) {}
  // clang-format on

  /// Takes over the expiry and the waits, which go on. `other` is as a new one on its executor.
  basic_wheel_timer(basic_wheel_timer&& other) noexcept(std::is_nothrow_copy_constructible_v<kept>)
      : executor_(other.executor_), expiry_(std::exchange(other.expiry_, {})), state_(std::move(other.state_)) {}

  /// Takes over the expiry and the waits of a timer with another executor.
  // clang-format off
  template <class Other>
    requires(!std::same_as<Other, Executor>) && std::convertible_to<Other, Executor>
  basic_wheel_timer(basic_wheel_timer<Other>&& other)  // NOLINT(google-explicit-constructor,*-param-not-moved)
      : executor_(other.get_executor()), expiry_(std::exchange(other.expiry_, {})), state_(std::move(other.state_)) {}
  // clang-format on

  /// Cancels its own waits, and takes over those of `other`, which is as a new one on its executor.
  basic_wheel_timer& operator=(basic_wheel_timer&& other) noexcept(
      std::conjunction_v<std::is_nothrow_copy_constructible<kept>, std::is_nothrow_copy_assignable<kept>>) {
    if (this != &other) {
      const basic_wheel_timer old(std::move(*this));
      executor_ = other.executor_;
      expiry_ = std::exchange(other.expiry_, {});
      state_ = std::move(other.state_);
    }
    return *this;
  }

  basic_wheel_timer(const basic_wheel_timer&) = delete;
  basic_wheel_timer& operator=(const basic_wheel_timer&) = delete;

  /// Cancels its waits.
  ~basic_wheel_timer() {
    if (state_) {
      state_->leave();
    }
  }

  /// Handlers that have no executor of their own run on this one.
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_.get(); }

  /// When it expires; the past for a new one.
  [[nodiscard]] time_point expiry() const noexcept { return expiry_; }

  /// Expires at `expiry`, which may be in the past. Cancels the waits. The node in the wheel stays for the next wait,
  /// see "When a wait is moved" in docs/asio.md. \returns how many waits it has cancelled.
  std::size_t expires_at(const time_point& expiry) {
    const std::size_t count = state_ ? state_->let_go() : 0;
    expiry_ = expiry;
    return count;
  }
  /// The same.
  std::size_t expires_at(const time_point& expiry, detail::error_code& error) {
    error = {};
    return expires_at(expiry);
  }

  /// Expires `delay` from now. A zero or negative delay expires at once, and one past the end of time never. Cancels
  /// the waits. \returns how many waits it has cancelled.
  std::size_t expires_after(const duration& delay) { return expires_at(from_now(delay)); }
  /// The same.
  std::size_t expires_after(const duration& delay, detail::error_code& error) {
    error = {};
    return expires_after(delay);
  }

  /// Ends the waits with `operation_aborted`. \returns how many. Complexity: O(that), and O(1) for the wheel.
  std::size_t cancel() { return state_ ? state_->cancel() : 0; }
  /// The same.
  std::size_t cancel(detail::error_code& error) {
    error = {};
    return cancel();
  }

  /// Ends the oldest wait with `operation_aborted`. \returns 1, or 0 if there is none.
  std::size_t cancel_one() { return state_ ? state_->cancel_one() : 0; }
  /// The same.
  std::size_t cancel_one(detail::error_code& error) {
    error = {};
    return cancel_one();
  }

  /// Blocks this thread until the expiry; nothing ends it earlier.
  void wait() const {
    while (clock_type::now() < expiry_) {
      std::this_thread::sleep_until(expiry_);
    }
  }
  /// The same.
  void wait(detail::error_code& error) const {
    error = {};
    wait();
  }

  /// Starts a wait until the expiry, for a handler or another completion token of `void(error_code)`, and returns at
  /// once. Where Asio has cancellation slots (from 1.19 on, in Boost 1.77), the handler's slot cancels this wait, in
  /// O(waits of this timer). \throws std::bad_alloc; what the constructor of the first wheel of a context throws.
  template <class Token = typename detail::net::default_completion_token<Executor>::type>
  auto async_wait(Token&& token = Token()) {
    return detail::net::async_initiate<Token, void(detail::error_code)>(initiation{this}, token, duration::zero());
  }

  /// The same, for a wait that may end up to `window` after the expiry; see `schedule_options::window`. If other waits
  /// of the timer are pending, this one joins them, and all end in the window of the first. A window is rounded down,
  /// by less than two fifths, and to whole ticks.
  template <class Token = typename detail::net::default_completion_token<Executor>::type>
  auto async_wait_within(const duration& window, Token&& token = Token()) {
    return detail::net::async_initiate<Token, void(detail::error_code)>(initiation{this}, token, window);
  }

 private:
  template <class>
  friend class basic_wheel_timer;
  using kept = detail::kept_executor<Executor>;

  // What Asio calls, at once or when a coroutine waits.
  class initiation {
   public:
    using executor_type = Executor;

    explicit initiation(basic_wheel_timer* timer) noexcept : timer_(timer) {}

    [[nodiscard]] executor_type get_executor() const noexcept { return timer_->get_executor(); }

    template <class Handler>
    void operator()(Handler&& handler, const duration& window) const {
      static_assert(std::is_invocable_v<std::decay_t<Handler>, detail::error_code>,
                    "a handler of async_wait is called with an error_code");
      timer_->start(std::decay_t<Handler>(std::forward<Handler>(handler)), window);
    }

   private:
    basic_wheel_timer* timer_;
  };

  [[nodiscard]] static time_point from_now(const duration& delay) { return saturating_add(clock_type::now(), delay); }

  template <class Handler>
  void start(Handler handler, const duration& window) {
    if (!state_) {
      state_ = detail::net::use_service<wheel_service>(executor_.context()).timers().make_state();
    }
#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
    const auto slot = detail::net::get_associated_cancellation_slot(handler);
#endif
    detail::wait_owner wait = detail::make_wait(std::move(handler), executor_);
#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
    if (slot.is_connected()) {
      const std::uint64_t number = state_->new_number();
      wait->set_number(number);
      detail::connect(slot, *state_.get(), number);
    }
#endif
    state_->add(*wait.release(), expiry_, window);
  }

  kept executor_;
  time_point expiry_{};
  detail::state_reference state_;  // made by the first wait
};

/// Replaces `steady_timer`.
using wheel_timer = basic_wheel_timer<>;

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
