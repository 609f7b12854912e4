// The other side of the heartbeat: each one touches the timer of its node. Three seconds of silence: suspected; ten:
// dead.

#include <map>
#include <string>

#include "story.hpp"

using namespace std::chrono_literals;

class cluster {
 public:
  explicit cluster(timing_wheel::manual_timer& timer) : timer_(timer) {}

  void heartbeat(const std::string& name) {
    node& n = nodes_[name];
    if (n.suspected || !n.silence.reschedule_after(3s)) {
      at(timer_) << name << " is there\n";
      n.silence.cancel();
      n = {timer_.schedule_after(3s, [this, name] { suspect(name); })};
    }
  }

 private:
  struct node {
    timing_wheel::timer_handle silence;
    bool suspected = false;
  };

  void suspect(const std::string& name) {
    at(timer_) << name << " is suspected\n";
    nodes_[name] = {timer_.schedule_after(7s, [this, name] { at(timer_) << name << " is dead\n"; }), true};
  }

  timing_wheel::manual_timer& timer_;
  std::map<std::string, node> nodes_;
};

int main() {
  timing_wheel::manual_timer timer;
  cluster nodes(timer);
  for (int second = 0; second < 20; ++second) {
    nodes.heartbeat("anna");
    if (second < 4 || second == 9) {
      nodes.heartbeat("bert");
    }
    timer.advance_by(1s);
  }
}
