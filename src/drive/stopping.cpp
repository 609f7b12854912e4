#include "drive/stopping.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "shard/run_frame.hpp"

namespace timing_wheel::detail {

bool stopping::is_inside() const noexcept { return run_frame::is_called_by(&context_); }

std::vector<pending_task> stopping::take_the_rest() {
  if (context_.process.is_child()) {
    return {};
  }
  enter(phase::closed);
  std::vector<pending_task> left;
  left.reserve(shards_.pending());  // none can come any more, so that taking them out allocates nothing
  for (shard* const s : shards_) {
    s->remove_pending(left);
  }
  end();
  return left;
}

std::size_t stopping::discard_the_rest() {
  if (context_.process.is_child()) {
    return 0;
  }
  enter(phase::closed);
  std::size_t dropped = 0;
  for (shard* const s : shards_) {
    dropped += s->discard();
  }
  end();
  return dropped;
}

std::size_t stopping::run_the_rest() {
  if (context_.process.is_child() || run_frame::is_in(&context_, doing::run_now)) {
    return 0;
  }
  const run_frame frame(&context_, doing::run_now);
  enter(phase::draining);
  std::size_t ran = 0;
  for (shard* const s : shards_) {
    ran += s->due().run_all();
    if (context_.process.is_child()) {
      return ran;
    }
  }
  // Another `stop`, if there is one, takes what could not run any more.
  enter(phase::closed);
  end();
  return ran;
}

std::vector<pending_task> stopping::drain(time_point until) {
  if (context_.process.is_child() || run_frame::is_in(&context_, doing::drain) ||
      run_frame::is_in(&context_, doing::run_now)) {
    return {};
  }
  enter(phase::draining);
  {
    const run_frame frame(&context_, doing::drain);
    drive_until_idle(until);
  }
  return take_the_rest();
}

void stopping::enter(phase next) noexcept {
  for (shard* const s : shards_) {
    s->enter(next);
  }
}

lane* stopping::lane_of_this_thread() const noexcept {
  const auto mine = std::find_if(lanes_.begin(), lanes_.end(), [](const lane& l) { return l.drive.is_me(); });
  return mine == lanes_.end() ? nullptr : &*mine;
}

// Goes on, refusing timers, until nothing is pending, or until a time. \pre draining.
//
// A thread that drives a lane goes on with it first, and then waits for the others, whose own drivers go on. None can
// become pending any more; so a lane that is empty stays so, and two drivers that drain do not wait for each other.
void stopping::drive_until_idle(time_point until) {
  const auto poll = [until](lane& one) {
    one.thread.poll(until, [&one] { return one.drive.is_over() || one.mine.pending() == 0; });
  };
  const auto wait_for_all = [&] {
    for (shard* const s : shards_) {
      s->wait_for_all(until);
    }
  };
  lane* const mine = lane_of_this_thread();
  if (context_.clock.by_hand()) {
    lane& only = lanes_.front();
    std::optional<driver::seat> taken;
    if (mine == nullptr) {
      taken.emplace(only.drive, driver::seat::or_wait{});
    }
    if (until > context_.clock.now()) {
      const tick last_before = context_.scale.ceil(until) - 1;
      only.drive.run_through(std::min(last_before, context_.scale.floor(until)));  // the former may lie past all time
    }
    if (shards_.pending() != 0) {
      context_.clock.move_to(until);
    }
  } else if (mine != nullptr) {
    poll(*mine);
    if (!context_.process.is_child()) {
      wait_for_all();
    }
  } else if (lanes_.front().thread.has_thread()) {
    wait_for_all();
  } else {
    lane& only = lanes_.front();
    const driver::seat taken(only.drive, driver::seat::or_wait{});
    poll(only);
    wait_for_all();  // what an executor runs
  }
}

// Ends the drivers. \pre closed.
void stopping::end() noexcept {
  for (lane& one : lanes_) {
    one.drive.finish();
  }
  for (sleeper& one : context_.sleepers) {
    one.wake();
  }
  if (!is_inside()) {
    wait();
  }
}

// Waits until nobody drives, and no callback runs. \pre closed; not from a callback.
void stopping::wait() noexcept {
  for (lane& one : lanes_) {
    one.drive.wait_until_free();
    one.thread.join();
  }
  for (shard* const s : shards_) {
    s->wait_for_runs();
  }
}

void stopping::retire() noexcept {
  for (shard* const s : shards_) {
    s->retire();
  }
  context_.retire();
}

void stopping::destroy() noexcept {
  const bool still_used = run_frame::is_in(&context_);
  orphaned_.store(still_used, std::memory_order_relaxed);
  enter(phase::closed);
  for (shard* const s : shards_) {
    try {
      s->discard();
    } catch (const std::bad_alloc&) {
      continue;  // they go with the rest in `retire`
    }
  }
  end();
  if (is_inside()) {
    for (lane& one : lanes_) {
      one.thread.detach();
    }
  }
  if (!still_used) {
    retire();
  }
}

void stopping::bury() noexcept {
  if (!orphaned_.load(std::memory_order_relaxed)) {
    return;
  }
  if (run_frame::is_in(&context_)) {
    for (shard* const s : shards_) {
      s->retire_later();
    }
    return;
  }
  for (shard* const s : shards_) {
    s->wait_for_runs();
  }
  retire();
}

}  // namespace timing_wheel::detail
