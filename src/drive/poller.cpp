#include "drive/poller.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "system/thread_setup.hpp"
#include "system/timer_slack.hpp"

namespace timing_wheel::detail {

namespace {

/// How long the poller waits for memory when a cascade found none.
constexpr std::chrono::milliseconds memory_retry{1};

}  // namespace

// Who ends it sets the flag first, and then wakes. The loop sees the flag, or the wake-up.
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
  const signals_blocked while_starting;
  std::string name = "timing_wheel";
  if (number != 0) {
    name += std::to_string(number);
  }
  has_thread_ = true;
  thread_ = std::thread([this, kept = std::move(owner), name = std::move(name), prepare = std::move(prepare)] {
    name_this_thread(name.c_str());
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
