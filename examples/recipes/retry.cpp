// A request that fails is tried again after 1, 2, 4 and 8 seconds; then it is given up.

#include <string>
#include <utility>

#include "story.hpp"

using namespace std::chrono_literals;

class request {
 public:
  request(timing_wheel::manual_timer& timer, std::string name, int succeeds_at)
      : timer_(timer), name_(std::move(name)), succeeds_at_(succeeds_at) {}

  void attempt() {
    if (++attempts_ == succeeds_at_) {
      at(timer_) << name_ << ": done, attempt " << attempts_ << '\n';
    } else if (attempts_ == most_attempts) {
      at(timer_) << name_ << ": given up\n";
    } else {
      at(timer_) << name_ << ": failed, again in " << wait_ / 1s << " s\n";
      timer_.schedule_after(wait_, [this] { attempt(); });
      wait_ *= 2;
    }
  }

 private:
  static constexpr int most_attempts = 5;

  timing_wheel::manual_timer& timer_;
  std::string name_;
  int succeeds_at_;
  int attempts_ = 0;
  std::chrono::seconds wait_ = 1s;
};

int main() {
  timing_wheel::manual_timer timer;
  request refund(timer, "refund", 3);
  request invoice(timer, "invoice", 99);
  refund.attempt();
  invoice.attempt();
  timer.advance_by(1min);
}
