#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <memory>
#include <utility>

#include "timing_wheel/asio/wheel_service.hpp"
#include "timing_wheel/detail/asio/driver.hpp"
#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/states.hpp"
#include "timing_wheel/loop_timer.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// Runs a `loop_timer` on an execution context, without a thread of its own: one `steady_timer` of Asio's sleeps until
/// the next event of the wheel, however many timers there are.
///
///     boost::asio::io_context context;
///     timing_wheel::asio::loop_driver driver(context, {.tick = 1ms});
///     timing_wheel::asio::use_timer(context, driver.timer());
///
/// Callbacks of `driver.timer()` run on the context, in a strand. `io_context::run()` goes on while a timer is pending,
/// as with a `steady_timer` that waits, and returns when the last wait of a wheel timer has ended or was cancelled. If
/// you schedule a timer on `driver.timer()` directly and cancel it, `run()` may go on until the old deadline.
///
/// The driver may be destroyed before or after the context, which keeps what it needs. Timers that are pending then are
/// dropped.
///
/// Thread safety: as `loop_timer`. Only the driver calls `next_event` and `run_due`.
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

  /// The timer that it drives: for `use_timer`, and for callbacks of your own.
  [[nodiscard]] loop_timer& timer() const noexcept { return core_->timer(); }

 private:
  std::shared_ptr<detail::driver_core> core_;
};

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
