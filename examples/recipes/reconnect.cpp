// A lost connection is made again: at once, then after 1, 2, 4, 5, 5, ... seconds. Whoever closes it cancels the
// attempt to come.

#include <algorithm>

#include "story.hpp"

using namespace std::chrono_literals;

class connection {
 public:
  explicit connection(timing_wheel::manual_timer& timer) : timer_(timer) {}

  void lost() {
    at(timer_) << "connection lost\n";
    wait_ = 0s;
    connect_later();
  }

  void close() { at(timer_) << "closed; the attempt to come: " << attempt_.cancel() << '\n'; }

  bool server_is_up = false;

 private:
  void connect_later() {
    attempt_ = timer_.schedule_after(wait_, [this] { connect(); });
    wait_ = std::clamp<std::chrono::seconds>(2 * wait_, 1s, 5s);
  }

  void connect() {
    at(timer_) << (server_is_up ? "connected\n" : "no answer\n");
    if (!server_is_up) {
      connect_later();
    }
  }

  timing_wheel::manual_timer& timer_;
  timing_wheel::timer_handle attempt_;
  std::chrono::seconds wait_ = 0s;
};

int main() {
  timing_wheel::manual_timer timer;
  connection line(timer);
  line.lost();
  timer.schedule_after(15s, [&] { line.server_is_up = true; });
  timer.advance_by(30s);
  line.server_is_up = false;
  line.lost();
  timer.advance_by(4s);
  line.close();
  timer.advance_by(1h);
}
