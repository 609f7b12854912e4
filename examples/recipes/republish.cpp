// A message is published again every ten seconds until it is acknowledged, or has been published four times.

#include <map>

#include "story.hpp"

using namespace std::chrono_literals;

class publisher {
 public:
  explicit publisher(timing_wheel::manual_timer& timer) : timer_(timer) {}

  void publish(int id) {
    at(timer_) << "message " << id << " is published\n";
    again_.emplace(id, timer_.schedule_every(10s, [this, id, times = 1]() mutable {
      if (++times <= 4) {
        at(timer_) << "message " << id << " is published again\n";
      } else {
        at(timer_) << "message " << id << " goes to the dead letters\n";
        forget(id);
      }
    }));
  }

  void acknowledge(int id) {
    at(timer_) << "message " << id << " is acknowledged\n";
    forget(id);
  }

 private:
  void forget(int id) {
    again_.at(id).cancel();
    again_.erase(id);
  }

  timing_wheel::manual_timer& timer_;
  std::map<int, timing_wheel::timer_handle> again_;
};

int main() {
  timing_wheel::manual_timer timer;
  publisher news(timer);
  news.publish(1);
  news.publish(2);
  timer.advance_by(14s);
  news.acknowledge(1);
  timer.advance_by(1h);
}
