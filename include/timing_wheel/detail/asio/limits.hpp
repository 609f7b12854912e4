#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <boost/core/no_exceptions_support.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/time.hpp"

#ifdef TIMING_WHEEL_ASIO_HAS_LIMITS

/// \cond
namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {
namespace detail {

// How long an operation may take from its begin, or until when.
template <class Timer, class Limit>
struct time_limit {
  Timer* timer;
  Limit limit;
  net::cancellation_type_t type;
};
template <class Timer>
void arm(const time_limit<Timer, typename Timer::duration>& limit) {
  limit.timer->expires_after(limit.limit);
}
template <class Timer>
void arm(const time_limit<Timer, typename Timer::time_point>& limit) {
  limit.timer->expires_at(limit.limit);
}

template <class Timer, class Rep, class Period>
[[nodiscard]] auto limit_of(Timer& timer, std::chrono::duration<Rep, Period> limit, net::cancellation_type_t type) {
  return time_limit<Timer, typename Timer::duration>{&timer, saturating_nanoseconds(limit), type};
}
template <class Timer>
[[nodiscard]] auto limit_of(Timer& timer, typename Timer::time_point limit, net::cancellation_type_t type) {
  return time_limit<Timer, typename Timer::time_point>{&timer, limit, type};
}

// What one of several signatures is called with.
template <class Signature>
struct arguments_of;
template <class Result, class... Arguments>
struct arguments_of<Result(Arguments...)> {
  using type = std::tuple<std::decay_t<Arguments>...>;
};
template <class Signature>
using arguments_of_t = typename arguments_of<Signature>::type;

// An operation and the wait that limits it. The handlers of both share it; the second of them to be called gives its
// memory back, and then calls the handler of the whole.
template <class Handler, class Timer, class... Signatures>
class limited_operation {
 public:
  using handler_type = Handler;

  limited_operation(Handler handler, Timer& timer, net::cancellation_type_t type)
      : handler_(std::move(handler)), timer_(timer), type_(type) {}
  limited_operation(const limited_operation&) = delete;
  limited_operation& operator=(const limited_operation&) = delete;
  ~limited_operation() = default;

  [[nodiscard]] const Handler& handler() const noexcept { return handler_; }
  [[nodiscard]] net::cancellation_slot slot() noexcept { return signal_.slot(); }

  // A cancel of the whole is one of the operation. The slot may outlive the operation, if that drops its handler;
  // then the slot keeps the block of memory, and nothing in it.
  template <class Slot>
  static void connect(const std::shared_ptr<limited_operation>& self, Slot slot) {
    if (slot.is_connected()) {
      slot.assign([still = std::weak_ptr<limited_operation>(self)](net::cancellation_type_t type) {
        if (const auto operation = still.lock()) {
          operation->signal_.emit(type);
        }
      });
    }
  }

  template <std::size_t Signature, class... Arguments>
  static void operation_ended(std::shared_ptr<limited_operation> self, Arguments&&... arguments) {
    auto slot = net::get_associated_cancellation_slot(self->handler_);
    if (slot.is_connected()) {
      slot.clear();
    }
    self->result_.template emplace<Signature + 1>(std::forward<Arguments>(arguments)...);
    if (self->wait_ended_) {
      complete(std::move(self));
    } else {
      self->timer_.cancel();
    }
  }

  static void wait_ended(std::shared_ptr<limited_operation> self) {
    self->wait_ended_ = true;
    if (self->result_.index() != 0) {
      complete(std::move(self));
    } else if (self.use_count() > 1) {  // else the other handler is gone, and with it the operation
      self->signal_.emit(self->type_);
    }
  }

 private:
  // Both have ended, and nobody else has a share.
  static void complete(std::shared_ptr<limited_operation> self) {
    Handler handler(std::move(self->handler_));
    auto result(std::move(self->result_));
    self.reset();
    std::visit(
        [&handler](auto&& arguments) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(arguments)>, std::monostate>) {
            std::apply(std::move(handler), std::forward<decltype(arguments)>(arguments));
          }
        },
        std::move(result));
  }

  Handler handler_;
  Timer& timer_;
  net::cancellation_signal signal_;
  net::cancellation_type_t type_;
  bool wait_ended_ = false;
  std::variant<std::monostate, arguments_of_t<Signatures>...> result_;
};

template <class Signature, class... Arguments>
inline constexpr bool accepts =
    sizeof...(Arguments) ==
    std::tuple_size_v<arguments_of_t<Signature>>&& std::is_constructible_v<arguments_of_t<Signature>, Arguments...>;

// The number of the first signature that can be called so; if there is none, as many as there are.
template <class... Signatures, class... Arguments>
[[nodiscard]] consteval std::size_t first_that_accepts(std::tuple<Arguments...>* /*so*/) {
  std::size_t number = 0;
  static_cast<void>(((accepts<Signatures, Arguments...> || (++number, false)) || ...));
  return number;
}

// The handler of the operation.
template <class Operation, class... Signatures>
class limited_handler {
  template <class... Arguments>
  static constexpr std::size_t number_for =
      first_that_accepts<Signatures...>(static_cast<std::tuple<Arguments...>*>(nullptr));

 public:
  using cancellation_slot_type = net::cancellation_slot;

  explicit limited_handler(std::shared_ptr<Operation> operation) noexcept : operation_(std::move(operation)) {}

  [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return operation_->slot(); }
  [[nodiscard]] const auto& inner() const noexcept { return operation_->handler(); }

  // clang-format off
  template <class... Arguments>
    requires(number_for<Arguments...> < sizeof...(Signatures))
  void operator()(Arguments&&... arguments) {
    Operation::template operation_ended<number_for<Arguments...>>(std::move(operation_),
                                                                  std::forward<Arguments>(arguments)...);
  }
  // clang-format on

 private:
  std::shared_ptr<Operation> operation_;
};

// The handler of the wait: runs where the operation's does, and nothing cancels it but its timer.
template <class Operation>
class limiting_handler {
 public:
  using cancellation_slot_type = net::cancellation_slot;

  explicit limiting_handler(std::shared_ptr<Operation> operation) noexcept : operation_(std::move(operation)) {}

  [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return {}; }
  [[nodiscard]] const auto& inner() const noexcept { return operation_->handler(); }

  void operator()(const error_code& /*error*/) { Operation::wait_ended(std::move(operation_)); }

 private:
  std::shared_ptr<Operation> operation_;
};

// What begins an operation, with the executor that it has.
template <class Initiation>
class initiation_of : public Initiation {
 public:
  explicit initiation_of(Initiation initiation) : Initiation(std::move(initiation)) {}
  [[nodiscard]] Initiation& get() noexcept { return *this; }
  [[nodiscard]] const Initiation& get() const noexcept { return *this; }
};
// clang-format off
template <class Initiation>
  requires(!std::is_class_v<Initiation> || std::is_final_v<Initiation>)
class initiation_of<Initiation> {
  // clang-format on
 public:
  explicit initiation_of(Initiation initiation) : initiation_(std::move(initiation)) {}
  [[nodiscard]] Initiation& get() noexcept { return initiation_; }
  [[nodiscard]] const Initiation& get() const noexcept { return initiation_; }

 private:
  Initiation initiation_;
};

template <class Initiation, class... Signatures>
class limited_initiation : public initiation_of<Initiation> {
 public:
  using initiation_of<Initiation>::initiation_of;

  template <class Handler, class Timer, class Limit, class... Arguments>
  void operator()(Handler&& handler, time_limit<Timer, Limit> limit, Arguments&&... arguments) && {
    begin(std::move(this->get()), std::forward<Handler>(handler), limit, std::forward<Arguments>(arguments)...);
  }
  template <class Handler, class Timer, class Limit, class... Arguments>
  void operator()(Handler&& handler, time_limit<Timer, Limit> limit, Arguments&&... arguments) const& {
    begin(this->get(), std::forward<Handler>(handler), limit, std::forward<Arguments>(arguments)...);
  }

 private:
  template <class Begun, class Handler, class Timer, class Limit, class... Arguments>
  static void begin(Begun&& initiation, Handler&& handler, const time_limit<Timer, Limit>& limit,
                    Arguments&&... arguments) {
    using operation = limited_operation<std::decay_t<Handler>, Timer, Signatures...>;
    const auto allocator = net::get_associated_allocator(handler);
    auto both = std::allocate_shared<operation>(allocator, std::forward<Handler>(handler), *limit.timer, limit.type);
    auto slot = net::get_associated_cancellation_slot(both->handler());
    arm(limit);
    limit.timer->async_wait(limiting_handler<operation>(both));
    BOOST_TRY {
      operation::connect(both, slot);
      std::forward<Begun>(initiation)(limited_handler<operation, Signatures...>(std::move(both)),
                                      std::forward<Arguments>(arguments)...);
    }
    BOOST_CATCH(...) {
      if (slot.is_connected()) {
        slot.clear();
      }
      limit.timer->cancel();
      BOOST_RETHROW
    }
    BOOST_CATCH_END
  }
};

template <class Token, class Timer, class Limit>
struct limited_token {
  template <class Given>
  limited_token(Given&& given, time_limit<Timer, Limit> until) : token(std::forward<Given>(given)), limit(until) {}

  Token token;
  time_limit<Timer, Limit> limit;
};
template <class Given, class Timer, class Limit>
limited_token(Given&&, time_limit<Timer, Limit>) -> limited_token<std::decay_t<Given>, Timer, Limit>;

// The same for the token that an operation takes if none is given.
template <class Timer, class Limit>
struct limited_default {
  explicit limited_default(time_limit<Timer, Limit> until) : limit(until) {}

  template <class Token>
  [[nodiscard]] auto operator()(Token&& token) const {
    return limited_token(std::forward<Token>(token), limit);
  }

  time_limit<Timer, Limit> limit;
};

}  // namespace detail
}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio

#ifdef TIMING_WHEEL_STANDALONE_ASIO
namespace asio {
#else
namespace boost::asio {
#endif

template <class Token, class Timer, class Limit, class... Signatures>
class async_result<timing_wheel::asio::detail::limited_token<Token, Timer, Limit>, Signatures...> {
 public:
  template <class Initiation, class Given, class... Arguments>
  static auto initiate(Initiation&& initiation, Given&& given, Arguments&&... arguments) {
    using limited = timing_wheel::asio::detail::limited_initiation<std::decay_t<Initiation>, Signatures...>;
    auto token = std::forward<Given>(given);
    return async_initiate<Token, Signatures...>(limited(std::forward<Initiation>(initiation)), token.token, token.limit,
                                                std::forward<Arguments>(arguments)...);
  }
};

template <class Timer, class Limit, class... Signatures>
class async_result<timing_wheel::asio::detail::limited_default<Timer, Limit>, Signatures...> {
 public:
  template <class Initiation, class Given, class... Arguments>
  static auto initiate(Initiation&& initiation, Given&& given, Arguments&&... arguments) {
    using token = typename default_completion_token<typename associated_executor<std::decay_t<Initiation>>::type>::type;
    static_assert(!std::is_void_v<token>, "this operation has no default token: give one");
    using limited = timing_wheel::asio::detail::limited_token<token, Timer, Limit>;
    return async_result<limited, Signatures...>::initiate(
        std::forward<Initiation>(initiation), limited{token(), given.limit}, std::forward<Arguments>(arguments)...);
  }
};

// Both handlers have what the one of the operation has: executor, allocator, and what later versions know beside.
template <template <class, class> class Associator, class Operation, class... Signatures, class Candidate>
struct associator<Associator, timing_wheel::asio::detail::limited_handler<Operation, Signatures...>, Candidate>
    : Associator<typename Operation::handler_type, Candidate> {
  using limited = timing_wheel::asio::detail::limited_handler<Operation, Signatures...>;
  using inner = Associator<typename Operation::handler_type, Candidate>;
  static decltype(auto) get(const limited& handler) noexcept { return inner::get(handler.inner()); }
  static auto get(const limited& handler, const Candidate& candidate) noexcept
      -> decltype(inner::get(handler.inner(), candidate)) {
    return inner::get(handler.inner(), candidate);
  }
};

template <template <class, class> class Associator, class Operation, class Candidate>
struct associator<Associator, timing_wheel::asio::detail::limiting_handler<Operation>, Candidate>
    : Associator<typename Operation::handler_type, Candidate> {
  using limiting = timing_wheel::asio::detail::limiting_handler<Operation>;
  using inner = Associator<typename Operation::handler_type, Candidate>;
  static decltype(auto) get(const limiting& handler) noexcept { return inner::get(handler.inner()); }
  static auto get(const limiting& handler, const Candidate& candidate) noexcept
      -> decltype(inner::get(handler.inner(), candidate)) {
    return inner::get(handler.inner(), candidate);
  }
};

}  // namespace asio, of either flavour
/// \endcond

#endif
