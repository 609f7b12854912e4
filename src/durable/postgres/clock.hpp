#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

#include "durable/store/boot_clock.hpp"

namespace timing_wheel::durable::postgres {

/// What the server's clock shows, without asking it each time: the clock of an answer, and the time since it came. So
/// it is never ahead of the server's, and behind it by as long as the quickest answer took. A node that claims too
/// early is refused by the server anyway.
///
/// It is never behind what an answer has shown, so a row that was claimed as due is due by it, too. A slow answer sets
/// it back by no more than two clocks may drift apart, unless it is so much that the server's clock was set, or is
/// another server's.
///
/// Thread safety: any thread.
class server_clock {
 public:
  using local_clock = std::chrono::nanoseconds (*)() noexcept;
  /// \param here what tells how much time has passed: it never goes back.
  explicit server_clock(local_clock here = time_since_boot) : here_(here) {}

  /// Takes the clock of an answer that has just come.
  void saw(instant shown) {
    const std::int64_t here = here_now();
    const std::int64_t offset = shown.time_since_epoch().count() - here;
    const std::scoped_lock lock(mutex_);
    const std::int64_t seen = seen_.load(std::memory_order_relaxed);
    const std::int64_t known = offset_.load(std::memory_order_relaxed);
    const bool was_set = seen == never || offset < known - set_back;
    const std::int64_t least = was_set ? offset : known - (here - seen) / drift;
    offset_.store(std::max(offset, least), std::memory_order_relaxed);
    seen_.store(here, std::memory_order_release);  // so a thread that sees it sees an offset
  }
  /// None if it has not been seen for long.
  [[nodiscard]] std::optional<instant> now() const {
    if (here_now() - seen_.load(std::memory_order_acquire) > lifetime) {
      return std::nullopt;
    }
    return last_guess();
  }
  /// The server did not answer: go on with what is known, if anything is. \returns whether it is.
  bool go_on() {
    const std::scoped_lock lock(mutex_);
    const bool known = seen_.load(std::memory_order_relaxed) != never;
    if (known) {
      seen_.store(here_now(), std::memory_order_release);
    }
    return known;
  }
  /// The same as `now`, however long ago it was seen; if never, a time that means nothing.
  [[nodiscard]] instant last_guess() const {
    return instant(std::chrono::microseconds(here_now() + offset_.load(std::memory_order_relaxed)));
  }

 private:
  // In microseconds.
  static constexpr std::int64_t lifetime = 60'000'000;
  static constexpr std::int64_t set_back = 1'000'000;  // answers are quicker, as a rule
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min() / 2;
  // One in so many: ten times what the clocks of computers do.
  static constexpr std::int64_t drift = 1'000;

  [[nodiscard]] std::int64_t here_now() const { return std::chrono::floor<std::chrono::microseconds>(here_()).count(); }

  const local_clock here_;
  std::mutex mutex_;  // for threads that change them; a reader needs no more than one of them
  std::atomic<std::int64_t> offset_{0};
  std::atomic<std::int64_t> seen_{never};  // when an answer came, by the clock here
};

}  // namespace timing_wheel::durable::postgres
