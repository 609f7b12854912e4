// At most three calls at once, then one every half second (a token bucket). The timer is armed only while somebody
// waits.

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "story.hpp"

using namespace std::chrono_literals;

class flow_control {
 public:
  explicit flow_control(timing_wheel::manual_timer& timer) : timer_(timer) {}

  void submit(std::function<void()> call) {
    waiting_.push(std::move(call));
    serve();
  }

 private:
  static constexpr auto period = 500ms;
  static constexpr auto burst = 3;

  void serve() {
    while (!waiting_.empty() && full_at_ - timer_.now() <= (burst - 1) * period) {
      full_at_ = std::max(full_at_, timer_.now()) + period;  // each call takes a token, which is back a period later
      const auto call = std::move(waiting_.front());
      waiting_.pop();
      call();
    }
    if (!waiting_.empty() && next_.status() != timing_wheel::timer_status::pending) {
      next_ = timer_.schedule_at(full_at_ - (burst - 1) * period, [this] { serve(); });
    }
  }

  timing_wheel::manual_timer& timer_;
  timing_wheel::time_point full_at_;
  std::queue<std::function<void()>> waiting_;
  timing_wheel::timer_handle next_;
};

int main() {
  timing_wheel::manual_timer timer;
  flow_control limit(timer);
  const auto call = [&](int id) { limit.submit([&, id] { at(timer) << "call " << id << " goes out\n"; }); };
  for (const int id : {1, 2, 3, 4, 5, 6}) {
    call(id);
  }
  timer.advance_by(10s);
  call(7);
  call(8);
  at(timer) << timer.pending() << " timers pending\n";
}
