#pragma once

#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "senders/senders.hpp"
#include "timing_wheel/execution.hpp"

namespace timing_wheel::test {

using scheduler = execution::scheduler<senders::library>;
using sleep_sender = execution::sleep_sender<senders::library>;

template <class Token>
struct token_env {
  Token token;
  Token query(senders::get_stop_token_t /*which*/) const noexcept { return token; }
};

/// A receiver that calls `ended(signal, error)`, once, with a stop token in its environment.
enum class signal { none, value, error, stopped };
template <class Ended, class Token = senders::never_stop_token>
struct receiver {
  Ended ended;
  Token token = {};

  void set_value() && noexcept { std::move(*this).end(signal::value); }
  void set_error(std::error_code error) && noexcept { std::move(*this).end(signal::error, error); }
  void set_stopped() && noexcept { std::move(*this).end(signal::stopped); }
  token_env<Token> get_env() const noexcept { return {token}; }

 private:
  void end(signal how, std::error_code error = {}) && noexcept {
    Ended mine = std::move(ended);  // what it calls may destroy the operation, and this with it
    mine(how, error);
  }
};
template <class Ended, class Token = senders::never_stop_token>
receiver(Ended, Token = {}) -> receiver<Ended, Token>;

/// A source of stop requests, and its token.
inline std::stop_token token_of(const std::stop_source& of) { return of.get_token(); }
inline senders::inplace_stop_token token_of(senders::inplace_stop_source& of) {
  return senders::inplace_stop_token(of);
}

/// An operation on the heap, which is destroyed inside its completion, before `then(signal, error)` is called.
template <class Token, class Then>
class self_destroying {
  struct ended {
    self_destroying* self;
    void operator()(signal how, std::error_code error) const noexcept {
      Then mine = std::move(self->then_);
      ++self->times_;  // in plain memory: a second end would be a use after the first
      delete self;
      mine(how, error);
    }
  };

 public:
  static void start(const sleep_sender& sleep, Token token, Then then) {
    auto* const made = new self_destroying(sleep, std::move(token), std::move(then));
    made->operation_.start();
  }

 private:
  self_destroying(const sleep_sender& sleep, Token token, Then then)
      : then_(std::move(then)), operation_(sleep.connect(receiver<ended, Token>{{this}, std::move(token)})) {}

  int times_ = 0;
  Then then_;
  decltype(std::declval<const sleep_sender&>().connect(std::declval<receiver<ended, Token>>())) operation_;
};

}  // namespace timing_wheel::test
