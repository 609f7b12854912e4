#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/states.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// What the wheel timers of one execution context share: a `timing_wheel::timer`. The `wheel_service` is a
/// service in the sense of Asio: each context makes its own at the first use, and destroys it at the context's end.
///
/// The first wait of a context makes the timer, with a tick of a millisecond and a thread of its own. Before that,
/// `use_timer` may give the context another timer, for instance that of a `loop_driver`. The destructor of a context
/// destroys the waits that are left, and calls none of their handlers. If a wait of the context began before the
/// destructor, the destructor also destroys the waits that begin while the destructor runs.
///
/// Thread safety: every member may be called from any thread.
class wheel_service : public detail::net::execution_context::service {
 public:
  /// By this Asio finds the service.
  TIMING_WHEEL_EXPORT inline static detail::net::execution_context::id id;

  /// For Asio: use `use_service<wheel_service>(context)`.
  explicit wheel_service(detail::net::execution_context& context) : service(context) {}
  wheel_service(const wheel_service&) = delete;
  wheel_service& operator=(const wheel_service&) = delete;
  ~wheel_service() override = default;

  /// The timer of this context, for instance for its `stats()`. Makes the timer if there is none yet.
  /// \throws as the constructor of `timing_wheel::timer`.
  [[nodiscard]] timing_wheel::timer& wheel() { return timers().wheel(); }

  /// \cond
  // From now on, waits are on `wheel`. Fails if the context has a timer already.
  void use(timing_wheel::timer& wheel) {
    const std::lock_guard lock(mutex_);
    if (timers_ != nullptr) {
      refuse_second();
    }
    std::shared_ptr<detail::wheel_driver> driver;
    for (const driven& one : drivers_) {
      if (one.wheel == &wheel) {
        driver = one.driver;
      }
    }
    timers_ = detail::registry::make(wheel, std::move(driver));
  }

  // Keeps `driver` until the context is destroyed, so that `shutdown` can close the driver: the driver has to release
  // the objects of the context while the context still exists.
  void keep(timing_wheel::timer& wheel, std::shared_ptr<detail::wheel_driver> driver) {
    const std::lock_guard lock(mutex_);
    drivers_.push_back({&wheel, std::move(driver)});
  }

  [[nodiscard]] detail::registry& timers() {
    const std::lock_guard lock(mutex_);
    if (timers_ == nullptr) {
      own_.emplace();
      timers_ = detail::registry::make(*own_, nullptr);
    }
    return *timers_;
  }
  /// \endcond

 private:
  struct driven {
    timing_wheel::timer* wheel;
    std::shared_ptr<detail::wheel_driver> driver;
  };

  void shutdown() noexcept override {
    detail::registry* timers = nullptr;
    {
      const std::lock_guard lock(mutex_);
      timers = timers_.get();
    }
    if (timers != nullptr) {
      timers->close();
    }
    for (const driven& one : drivers_) {
      one.driver->close();
    }
    own_.reset();  // its thread ends here, and not when the context is half gone
  }

  [[noreturn]] static void refuse_second() {
#ifdef __cpp_exceptions
    throw timer_error(timer_errc::invalid_option, "use_timer after the first wait, or again, in one context");
#else
    std::abort();
#endif
  }

  std::mutex mutex_;  // guards what follows, until `shutdown`; held while `own_` is made, which has locks of its own
  std::vector<driven> drivers_;
  std::optional<timing_wheel::timer> own_;
  detail::registry::owner timers_;  // set once, by `use` or `timers`
};

/// Lets the wheel timers of `context` wait on `wheel`: a timer of yours with other options, or that of a `loop_driver`.
/// Several contexts may share it. Call this before the first wait of the context. `wheel` should outlive the context.
/// If `wheel` is stopped or destroyed earlier, the waits end with `timer_errc::stopped`; after its destruction, begin
/// no new wait.
/// \throws timer_error (`invalid_option`) after the first wait, or if called again; std::bad_alloc. Thread safety: any
/// thread.
inline void use_timer(detail::net::execution_context& context, timing_wheel::timer& wheel) {
  detail::net::use_service<wheel_service>(context).use(wheel);
}

/// The error with which a wait ends if the wheel refuses it, to compare with what the handler got. The category is that
/// of `timing_wheel::make_error_code`, in the error type of this Asio. A lack of memory is `error::no_memory`.
///
/// Example: `if (error == to_error_code(timer_errc::stopped)) return;`
[[nodiscard]] inline detail::error_code to_error_code(timer_errc why) noexcept { return detail::error_of(why); }

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
