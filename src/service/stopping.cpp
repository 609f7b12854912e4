#include "service/stopping.hpp"

#include <optional>

#include "service/run_frame.hpp"

namespace timing_wheel::detail {

bool stopping::is_inside() const noexcept { return run_frame::is_called_by(&context_); }

std::vector<pending_task> stopping::take_the_rest() {
  if (context_.process.is_child()) {
    return {};
  }
  shards_.enter(phase::closed);
  std::vector<pending_task> left;
  left.reserve(shards_.pending());  // none can come any more, so that taking them out allocates nothing
  for (const auto& s : shards_) {
    s->take(left);
  }
  end();
  return left;
}

std::size_t stopping::run_the_rest() {
  if (context_.process.is_child() || run_frame::is_in(&context_, doing::run_now)) {
    return 0;
  }
  const run_frame frame(&context_, doing::run_now);
  shards_.enter(phase::draining);
  std::size_t ran = 0;
  for (const auto& s : shards_) {
    ran += s->run_all();
    if (context_.process.is_child()) {
      return ran;
    }
  }
  // Another `stop`, if there is one, takes what could not run any more.
  shards_.enter(phase::closed);
  end();
  return ran;
}

std::vector<pending_task> stopping::drain(time_point until) {
  if (context_.process.is_child() || run_frame::is_in(&context_, doing::drain) ||
      run_frame::is_in(&context_, doing::run_now)) {
    return {};
  }
  shards_.enter(phase::draining);
  {
    const run_frame frame(&context_, doing::drain);
    drive_until_idle(until);
  }
  return take_the_rest();
}

// Goes on, refusing timers, until nothing is pending, or until a time. \pre draining.
void stopping::drive_until_idle(time_point until) {
  const auto poll = [&] { poller_.poll(until, [this] { return driver_.is_over() || shards_.pending() == 0; }); };
  if (context_.clock.by_hand()) {
    std::optional<driver::seat> mine;
    if (!driver_.is_me()) {
      mine.emplace(driver_, driver::seat::or_wait{});
    }
    driver_.run_until(until);
    if (shards_.pending() != 0) {
      context_.clock.move_to(until);
    }
  } else if (driver_.is_me()) {
    poll();
  } else if (poller_.has_thread()) {
    for (const auto& s : shards_) {
      s->wait_for_all(until);
    }
  } else {
    const driver::seat mine(driver_, driver::seat::or_wait{});
    poll();
    for (const auto& s : shards_) {
      s->wait_for_all(until);  // what an executor runs
    }
  }
}

// Ends the driver. \pre closed.
void stopping::end() noexcept {
  driver_.end();
  context_.sleeper.wake();
  if (!is_inside()) {
    wait();
  }
}

// Waits until nobody drives, and no callback runs. \pre closed; not from a callback.
void stopping::wait() noexcept {
  driver_.wait_until_free();
  poller_.join();
  for (const auto& s : shards_) {
    s->wait_for_runs();
  }
}

void stopping::retire() noexcept {
  for (const auto& s : shards_) {
    s->retire();
  }
  context_.retire();
}

void stopping::destroy() noexcept {
  const bool inside = is_inside();
  orphaned_.store(inside, std::memory_order_relaxed);
  shards_.enter(phase::closed);
  for (const auto& s : shards_) {
    s->discard();
  }
  end();
  if (inside) {
    poller_.detach();
  } else {
    retire();
  }
}

void stopping::bury() noexcept {
  if (!orphaned_.load(std::memory_order_relaxed)) {
    return;
  }
  if (is_inside()) {
    for (const auto& s : shards_) {
      s->retire_later();
    }
    return;
  }
  for (const auto& s : shards_) {
    s->wait_for_runs();
  }
  retire();
}

}  // namespace timing_wheel::detail
