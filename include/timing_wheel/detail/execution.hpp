#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <optional>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/sleeping.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::execution::detail {

// ---- Stop tokens ----

template <class Token, class Callback>
struct stop_callback_of {
  using type = typename Token::template callback_type<Callback>;
};
template <class Callback>
struct stop_callback_of<std::stop_token, Callback> {
  using type = std::stop_callback<Callback>;
};

// clang-format off
/// Whether the type alone says that no stop is ever requested: without a token. An empty token says so of itself only.
template <class Token>
concept unstoppable = requires {
  requires std::bool_constant<!Token::stop_possible()>::value;
};

// ---- Receivers ----

template <class Library, class Receiver>
using token_of = std::remove_cvref_t<std::invoke_result_t<
    const typename Library::get_stop_token_t&,
    std::invoke_result_t<const typename Library::get_env_t&, const Receiver&>>>;

/// Whether it takes all three ends of a sleep.
template <class Library, class Receiver>
concept receives_sleep = std::move_constructible<Receiver> &&
                         std::invocable<const typename Library::set_value_t&, Receiver> &&
                         std::invocable<const typename Library::set_error_t&, Receiver, std::error_code> &&
                         std::invocable<const typename Library::set_stopped_t&, Receiver> && requires {
  typename token_of<Library, Receiver>;
};
// clang-format on

// ---- The operation ----

/// The state of a sender's sleep: started once, and destroyed when it has completed, or was never started. It completes
/// in one of three ways, each of which ends with the receiver, which may destroy it.
///
/// 1. `start` finds a stop request, or the service refuses: nobody else has the operation then.
/// 2. The alarm rings (`sleeping`): after `armed`, and once.
/// 3. A stop request cancels the timer, which destroys the alarm: so this is the second way. The destructor of the stop
///    callback, of its own thread, does not wait for it.
template <class Library, class Receiver>
class sleep_of : timing_wheel::detail::sleeping {
  using sleeping = timing_wheel::detail::sleeping;
  using token = token_of<Library, Receiver>;
  using callback = typename stop_callback_of<token, sleeping::stop_request>::type;
  struct no_callback {
    void reset() noexcept {}
  };

 public:
  using operation_state_concept = typename Library::operation_state_t;

  sleep_of(const timing_wheel::detail::sleep_time& what,
           Receiver&& receiver) noexcept(std::is_nothrow_move_constructible_v<Receiver>)
      : sleeping(&sleep_of::wake, sleeping::stop_rule::cancel), what_(what), receiver_(std::move(receiver)) {}

  void start() & noexcept {
    if constexpr (!unstoppable<token>) {
      const typename Library::get_env_t get_env{};
      const typename Library::get_stop_token_t get_stop_token{};
      if (token of = get_stop_token(get_env(std::as_const(receiver_))); of.stop_possible()) {
        on_stop_.emplace(std::move(of), sleeping::stop_request{this});
        if (has(sleeping::stop)) {
          complete_stopped();
          return;
        }
      }
    }
    std::error_code error;
    if (!begin(what_, &error)) {
      refuse(error);
    }
  }

 private:
  static void wake(sleeping& of, sleeping::wake_reason how) {
    auto& self = static_cast<sleep_of&>(of);
    if (how == sleeping::wake_reason::fired) {
      self.on_stop_.reset();
      typename Library::set_value_t()(std::move(self.receiver_));
    } else {
      self.complete_stopped();
    }
  }

  // Whether `timer::stop` comes before or after `start`, nobody can know. So both have one end.
  void refuse(std::error_code error) noexcept {
    if (error == timer_errc::stopped) {
      complete_stopped();
    } else {
      on_stop_.reset();
      typename Library::set_error_t()(std::move(receiver_), std::error_code(error));
    }
  }

  void complete_stopped() noexcept {
    on_stop_.reset();
    typename Library::set_stopped_t()(std::move(receiver_));
  }

  const timing_wheel::detail::sleep_time what_;
  [[no_unique_address]] Receiver receiver_;
  [[no_unique_address]] std::conditional_t<unstoppable<token>, no_callback, std::optional<callback>> on_stop_;
};

// ---- The environment of a sender ----

template <class Library, class Scheduler>
class environment {
 public:
  explicit environment(Scheduler on) noexcept : on_(on) {}

  template <class... Env>
  [[nodiscard]] Scheduler query(
      typename Library::template get_completion_scheduler_t<typename Library::set_value_t> /*which*/,
      const Env&... /*of_receiver*/) const noexcept {
    return on_;
  }

 private:
  Scheduler on_;
};

}  // namespace timing_wheel::execution::detail
