#pragma once

#include <trantor/net/EventLoop.h>
#include <trantor/net/callbacks.h>

#include <chrono>
#include <memory>

namespace trantor {

// NOLINTBEGIN(readability-identifier-naming): all names are trantor's, which calls them.

using TimePoint = std::chrono::steady_clock::time_point;
using TimeInterval = std::chrono::microseconds;

/// The timers of a trantor::EventLoop, on a `loop_timer`. It takes the place of trantor's own class of that name: see
/// docs/coming_from/brpc_and_trantor.md. It must not be larger than that one, for which a trantor that is installed
/// allocates the memory.
///
/// Thread safety: `addTimer` and `invalidateTimer` may be called on any thread, the rest on the loop's.
class TimerQueue {
 public:
  explicit TimerQueue(EventLoop* loop);
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  /// Calls `callback` on the loop's thread at `when`; and then again an `interval` after each call, unless that is 0.
  TimerId addTimer(const TimerCallback& callback, const TimePoint& when, const TimeInterval& interval);
  TimerId addTimer(TimerCallback&& callback, const TimePoint& when, const TimeInterval& interval);

  /// A timer that has ended, or never was, is left alone.
  void invalidateTimer(TimerId id);

  /// In a child of `fork`, before the loop runs: the timers go on there.
  void reset();

 private:
  class on_wheel;
  std::unique_ptr<on_wheel> wheel_;
};

// NOLINTEND(readability-identifier-naming)

}  // namespace trantor
