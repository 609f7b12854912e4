// The lock of an Asio timer, and three threads.
//
// right:
// file: include/timing_wheel/detail/asio/states.hpp
// cut: `class state_mutex {` to `};`
// with: `int tries = 16` -> `int tries = 0`
// wrong: `(open, std::memory_order_seq_cst)` -> `(open, std::memory_order_release)`: it looks early
// wrong: `(open, std::memory_order_seq_cst)` -> `(open, std::memory_order_relaxed)`: nothing is published
// wrong: `(contended, std::memory_order_acquire)` -> `(contended, std::memory_order_relaxed)`: it sees nothing
#include <thread>

#include "checker.hpp"

namespace {

#include "cut_1.hpp"

state_mutex mutex;
int inside = 0;

void locks_once() {
  const std::lock_guard lock(mutex);
  ++inside;
}

}  // namespace

int main() {
  if (checker::all_ended<locks_once, locks_once, locks_once>()) {
    expect(inside == 3);
  }
}
