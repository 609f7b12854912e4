// Each request has a timer that its reply cancels. The answer of `cancel` decides who came first, the reply or the
// timeout.

#include <map>

#include "story.hpp"

using namespace std::chrono_literals;
using timing_wheel::cancel_result;

class client {
 public:
  explicit client(timing_wheel::manual_timer& timer) : timer_(timer) {}

  void send(int id) {
    at(timer_) << "request " << id << " is sent\n";
    timeouts_[id] = timer_.schedule_after(2s, [this, id] { at(timer_) << "request " << id << " has timed out\n"; });
  }

  void receive(int id) {
    const bool in_time = timeouts_[id].cancel() == cancel_result::cancelled;
    at(timer_) << "reply " << id << (in_time ? " came in time\n" : " came too late, and is thrown away\n");
    timeouts_.erase(id);
  }

 private:
  timing_wheel::manual_timer& timer_;
  std::map<int, timing_wheel::timer_handle> timeouts_;
};

int main() {
  timing_wheel::manual_timer timer;
  client shop(timer);
  shop.send(1);
  shop.send(2);
  timer.advance_by(500ms);
  shop.receive(1);
  timer.advance_by(3s);
  shop.receive(2);
}
