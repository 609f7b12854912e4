#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <boost/core/no_exceptions_support.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/states.hpp"
#include "timing_wheel/loop_timer.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {
namespace detail {

/// A loop_timer, and a steady_timer that sleeps until its next event: what is behind a `loop_driver`.
///
/// Thread safety: what is public, any thread; what is private, in the strand, unless it says otherwise.
class driver_core final : public wheel_driver, public std::enable_shared_from_this<driver_core> {
 public:
  driver_core(const net::any_io_executor& executor, const timer_options& options)
      : strand_(std::in_place, executor), sleeper_(std::in_place, executor), timer_(options, [this] { look_later(); }) {
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
    strand_.reset();
  }

 private:
  // How many callbacks run before the context has its turn again.
  static constexpr std::size_t budget = 1024;

  // From any thread. If nothing can be posted, that is thrown, and nobody relies on it: another call waits for the lock
  // until this one has posted a look, or has not. A look is posted beside the strand: a strand whose own executor
  // throws when it is to begin would never run again.
  void look_later() {
    const std::lock_guard lock(mutex_);
    if (look_posted_ || !strand_) {
      return;  // the one that was posted has not begun, and will see what is new
    }
    net::post(strand_->get_inner_executor(), [weak = weak_from_this()] {
      if (const std::shared_ptr<driver_core> self = weak.lock()) {
        self->begin_to_look();
      }
    });
    look_posted_ = true;
  }

  // On a thread of the context.
  void begin_to_look() {
    std::optional<net::strand<net::any_io_executor>> strand;
    {
      const std::lock_guard lock(mutex_);
      look_posted_ = false;
      strand = strand_;
    }
    if (!strand) {
      return;
    }
    BOOST_TRY {
      net::dispatch(*strand, [self = shared_from_this()] { self->look(); });
    }
    BOOST_CATCH(...) { look_later(); }
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
    sleeper_->async_wait(end_of_sleep(weak_from_this()));
    asleep_until_ = when;
  }

  // The end of a sleep, in the strand.
  class end_of_sleep {
   public:
    using executor_type = net::strand<net::any_io_executor>;

    explicit end_of_sleep(std::weak_ptr<driver_core> of) : core_(std::move(of)), executor_(*core_.lock()->strand_) {}

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

  // Guards `look_posted_`, and that `strand_` is there. Posting takes Asio's locks under it, and runs nobody's code.
  std::mutex mutex_;
  std::optional<net::strand<net::any_io_executor>> strand_;
  bool look_posted_ = false;

  // In the strand, and `close`.
  std::optional<net::steady_timer> sleeper_;
  std::optional<time_point> asleep_until_;

  loop_timer timer_;  // goes first: it waits for an `on_earlier`
};

}  // namespace detail

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
