// The poller's sleep, or with DRAIN that of a loop's thread in a drain, and two callers that add a timer each.
//
// right:
// right: DRAIN
// file: src/drive/driver.cpp
// same: `sleeper_.announce(next);\n    if (shards_.next_event() < next) {\n      sleeper_.retract();`
// file: src/shard/context.hpp
// same: `if (driver.waits_past(event)) {\n      wake_driver(event, driver);`
// same: `if (driver.answer_for(event)) {\n      driver.nudge();`
// wrong: LOOKS_FIRST: it announces its sleep after its last look
// wrong: DRAIN LOOKS_FIRST: the same, in a drain
// file: src/system/sleeper.hpp
// wrong: `const auto is_woken` -> `woken_ = false; const auto is_woken`: a wake-up that came before the sleep is lost
#include "system/sleeper.hpp"

#include <algorithm>

namespace {

using timing_wheel::tick;
constexpr tick last = 1;  // the earliest, for which it looks

timing_wheel::detail::sleeper sleeper;
std::mutex shard;
tick first_event = 9;  // guarded by it

tick next_event() {
  const std::lock_guard lock(shard);
  return first_event;
}

void drives() {
  for (tick next = next_event(); next != last; next = next_event()) {
#ifdef LOOKS_FIRST
    const bool is_late = next_event() < next;
    sleeper.announce(next);
#else
    sleeper.announce(next);
    const bool is_late = next_event() < next;
#endif
    if (is_late) {
      sleeper.retract();
    } else {
      sleeper.sleep(timing_wheel::time_point::max());
    }
  }
}

template <tick Event>
void adds() {
  {
    const std::lock_guard lock(shard);
    first_event = std::min(first_event, Event);
  }
  if (sleeper.waits_past(Event)) {
#ifndef DRAIN
    sleeper.wake();
#else
    if (sleeper.answer_for(Event)) {
      sleeper.nudge();
    }
#endif
  }
}

}  // namespace

int main() { checker::all_ended<drives, adds<last>, adds<last + 1>>(); }
