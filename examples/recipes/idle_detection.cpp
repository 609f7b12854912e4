// A session ends after thirty seconds without a message. Each message moves the one timer of the session: a touch,
// O(1).

#include "story.hpp"

using namespace std::chrono_literals;

class session {
 public:
  explicit session(timing_wheel::manual_timer& timer)
      : timer_(timer), idle_(timer.schedule_after(patience, [this] { at(timer_) << "idle for 30 s: logged out\n"; })) {}

  void message() {
    const bool open = idle_.reschedule_after(patience);
    at(timer_) << (open ? "message\n" : "message: please log in again\n");
  }

 private:
  static constexpr auto patience = 30s;

  timing_wheel::manual_timer& timer_;
  timing_wheel::timer_handle idle_;
};

int main() {
  timing_wheel::manual_timer timer;
  session visit(timer);
  for (const auto silence : {10s, 29s, 25s, 45s}) {
    timer.advance_by(silence);
    visit.message();
  }
}
