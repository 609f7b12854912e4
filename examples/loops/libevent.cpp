// A loop_timer in a libevent loop. A time-out wakes the loop for the next event, and another thread that has scheduled
// something before it makes an event active. Sockets would be further events of the same base.

#include <event2/event.h>
#include <event2/thread.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <timing_wheel/timing_wheel.hpp>

#include "story.hpp"

using namespace std::chrono_literals;

class libevent_loop {
 public:
  [[nodiscard]] timing_wheel::timer& timer() noexcept { return timer_; }

  void run() {
    arm();
    event_base_loop(base_.get(), EVLOOP_NO_EXIT_ON_EMPTY);
  }
  void stop() noexcept { event_base_loopbreak(base_.get()); }

 private:
  using event_pointer = std::unique_ptr<event, decltype(&event_free)>;

  /// For both events. At most 64 callbacks, so that the sockets have their turn. libevent is C: what this throws ends
  /// the program.
  static void on_event(evutil_socket_t /*unused*/, short /*unused*/, void* self) noexcept {
    auto& mine = *static_cast<libevent_loop*>(self);
    mine.timer_.run_due(64);
    mine.arm();
  }

  /// In microseconds, rounded up.
  void arm() {
    const auto next = timer_.next_event();
    if (!next) {
      evtimer_del(alarm_.get());
      return;
    }
    event_base_update_cache_time(base_.get());
    const auto delay = std::chrono::ceil<std::chrono::microseconds>(std::max(*next - timer_.now(), 0ns));
    const timeval time_out{.tv_sec = delay / 1s, .tv_usec = (delay % 1s).count()};
    evtimer_add(alarm_.get(), &time_out);
  }

  /// Without the locks of evthread_use_pthreads, no other thread may make an event active.
  std::unique_ptr<event_base, decltype(&event_base_free)> base_{
      evthread_use_pthreads() == 0 ? event_base_new() : nullptr, &event_base_free};
  event_pointer alarm_{evtimer_new(base_.get(), on_event, this), &event_free};
  event_pointer wake_up_{event_new(base_.get(), -1, 0, on_event, this), &event_free};
  timing_wheel::loop_timer timer_{{}, [this] { event_active(wake_up_.get(), 0, 0); }};
};

int main() {
  libevent_loop loop;
  tell_story(loop);
}
