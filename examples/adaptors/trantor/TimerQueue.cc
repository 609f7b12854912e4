#include "TimerQueue.h"

#include <sys/timerfd.h>
#include <trantor/net/Channel.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <timing_wheel/timing_wheel.hpp>
#include <utility>

namespace trantor {

using namespace std::chrono_literals;

class TimerQueue::on_wheel {
 public:
  explicit on_wheel(EventLoop* loop) : loop_(loop) {
    watch();
    arm();  // from now on, on_earlier is called
  }
  ~on_wheel() { close(alarm_); }
  on_wheel(const on_wheel&) = delete;
  on_wheel& operator=(const on_wheel&) = delete;

  [[nodiscard]] timing_wheel::timer& timer() noexcept { return timer_; }

  void go_on_after_fork() {
    channel_->disableAll();
    channel_->remove();
    close(alarm_);
    watch();
    timer_.continue_after_fork();
    arm();
  }

 private:
  void watch() {
    alarm_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (alarm_ < 0) {
      throw std::system_error(errno, std::generic_category(), "timerfd_create");
    }
    channel_.emplace(loop_, alarm_);
    channel_->setReadCallback([this] { on_alarm(); });
    channel_->enableReading();
  }

  void on_alarm() {
    std::uint64_t unused = 0;
    if (read(alarm_, &unused, sizeof unused) != sizeof unused) {
      return;  // armed anew meanwhile
    }
    timer_.run_due();
    arm();
    if (thrown_) {
      std::rethrow_exception(std::exchange(thrown_, nullptr));
    }
  }

  /// All zero would disarm: that is for "nothing is pending".
  void arm() noexcept {
    itimerspec when{};
    if (const auto next = timer_.next_event()) {
      const std::chrono::nanoseconds at = std::max(next->time_since_epoch(), 1ns);
      when.it_value.tv_sec = at / 1s;
      when.it_value.tv_nsec = (at % 1s).count();
    }
    timerfd_settime(alarm_, TFD_TIMER_ABSTIME, &when, nullptr);
  }

  EventLoop* loop_;
  int alarm_ = -1;
  std::optional<Channel> channel_;
  std::exception_ptr thrown_;  ///< By the first callback that did, of those that were due together.
  timing_wheel::loop_timer timer_{
      {.on_error = [this](const std::exception_ptr& failure,
                          std::uint64_t /*tag*/) { thrown_ = thrown_ ? thrown_ : failure; }},
      [this]() noexcept { loop_->runInLoop([this] { arm(); }); }};
};

TimerQueue::TimerQueue(EventLoop* loop) : wheel_(std::make_unique<on_wheel>(loop)) {}
TimerQueue::~TimerQueue() = default;

TimerId TimerQueue::addTimer(const TimerCallback& callback, const TimePoint& when, const TimeInterval& interval) {
  return addTimer(TimerCallback(callback), when, interval);
}

TimerId TimerQueue::addTimer(TimerCallback&& callback, const TimePoint& when, const TimeInterval& interval) {
  timing_wheel::timer& timer = wheel_->timer();
  return interval > 0us ? timer.schedule_every(interval, std::move(callback)).key()
                        : timer.schedule_at(when, std::move(callback)).key();
}

void TimerQueue::invalidateTimer(TimerId id) { wheel_->timer().cancel(id); }

void TimerQueue::reset() { wheel_->go_on_after_fork(); }

}  // namespace trantor
