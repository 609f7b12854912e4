// An order reserves stock, and half an hour later a check gives back what was not paid. Paying cancels the check.

#include <map>

#include "story.hpp"

using namespace std::chrono_literals;
using timing_wheel::cancel_result;

class shop {
 public:
  explicit shop(timing_wheel::manual_timer& timer) : timer_(timer) {}

  void order(int id, int units) {
    stock_ -= units;
    at(timer_) << "order " << id << " reserves " << units << ", stock " << stock_ << '\n';
    checks_[id] = timer_.schedule_after(30min, [this, id, units] {
      stock_ += units;
      at(timer_) << "order " << id << " was not paid, stock " << stock_ << '\n';
    });
  }

  void pay(int id) {
    const bool in_time = checks_[id].cancel() == cancel_result::cancelled;
    at(timer_) << "order " << id << (in_time ? " is paid\n" : " is paid too late: the money is sent back\n");
  }

 private:
  timing_wheel::manual_timer& timer_;
  std::map<int, timing_wheel::timer_handle> checks_;
  int stock_ = 10;
};

int main() {
  timing_wheel::manual_timer timer;
  shop books(timer);
  books.order(1, 3);
  books.order(2, 4);
  timer.advance_by(10min);
  books.pay(1);
  books.order(3, 2);
  timer.advance_by(25min);
  books.pay(2);
  timer.advance_by(10min);
}
