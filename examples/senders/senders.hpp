#pragma once

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

/// What a timer asks of a library of senders, and three algorithms, under the names of P2300, so that the example and
/// the tests need no library. Your program needs a whole one: stdexec, or that of C++26.
namespace senders {

// ---- The protocol ----

struct sender_t {};
struct receiver_t {};
struct operation_state_t {};
struct scheduler_t {};

// clang-format off
struct set_value_t {
  template <class R, class... Values>
    requires requires(R&& to, Values&&... values) { std::forward<R>(to).set_value(std::forward<Values>(values)...); }
  void operator()(R&& to, Values&&... values) const noexcept {
    std::forward<R>(to).set_value(std::forward<Values>(values)...);
  }
};
struct set_error_t {
  template <class R, class Error>
    requires requires(R&& to, Error&& error) { std::forward<R>(to).set_error(std::forward<Error>(error)); }
  void operator()(R&& to, Error&& error) const noexcept {
    std::forward<R>(to).set_error(std::forward<Error>(error));
  }
};
struct set_stopped_t {
  template <class R>
    requires requires(R&& to) { std::forward<R>(to).set_stopped(); }
  void operator()(R&& to) const noexcept {
    std::forward<R>(to).set_stopped();
  }
};
// clang-format on

template <class... Signatures>
struct completion_signatures {};

/// A token that nobody can stop.
struct never_stop_token {
  template <class Callback>
  struct callback_type {
    callback_type(never_stop_token /*of*/, const Callback& /*call*/) noexcept {}
  };
  static constexpr bool stop_requested() noexcept { return false; }
  static constexpr bool stop_possible() noexcept { return false; }
};

struct empty_env {};
struct get_env_t {
  template <class Of>
  auto operator()(const Of& of) const noexcept {
    if constexpr (requires { of.get_env(); }) {
      return of.get_env();
    } else {
      return empty_env();
    }
  }
};
struct get_stop_token_t {
  template <class Env>
  auto operator()(const Env& env) const noexcept {
    if constexpr (requires { env.query(*this); }) {
      return env.query(*this);
    } else {
      return never_stop_token();
    }
  }
};
template <class Signal>
struct get_completion_scheduler_t {
  template <class Env>
  auto operator()(const Env& env) const noexcept {
    return env.query(*this);
  }
};

/// The names, for `timing_wheel::execution::scheduler`.
struct library {
  using sender_t = senders::sender_t;
  using scheduler_t = senders::scheduler_t;
  using operation_state_t = senders::operation_state_t;
  using set_value_t = senders::set_value_t;
  using set_error_t = senders::set_error_t;
  using set_stopped_t = senders::set_stopped_t;
  using get_env_t = senders::get_env_t;
  using get_stop_token_t = senders::get_stop_token_t;
  template <class... Signatures>
  using completion_signatures = senders::completion_signatures<Signatures...>;
  template <class Signal>
  using get_completion_scheduler_t = senders::get_completion_scheduler_t<Signal>;
};

// ---- A stop source without an allocation ----

/// Where stops are requested. It must outlive its tokens, and every call of `request_stop`.
class inplace_stop_source {
 public:
  /// What is called, on the thread of `request_stop`, or at once if that was before.
  class link {
   public:
    using function = void (*)(link& self);
    link(const link&) = delete;
    link& operator=(const link&) = delete;

   protected:
    link(inplace_stop_source* source, function call) noexcept : source_(source), call_(call) {}
    ~link() = default;
    void enter() noexcept {
      if (source_ != nullptr && !source_->add(*this)) {
        source_ = nullptr;
        call_(*this);
      }
    }
    void leave() noexcept {
      if (source_ != nullptr) {
        source_->remove(*this);
      }
    }

   private:
    friend inplace_stop_source;
    inplace_stop_source* source_;
    function call_;
    link* before_ = nullptr;
    link* after_ = nullptr;
  };

  inplace_stop_source() = default;
  inplace_stop_source(const inplace_stop_source&) = delete;
  inplace_stop_source& operator=(const inplace_stop_source&) = delete;

  bool request_stop() noexcept {
    std::unique_lock lock(mutex_);
    if (requested_.exchange(true)) {
      return false;
    }
    thread_ = std::this_thread::get_id();
    while (first_ != nullptr) {
      running_ = first_;
      unlink(*first_);
      lock.unlock();
      running_->call_(*running_);
      lock.lock();
      running_ = nullptr;
      ran_.notify_all();
    }
    return true;
  }
  [[nodiscard]] bool stop_requested() const noexcept { return requested_; }

 private:
  bool add(link& one) noexcept {
    const std::lock_guard lock(mutex_);
    if (requested_) {
      return false;
    }
    one.after_ = first_;
    if (first_ != nullptr) {
      first_->before_ = &one;
    }
    first_ = &one;
    return true;
  }
  // Waits until the callback has returned, unless it is the callback that removes itself.
  void remove(link& one) noexcept {
    std::unique_lock lock(mutex_);
    if (first_ == &one || one.before_ != nullptr) {
      unlink(one);
    } else if (thread_ != std::this_thread::get_id()) {
      ran_.wait(lock, [&] { return running_ != &one; });
    }
  }
  void unlink(link& one) noexcept {
    (one.before_ != nullptr ? one.before_->after_ : first_) = one.after_;
    if (one.after_ != nullptr) {
      one.after_->before_ = one.before_;
    }
    one.before_ = one.after_ = nullptr;
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable ran_;
  std::atomic<bool> requested_ = false;  // written under the mutex
  std::thread::id thread_;
  link* first_ = nullptr;
  link* running_ = nullptr;
};

class inplace_stop_token {
 public:
  template <class Callback>
  class callback_type : inplace_stop_source::link {
   public:
    callback_type(inplace_stop_token of, Callback call) noexcept
        : link(of.source_,
               [](link& self) {
                 const Callback mine = static_cast<callback_type&>(self).call_;  // this object may go
                 mine();
               }),
          call_(std::move(call)) {
      enter();
    }
    ~callback_type() { leave(); }

   private:
    Callback call_;
  };

  constexpr inplace_stop_token() noexcept {}  // NOLINT(modernize-use-equals-default): for GCC 12, in a concept
  explicit inplace_stop_token(inplace_stop_source& of) noexcept : source_(&of) {}
  [[nodiscard]] bool stop_requested() const noexcept { return source_ != nullptr && source_->stop_requested(); }
  [[nodiscard]] constexpr bool stop_possible() const noexcept { return source_ != nullptr; }

 private:
  inplace_stop_source* source_ = nullptr;
};

// ---- then: the value that a function makes of a value ----

template <class Receiver, class F>
struct then_receiver {
  using receiver_concept = receiver_t;
  Receiver to;
  F make;

  template <class... Values>
  void set_value(Values&&... values) && noexcept {
    set_value_t()(std::move(to), make(std::forward<Values>(values)...));
  }
  template <class Error>
  void set_error(Error&& error) && noexcept {
    set_error_t()(std::move(to), std::forward<Error>(error));
  }
  void set_stopped() && noexcept { set_stopped_t()(std::move(to)); }
  auto get_env() const noexcept { return get_env_t()(to); }
};

template <class Sender, class F>
struct then_sender {
  using sender_concept = sender_t;
  Sender of;
  F make;

  template <class Receiver>
  auto connect(Receiver to) const {
    return of.connect(then_receiver<Receiver, F>{std::move(to), make});
  }
};

template <class Sender, class F>
auto then(Sender of, F make) {
  return then_sender<Sender, F>{std::move(of), std::move(make)};
}

// ---- when_any: the first end of several; the others are stopped, and waited for ----

/// `std::monostate`: stopped.
template <class Value>
using ending = std::variant<std::monostate, Value, std::error_code>;

template <class Value, class Receiver, class... Senders>
class when_any_operation {
  struct env {
    inplace_stop_source* source;
    inplace_stop_token query(get_stop_token_t /*which*/) const noexcept { return inplace_stop_token(*source); }
  };
  struct child_receiver {
    using receiver_concept = receiver_t;
    when_any_operation* all;
    void set_value(Value value) && noexcept { all->end(ending<Value>(std::in_place_index<1>, std::move(value))); }
    void set_error(std::error_code error) && noexcept { all->end(ending<Value>(std::in_place_index<2>, error)); }
    void set_stopped() && noexcept { all->end({}); }
    env get_env() const noexcept { return {&all->source_}; }
  };
  template <class Sender>
  struct child {
    explicit child(std::pair<const Sender&, when_any_operation*> what)
        : operation(what.first.connect(child_receiver{what.second})) {}
    decltype(std::declval<const Sender&>().connect(std::declval<child_receiver>())) operation;
  };
  struct stop_all {
    inplace_stop_source* source;
    void operator()() const noexcept { source->request_stop(); }
  };
  using outer_token = decltype(get_stop_token_t()(get_env_t()(std::declval<const Receiver&>())));
  using outer_callback = typename outer_token::template callback_type<stop_all>;

 public:
  using operation_state_concept = operation_state_t;

  when_any_operation(const std::tuple<Senders...>& senders, Receiver to)
      : to_(std::move(to)),
        children_(std::apply(
            [this](const Senders&... each) {
              return std::tuple(std::pair<const Senders&, when_any_operation*>(each, this)...);
            },
            senders)) {}

  void start() & noexcept {
    on_stop_.emplace(get_stop_token_t()(get_env_t()(to_)), stop_all{&source_});
    std::apply([](child<Senders>&... each) { (each.operation.start(), ...); }, children_);
    arrive();
  }

 private:
  void end(ending<Value> how) noexcept {
    if (!decided_.exchange(true)) {
      result_ = std::move(how);
      source_.request_stop();
    }
    arrive();
  }
  void arrive() noexcept {
    if (left_.fetch_sub(1) != 1) {
      return;
    }
    on_stop_.reset();
    if (result_.index() == 1) {
      set_value_t()(std::move(to_), std::get<1>(std::move(result_)));
    } else if (result_.index() == 2) {
      set_error_t()(std::move(to_), std::get<2>(result_));
    } else {
      set_stopped_t()(std::move(to_));
    }
  }

  Receiver to_;
  inplace_stop_source source_;
  std::atomic<bool> decided_ = false;
  std::atomic<std::size_t> left_ = sizeof...(Senders) + 1;  // and `start`
  ending<Value> result_;
  std::optional<outer_callback> on_stop_;
  std::tuple<child<Senders>...> children_;
};

template <class Value, class... Senders>
struct when_any_sender {
  using sender_concept = sender_t;
  std::tuple<Senders...> of;

  template <class Receiver>
  auto connect(Receiver to) const {
    return when_any_operation<Value, Receiver, Senders...>(of, std::move(to));
  }
};

/// Each sender gives a `Value`, or what becomes one.
template <class Value, class... Senders>
auto when_any(Senders... senders) {
  return when_any_sender<Value, Senders...>{{std::move(senders)...}};
}

// ---- sync_wait: on this thread, until the end ----

/// \returns the value; none if it was stopped. \throws std::system_error
template <class Value, class Sender>
std::optional<Value> sync_wait(const Sender& sender) {
  struct {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<ending<Value>> how;  // guarded by the mutex
    void end(ending<Value> with) {
      const std::lock_guard lock(mutex);
      how = std::move(with);
      ended.notify_one();
    }
  } state;
  struct receiver {
    decltype(state)* to;
    void set_value(Value value) && noexcept { to->end(ending<Value>(std::in_place_index<1>, std::move(value))); }
    void set_error(std::error_code error) && noexcept { to->end(ending<Value>(std::in_place_index<2>, error)); }
    void set_stopped() && noexcept { to->end({}); }
  };
  auto operation = sender.connect(receiver{&state});
  operation.start();
  std::unique_lock lock(state.mutex);
  state.ended.wait(lock, [&] { return state.how.has_value(); });
  if (state.how->index() == 2) {
    throw std::system_error(std::get<2>(*state.how));
  }
  return state.how->index() == 1 ? std::optional<Value>(std::get<1>(std::move(*state.how))) : std::nullopt;
}

}  // namespace senders
