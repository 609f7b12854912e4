#include "drive/driver.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "shared/thread_setup.hpp"
#include "system/timer_slack.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::detail {

// One turn of each shard. \returns whether all had the memory that they needed.
inline bool driver::take_turns(tick now, time_point until, std::size_t budget, turns& sum) {
  bool has_memory = true;
  for (std::size_t turn = 0; turn < shards_.size(); ++turn) {
    const std::size_t place = first_ + turn;
    try {
      shards_[place < shards_.size() ? place : place - shards_.size()].due().run_due(now, until, budget, sum);
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
    if (context_.process.is_child()) {
      return true;
    }
  }
  return has_memory;
}

turns driver::run_due(tick now, time_point until, std::size_t budget) {
  turns sum;
  for (;;) {
    sum.more = false;
    if (!take_turns(now, until, budget, sum)) {
      throw std::bad_alloc();
    }
    if (!sum.more) {
      return sum;
    }
    if (sum.ran >= budget || sum.handled >= budget || is_over() || context_.process.is_child() ||
        has_come(until, context_.clock.now())) {
      first_ = first_ + 1 < shards_.size() ? first_ + 1 : 0;  // else one that is always due would starve the others
      return sum;
    }
    now = current_tick();
  }
}

std::size_t driver::run_through(tick last) {
  tick now = current_tick();
  std::size_t ran = run_due(now, time_point::max()).ran;
  for (tick next = shards_.next_event(); next <= last; next = shards_.next_event()) {
    now = std::max(now, next);  // 0 means at once
    context_.clock.move_to(context_.scale.begin_of(now));
    ran += run_due(now, time_point::max()).ran;
  }
  return ran;
}

driver::seat::seat(driver& d, or_throw /*how*/) : driver_(d) {
  if (d.taken_.exchange(true, std::memory_order_acquire)) {
    throw timer_error(timer_errc::nested_advance);
  }
  d.set_me();
}

driver::seat::seat(driver& d, or_wait /*how*/) : driver_(d) {
  std::unique_lock lock(d.mutex_);
  d.freed_.wait(lock, [&d] { return !d.taken_.exchange(true, std::memory_order_acquire); });
  d.set_me();
}

driver::seat::~seat() {
  driver_.set_none();
  const std::lock_guard lock(driver_.mutex_);  // so that a thread that waits for the end finds us done
  driver_.taken_.store(false, std::memory_order_release);
  driver_.freed_.notify_all();
}

void driver::wait_until_free() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return !taken_.load(std::memory_order_relaxed); });
}

// ---- The loop that sleeps ----

namespace {

/// How long the poller waits for memory when a cascade found none.
constexpr std::chrono::milliseconds memory_retry{1};

}  // namespace

// A thread that ends the loop sets the flag first, and then wakes it. The loop sees the flag, or the wake-up.
void poller::poll(time_point until, const std::function<bool()>& is_over) noexcept {
  bool slept_to_the_end = false;
  while (!is_over()) {
    const std::size_t handled = run_due(until);
    if (context_.process.is_child()) {
      return;  // a callback has forked, and returned in the child
    }
    if (handled == 0 && slept_to_the_end) {
      sleeper_.count_empty();
    }
    if (has_come(until, context_.clock.now())) {
      return;
    }
    const tick next = shards_.next_event();
    slept_to_the_end = false;
    if (next <= driver_.current_tick() || is_over()) {
      continue;
    }
    sleeper_.announce(next);
    if (shards_.next_event() < next) {
      sleeper_.retract();
      continue;
    }
    slept_to_the_end = sleeper_.sleep(std::min(context_.scale.begin_of(next), until));
  }
}

std::size_t poller::run_due(time_point until) noexcept {
  try {
    return driver_.run_due(until).handled;
  } catch (const std::bad_alloc&) {
    std::this_thread::sleep_for(memory_retry);
    return 1;
  }
}

void poller::start(std::shared_ptr<void> owner, std::uint32_t number, std::function<void()> prepare) {
  std::string name = "timing_wheel";
  if (number != 0) {
    name += std::to_string(number);
  }
  has_thread_ = true;
  thread_ = start_named_thread(std::move(name), [this, kept = std::move(owner), prepare = std::move(prepare)] {
    limit_timer_slack(context_.scale.tick_length());
    driver_.set_me();
    prepare();
    poll(time_point::max(), [this] { return driver_.is_over(); });
    driver_.set_none();  // the system may give this thread's number to another one
    // In a child of `fork` this is the last thread, and with it the child ends.
  });
}

void poller::join() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void poller::detach() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && thread_.joinable()) {
    thread_.detach();
  }
}

}  // namespace timing_wheel::detail
