#pragma once

#include <cstddef>

#include "measurement.hpp"
#include "peers/virtual_time.hpp"
#include "workload.hpp"

namespace timing_wheel::bench {

/// What the timers of all event loops do alike. `Loop` derives from this, and has `arm`, `cancel`, and `poll`, which
/// calls `fire` for each timer that is due.
template <class Loop>
class loop_timers {
 public:
  std::size_t advance(tick by, delays* again) {
    virtual_time::pass(by);
    again_ = again;
    fired_ = 0;
    static_cast<Loop*>(this)->poll();
    return fired_;
  }

  [[nodiscard]] std::size_t bytes() const { return heap_.grown(); }

  void fire(timer_number s, payload& data) {
    ++fired_;
    ++data.fired;
    if (again_ != nullptr) {
      static_cast<Loop*>(this)->arm(s, again_->next());
    }
  }

 private:
  heap_watch heap_;
  delays* again_ = nullptr;
  std::size_t fired_ = 0;
};

}  // namespace timing_wheel::bench
