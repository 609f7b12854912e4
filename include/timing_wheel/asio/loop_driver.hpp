#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <boost/core/no_exceptions_support.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "timing_wheel/asio/wheel_service.hpp"
#include "timing_wheel/detail/asio_flavour.hpp"
#include "timing_wheel/detail/asio_states.hpp"
#include "timing_wheel/loop_timer.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// \cond
namespace detail {

// A loop_timer, and a steady_timer that sleeps until its next event.
class driver_core final : public wheel_driver, public std::enable_shared_from_this<driver_core> {
 public:
  driver_core(const net::any_io_executor& executor, const timer_options& options)
      : turns_(std::in_place, executor), sleeper_(std::in_place, executor), timer_(options, [this] { look_later(); }) {
    static_cast<void>(timer_.next_event());  // from now on, `on_earlier` is called
  }
  driver_core(const driver_core&) = delete;
  driver_core& operator=(const driver_core&) = delete;
  ~driver_core() = default;

  [[nodiscard]] loop_timer& timer() noexcept { return timer_; }

  // Nobody waits any more: then nobody sleeps, and the context may end.
  void cancelled() noexcept override {
    if (timer_.pending() == 0) {
      BOOST_TRY { look_later(); }
      BOOST_CATCH(...) {}  // it sleeps too long, and that is all
      BOOST_CATCH_END
    }
  }

  // What is the context's goes, on the thread that destroys it. The timer may live on.
  void close() noexcept override {
    const std::lock_guard lock(mutex_);
    sleeper_.reset();
    turns_.reset();
  }

 private:
  // How many callbacks run before the context has its turn again.
  static constexpr std::size_t budget = 1024;

  // From any thread.
  void look_later() {
    if (look_posted_.exchange(true, std::memory_order_acq_rel)) {
      return;  // the one that was posted has not begun, and will see what is new
    }
    BOOST_TRY {
      const std::lock_guard lock(mutex_);
      if (turns_) {
        net::post(*turns_, [weak = weak_from_this()] {
          if (const std::shared_ptr<driver_core> self = weak.lock()) {
            self->look_posted_.exchange(false, std::memory_order_acq_rel);
            self->look();
          }
        });
      }
    }
    BOOST_CATCH(...) {
      look_posted_.store(false, std::memory_order_release);
      BOOST_RETHROW
    }
    BOOST_CATCH_END
  }

  // In the strand, as all that follows. Sleeps until the next event, or not at all.
  void look() {
    const std::optional<time_point> next = timer_.next_event();
    if (!next) {
      if (std::exchange(asleep_until_, std::nullopt)) {
        sleeper_->cancel();
      }
    } else if (!asleep_until_ || *next < *asleep_until_) {
      sleep_until(*next);
    }
  }

  void sleep_until(time_point when) {
    asleep_until_.reset();
    sleeper_->expires_at(when);
    sleeper_->async_wait(turn(weak_from_this()));
    asleep_until_ = when;
  }

  // The end of a sleep, in the strand.
  class turn {
   public:
    using executor_type = net::strand<net::any_io_executor>;

    explicit turn(std::weak_ptr<driver_core> of) : core_(std::move(of)), executor_(*core_.lock()->turns_) {}

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

    void operator()(const error_code& error) const {
      if (const std::shared_ptr<driver_core> self = core_.lock(); self != nullptr && !error) {
        self->drive();
      }
    }

   private:
    std::weak_ptr<driver_core> core_;
    executor_type executor_;
  };

  void drive() {
    asleep_until_.reset();
    BOOST_TRY { timer_.run_due(budget); }
    BOOST_CATCH(...) {
      // Without memory nothing is lost: another try.
      sleep_until(time_point::clock::now() + std::chrono::milliseconds(1));
      return;
    }
    BOOST_CATCH_END
    look();
  }

  std::mutex mutex_;  // guards that `turns_` is there; posting takes Asio's locks under it, and runs nobody's code
  std::optional<net::strand<net::any_io_executor>> turns_;
  std::atomic<bool> look_posted_ = false;  // acq_rel: who finds it set is seen by the look that clears it

  // In the strand, and `close`.
  std::optional<net::steady_timer> sleeper_;
  std::optional<time_point> asleep_until_;

  loop_timer timer_;  // goes first: it waits for an `on_earlier`
};

}  // namespace detail
/// \endcond

/// Runs a `loop_timer` on an execution context, without a thread of its own: one `steady_timer` of Asio's sleeps until
/// the next event of the wheel, however many timers there are.
///
///     boost::asio::io_context context;
///     timing_wheel::asio::loop_driver driver(context, {.tick = 1ms});
///     timing_wheel::asio::use_timer(context, driver.timer());
///
/// Callbacks of `driver.timer()` run on the context, in a strand. While one is pending, `io_context::run()` goes on, as
/// with a `steady_timer` that waits; when the last wait of a wheel timer is cancelled or has ended, it returns. A timer
/// that was scheduled on `driver.timer()` directly and then cancelled may keep it until its old deadline.
///
/// The driver may go before or after the context, which keeps what it needs. What is left on its timer then is dropped.
///
/// Thread safety: as `loop_timer`; but `next_event` and `run_due` are the driver's, and not to be called.
class loop_driver {
 public:
  /// On an executor. Of `options.shards`, 0 stands for one.
  /// \throws timer_error (`invalid_option`); std::bad_alloc; what Asio throws if it can make no timer.
  explicit loop_driver(const detail::net::any_io_executor& executor, timer_options options = {}) {
    if (options.shards == 0) {
      options.shards = 1;
    }
    core_ = std::make_shared<detail::driver_core>(executor, options);
    detail::net::use_service<wheel_service>(detail::context_of(executor)).keep(core_->timer(), core_);
  }
  /// On an `io_context`, or another context.
  // clang-format off
  template <class Context>
    requires std::derived_from<Context, detail::net::execution_context>
  explicit loop_driver(Context& context, timer_options options = {})
      : loop_driver(detail::net::any_io_executor(context.get_executor()), std::move(options)) {}
  // clang-format on
  loop_driver(const loop_driver&) = delete;
  loop_driver& operator=(const loop_driver&) = delete;
  ~loop_driver() = default;

  /// The service that it drives: for `use_timer`, and for callbacks of your own.
  [[nodiscard]] loop_timer& timer() const noexcept { return core_->timer(); }

 private:
  std::shared_ptr<detail::driver_core> core_;
};

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
