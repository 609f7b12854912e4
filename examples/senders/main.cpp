// Senders that sleep: a time-out in virtual time, and a loop with a clock. Nothing here but senders.hpp is about the
// library of senders: use your own.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <system_error>
#include <thread>
#include <timing_wheel/execution.hpp>
#include <timing_wheel/timing_wheel.hpp>

#include "senders.hpp"

using namespace std::chrono_literals;

namespace {

using sleep_scheduler = timing_wheel::execution::scheduler<senders::library>;

// snippet time_out
auto ask(sleep_scheduler wheel, std::chrono::seconds latency) {
  const auto answer = senders::then(wheel.schedule_after(latency), [] { return 200; });  // a server that takes its time
  const auto late = senders::then(wheel.schedule_after(5s), [] { return 408; });
  return senders::when_any<int>(answer, late);  // the other one is stopped, and its timer cancelled at once
}
// end

// snippet loop
/// A `run_loop` that has a clock: what its scheduler schedules completes on the thread in `run`.
class run_loop {
 public:
  sleep_scheduler get_scheduler() noexcept { return sleep_scheduler(timer_); }

  /// Runs what is due, until `finish` is called.
  void run() {
    for (;;) {
      timer_.run_due();
      const auto next = timer_.next_event();
      std::unique_lock lock(mutex_);
      const auto woken = [this] { return earlier_ || finished_; };
      if (next) {
        wake_.wait_until(lock, *next, woken);
      } else {
        wake_.wait(lock, woken);
      }
      earlier_ = false;
      if (finished_) {
        return;
      }
    }
  }
  void finish() { tell(finished_); }

 private:
  void tell(bool& what) {
    const std::lock_guard lock(mutex_);
    what = true;
    wake_.notify_one();
  }

  std::mutex mutex_;  // guards the two
  std::condition_variable wake_;
  bool earlier_ = false;
  bool finished_ = false;
  timing_wheel::loop_timer timer_{{}, [this] { tell(earlier_); }};
};
// end

/// Prints how a question ended.
struct print_status {
  timing_wheel::timer* clock;

  void set_value(int status) const noexcept { at() << "status " << status << ", " << pending() << " pending\n"; }
  void set_error(std::error_code error) const noexcept { at() << error.message() << '\n'; }
  void set_stopped() const noexcept { at() << "stopped\n"; }

 private:
  std::ostream& at() const { return std::cout << clock->now().time_since_epoch() / 1s << " s: "; }
  [[nodiscard]] std::uint64_t pending() const { return clock->stats().pending; }
};

}  // namespace

int main() {
  timing_wheel::manual_timer timer;
  const sleep_scheduler wheel(timer);
  auto quick = ask(wheel, 2s).connect(print_status{&timer});
  auto slow = ask(wheel, 1h).connect(print_status{&timer});
  quick.start();
  timer.advance_by(1min);
  slow.start();
  timer.advance_by(1min);

  run_loop loop;
  std::jthread runs([&] { loop.run(); });
  const auto is_there = [&] { return std::this_thread::get_id() == runs.get_id(); };
  std::cout << std::boolalpha << *senders::sync_wait<bool>(senders::then(loop.get_scheduler().schedule(), is_there))
            << ": at once, on the thread of the loop\n"
            << *senders::sync_wait<bool>(senders::then(loop.get_scheduler().schedule_after(10ms), is_there))
            << ": 10 ms later\n";
  loop.finish();
}
