// Where each timer lies, tick by tick, on a hierarchical wheel of 8 slots: what docs/pictures/wheel_at_work.svg shows.
//
// The engine tells when its earliest bucket expires, and what has moved. So each timer is put on a wheel of its own,
// where that is said of it alone.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <timing_wheel/engine/hierarchical_wheel.hpp>
#include <utility>
#include <vector>

using timing_wheel::hierarchical_wheel;
using timing_wheel::tick;

namespace {

constexpr std::uint32_t slots = 8;
constexpr tick end = 32;

struct timer {
  tick inserted;
  tick deadline;
  std::unique_ptr<hierarchical_wheel> alone;
};

// "5 on wheel 0 in slot 5": which wheel follows from how many there are, and what has left the upper one.
void print(const timer& one) {
  const timing_wheel::engine_stats stats = one.alone->stats();
  std::size_t wheel = stats.levels.size() - 1;
  while (wheel > 0 && stats.levels[wheel].moves > 0) {
    --wheel;
  }
  const tick expiration = one.alone->next_expiration().value();
  const tick slot = expiration / stats.levels[wheel].tick_length % stats.levels[wheel].wheel_size;
  std::cout << "  " << one.deadline << " on wheel " << wheel << " in slot " << slot << '\n';
}

}  // namespace

int main() {
  const std::vector<std::pair<tick, tick>> times{{0, 3},   {0, 6},   {0, 13},  {0, 22},  {0, 29},
                                                 {2, 5},   {3, 7},   {4, 27},  {5, 14},  {9, 11},
                                                 {10, 50}, {12, 18}, {17, 20}, {24, 28}, {26, 34}};
  std::vector<timer> timers;
  timers.reserve(times.size());
  for (const auto& [inserted, deadline] : times) {
    timers.push_back({inserted, deadline, std::make_unique<hierarchical_wheel>(timing_wheel::engine_options{slots})});
  }
  for (tick now = 0; now <= end; ++now) {
    std::cout << "tick " << now << '\n';
    for (const timer& one : timers) {
      if (one.inserted > now) {
        continue;
      }
      for (const timing_wheel::timer_number due : one.alone->advance(now).due) {
        static_cast<void>(due);
        std::cout << "  " << one.deadline << " is due\n";
      }
      if (one.inserted == now) {
        one.alone->insert(0, one.deadline);
      }
      if (one.alone->size() != 0) {
        print(one);
      }
    }
  }
}
