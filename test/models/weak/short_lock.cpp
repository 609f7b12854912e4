// The lock of a shard. Two threads lock it; where one sleeps, the other one passes the barrier at the place PLACE.
//
// right: PLACE=1
// right: PLACE=2
// right: PLACE=3
// right: PLACE=4
// file: src/system/short_lock.hpp
// with: `short_lock() noexcept { prepare_process_barrier(); }` -> `constexpr short_lock() {}`
// with: `__builtin_ia32_pause();` -> `;`
// with: `int rounds = 24` -> `int rounds = 0`
// with: `std::atomic_signal_fence(std::memory_order_seq_cst);` -> `checker::interrupt(2);`
// with: `epoch_.fetch_add(1,` -> `checker::interrupt(3), epoch_.fetch_add(1,`
// wrong: PLACE=1: `(open, std::memory_order_release)` -> `(open, std::memory_order_relaxed)`: nothing is published
// wrong: PLACE=1: `taken, std::memory_order_acquire,` -> `taken, std::memory_order_relaxed,`: a lock sees nothing
// wrong: PLACE=2: `will_be_woken = pass_process_barrier()` -> `will_be_woken = true`: a sleeper needs no barrier
// wrong: PLACE=1: `1, std::memory_order_seq_cst)` -> `1, std::memory_order_acq_rel)`: it looks early
#include "system/short_lock.hpp"

namespace {

timing_wheel::detail::short_lock lock;
int inside = 0;  // whoever is there without the other's writes is in a race

void locks_once() {
  lock.lock();
  ++inside;
  checker::interrupt(1);
  lock.unlock();
  checker::interrupt(4);
}

}  // namespace

int main() {
  if (checker::all_ended<locks_once, locks_once>()) {
    expect(inside == 2);
  }
}
