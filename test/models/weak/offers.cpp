// The driver begins two offers, while a thread with the lock of the shard withdraws the first, or waits for its end.
//
// right:
// file: src/shard/runner.hpp
// same: `if (timers_.has_waiting()) {\n        settle();`
// file: src/shard/shard_on.hpp
// cut: `[[nodiscard]] bool has_waiting()` to `; }`
// cut: `void wait(std::unique_lock<short_lock>& lock, Done done)` to `  }`
// wrong: `waiting_.load(std::memory_order_seq_cst)` -> `waiting_.load(std::memory_order_acquire)`: it looks early
// file: src/core/offers.hpp
// wrong: `(ended), std::memory_order_seq_cst` -> `(ended), std::memory_order_acq_rel`: it looks early
// wrong: `(ended), std::memory_order_seq_cst` -> `(ended), std::memory_order_relaxed`: a beginning publishes no time
// wrong: `word_.load(std::memory_order_seq_cst)` -> `word_.load(std::memory_order_acquire)`: who waits looks early
// wrong: `if ((seen & begun_bit(place)) != 0) {` -> `if (false) {`: the driver begins what was withdrawn
#include "core/offers.hpp"

#include <condition_variable>

#include "system/same_build.cpp"

namespace {

using timing_wheel::time_point;
using timing_wheel::detail::offers;
using short_lock = std::mutex;
constexpr time_point begin_of_first(std::chrono::nanoseconds(7));

struct guarded_core {
#include "cut_1.hpp"
  template <class Done>
#include "cut_2.hpp"
  std::atomic<std::size_t> waiting_{0};
  std::condition_variable changed_;
};

offers offered;
guarded_core timers;
short_lock shard;
int node = 0;  // of the first: the driver's between its beginning and its end, and then the lock's

void drives() {
  unsigned ended = offers::nowhere;
  if (offered.begin(0, begin_of_first, ended)) {
    node += 1;
    ended = 0;
  }
  if (offered.begin(1, begin_of_first, ended) && timers.has_waiting()) {
    const std::lock_guard lock(shard);
    timers.changed_.notify_all();
  }
}

void cancels() {
  std::unique_lock lock(shard);
  if (offered.withdraw(0)) {
    node += 2;
    return;
  }
  bool is_over = false;
  timers.wait(lock, [&] {
    const offers::steps news = offered.news();
    expect((news.begun & 1) == 0 || offered.begun_at(0) == begin_of_first);
    return is_over = is_over || (news.ended & 1) != 0;
  });
  node += 4;
}

}  // namespace

int main() {
  if (checker::all_ended<drives, cancels>()) {
    expect(node == 1 + 4 || node == 2);
  }
}
