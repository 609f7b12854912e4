#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::bench {

/// What the service benchmarks ask of a service. Its timers may be scheduled and cancelled by any thread; a handle is
/// made beforehand, used by one thread at a time, may be used again, and dies before the service.
///
/// - `schedule_after`, `schedule_at`, `schedule_every(handle, ..., callback)`: arm the handle's timer.
/// - `cancel(handle)`: whether the timer will not run any more. Not for one of `schedule_every`.
/// - `settle()`: waits until what `cancel` has left for the service's thread is done.
/// - `stop(handles)`: ends the thread. Called for each group of the handles whose timers run once, it returns in sum
///   how many of them were pending.
/// - `is_sound()`: what it says of its own counters.
// clang-format off
template <class S>
concept benched_service = requires(S service, typename S::handle& timer, std::vector<typename S::handle>& timers,
                                   void (*callback)(), std::chrono::nanoseconds delay, time_point deadline) {
  { service.make_handle() } -> std::same_as<typename S::handle>;
  service.schedule_after(timer, delay, callback);
  service.schedule_at(timer, deadline, callback);
  service.schedule_every(timer, delay, callback);
  { service.cancel(timer) } -> std::same_as<bool>;
  service.settle();
  { service.stop(timers) } -> std::same_as<std::size_t>;
  { service.is_sound() } -> std::same_as<bool>;
  { S::wakes_when_idle } -> std::convertible_to<bool>;
};
// clang-format on

/// The service of this library, on one of its engines; with timers that have a window of a second, if they
/// `MayFireLater`.
template <engine_kind Engine, bool MayFireLater = false>
class own_service {
 public:
  using handle = timer_handle;

  /// A wheel that counts rounds visits a slot at every tick.
  static constexpr bool wakes_when_idle = Engine == engine_kind::hashed;

  explicit own_service(timer_options options = {}) : timer_(on_engine(std::move(options))) {}

  [[nodiscard]] handle make_handle() const noexcept { return {}; }

  template <class F>
  void schedule_after(handle& timer, std::chrono::nanoseconds delay, F&& callback) {
    timer = timer_.schedule_after(delay, std::forward<F>(callback), {.window = window});
  }
  template <class F>
  void schedule_at(handle& timer, time_point deadline, F&& callback) {
    timer = timer_.schedule_at(deadline, std::forward<F>(callback), {.window = window});
  }
  template <class F>
  void schedule_every(handle& timer, std::chrono::nanoseconds period, F&& callback) {
    timer =
        timer_.schedule_every(period, std::forward<F>(callback), {.policy = fixed_rate_catch_up, .tag = periodic_tag});
  }

  /// The handle is dropped too, because each user pays for that.
  bool cancel(handle& timer) noexcept { return std::exchange(timer, {}).cancel() == cancel_result::cancelled; }

  void settle() const noexcept {}

  template <class Handles>
  std::size_t stop(Handles& /*timers*/) {
    std::size_t pending = 0;
    for (const pending_task& left : timer_.stop()) {
      pending += left.tag == periodic_tag ? 0U : 1U;
    }
    return pending;
  }

  [[nodiscard]] bool is_sound() const {
    const timer_stats now = timer_.stats();
    return now.early == 0 && now.scheduled == now.fired + now.cancelled + now.returned + now.pending;
  }

  /// Memory held for timers and wheels.
  [[nodiscard]] std::size_t bytes() const { return timer_.stats().bytes; }

 private:
  static constexpr std::uint64_t periodic_tag = 1;
  static constexpr std::chrono::seconds window{MayFireLater ? 1 : 0};

  static timer_options on_engine(timer_options options) {
    options.engine = Engine;
    return options;
  }

  timer timer_;
};

/// Boost.Asio: a `steady_timer` for each, and one thread that runs the `io_context`.
///
/// Its timers are made with the handles, before the clock of a benchmark starts, and not destroyed by `cancel`: both in
/// its favour.
class asio_service {
 public:
  using handle = boost::asio::steady_timer;

  static constexpr bool wakes_when_idle = false;

  asio_service() : thread_([this] { context_.run(); }) {}
  ~asio_service() { end(); }
  asio_service(const asio_service&) = delete;
  asio_service& operator=(const asio_service&) = delete;

  [[nodiscard]] handle make_handle() { return handle(context_); }

  template <class F>
  void schedule_after(handle& timer, std::chrono::nanoseconds delay, F&& callback) {
    timer.expires_after(delay);
    wait(timer, std::forward<F>(callback));
  }
  template <class F>
  void schedule_at(handle& timer, time_point deadline, F&& callback) {
    timer.expires_at(deadline);
    wait(timer, std::forward<F>(callback));
  }
  /// From then on the timer belongs to the service's thread, until that is stopped.
  template <class F>
  void schedule_every(handle& timer, std::chrono::nanoseconds period, F&& callback) {
    timer.expires_after(period);
    timer.async_wait(repeated<std::decay_t<F>>{timer, period, std::forward<F>(callback)});
  }

  /// The callable is destroyed later, on the service's thread.
  bool cancel(handle& timer) { return timer.cancel() == 1; }

  void settle() {
    std::promise<void> reached;
    boost::asio::post(context_, [&reached] { reached.set_value(); });
    reached.get_future().wait();
  }

  template <class Handles>
  std::size_t stop(Handles& timers) {
    end();
    std::size_t pending = 0;
    for (handle& timer : timers) {
      pending += timer.cancel();
    }
    return pending;
  }

  [[nodiscard]] bool is_sound() const noexcept { return true; }

 private:
  template <class F>
  struct repeated {
    handle& timer;
    std::chrono::nanoseconds period;
    F callback;

    void operator()(const boost::system::error_code& cancelled) {
      if (!cancelled) {
        callback();
        timer.expires_at(timer.expiry() + period);
        timer.async_wait(std::move(*this));
      }
    }
  };

  template <class F>
  static void wait(handle& timer, F&& callback) {
    timer.async_wait([callback = std::forward<F>(callback)](const boost::system::error_code& cancelled) mutable {
      if (!cancelled) {
        callback();
      }
    });
  }

  void end() {
    context_.stop();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  std::thread thread_;
};

// As they are called in the names of the benchmarks.
using hierarchical = own_service<engine_kind::hierarchical>;
using windowed = own_service<engine_kind::hierarchical, true>;
using hashed = own_service<engine_kind::hashed>;
using heap = own_service<engine_kind::heap>;
using boost_asio = asio_service;

static_assert(benched_service<hierarchical> && benched_service<hashed> && benched_service<heap> &&
              benched_service<boost_asio>);

/// `count` handles that have no timer yet.
template <benched_service Service>
std::vector<typename Service::handle> make_handles(Service& service, std::size_t count) {
  std::vector<typename Service::handle> handles;
  handles.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    handles.push_back(service.make_handle());
  }
  return handles;
}

}  // namespace timing_wheel::bench
