#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable::postgres {

/// What the server's clock shows, without asking it each time: the clock of an answer, and the time since it came. So it
/// is never ahead of the server's, and behind it by as long as that answer took. Who claims too early is refused by the
/// server anyway.
///
/// The best answer of about a second counts. It does not go back while the server's does not: a row that was claimed as
/// due is due by it, too. Thread safety: any thread; relaxed, since each number is of use alone.
class server_clock {
 public:
  /// Takes the clock of an answer that has just come.
  void saw(instant shown) {
    const std::int64_t here = here_now();
    const std::int64_t clock = shown.time_since_epoch().count();
    const std::int64_t offset = clock - here;
    const bool old = here - seen_.load(std::memory_order_relaxed) > best_of;
    if (old || offset > offset_.load(std::memory_order_relaxed)) {
      offset_.store(offset, std::memory_order_relaxed);
      seen_.store(here, std::memory_order_relaxed);
    }
    const std::int64_t latest = latest_.load(std::memory_order_relaxed);
    if (clock > latest || clock < latest - set_back) {
      latest_.store(clock, std::memory_order_relaxed);
    }
  }
  /// None if it has not been seen for long.
  [[nodiscard]] std::optional<instant> now() const {
    if (here_now() - seen_.load(std::memory_order_relaxed) > lifetime) {
      return std::nullopt;
    }
    return guess();
  }
  /// The server did not answer: go on with what is known, if anything is. \returns whether it is.
  bool go_on() {
    const bool known = seen_.load(std::memory_order_relaxed) != never;
    if (known) {
      seen_.store(here_now(), std::memory_order_relaxed);
    }
    return known;
  }
  /// The same as `now`, however long ago it was seen; none if never.
  [[nodiscard]] std::optional<instant> last_guess() const {
    return seen_.load(std::memory_order_relaxed) == never ? std::nullopt : std::optional(guess());
  }

 private:
  // In microseconds.
  static constexpr std::int64_t best_of = 1'000'000;
  static constexpr std::int64_t lifetime = 60'000'000;  // clocks differ by a millisecond then
  static constexpr std::int64_t set_back = 1'000'000;   // more than an answer is late
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min() / 2;

  static std::int64_t here_now() {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  [[nodiscard]] instant guess() const {
    const std::int64_t guessed = here_now() + offset_.load(std::memory_order_relaxed);
    return instant(std::chrono::microseconds(std::max(guessed, latest_.load(std::memory_order_relaxed))));
  }

  std::atomic<std::int64_t> offset_{0};
  std::atomic<std::int64_t> seen_{never};    // when the offset was, by the clock here
  std::atomic<std::int64_t> latest_{never};  // that the server has shown
};

}  // namespace timing_wheel::durable::postgres
