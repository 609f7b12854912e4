#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable::postgres {

/// What the server's clock shows, without asking it each time: the clock of an answer, and the time since it came. So it
/// is never ahead of the server's, and behind it by as long as that answer took. Who claims too early is refused by the
/// server anyway.
///
/// The best answer of about a second counts. Thread safety: any thread; relaxed, since each number is of use alone.
class server_clock {
 public:
  /// Takes the clock of an answer that has just come.
  void saw(instant shown) {
    const std::int64_t here = here_now();
    const std::int64_t offset = shown.time_since_epoch().count() - here;
    if (here - seen_.load(std::memory_order_relaxed) > lifetime || offset > offset_.load(std::memory_order_relaxed)) {
      offset_.store(offset, std::memory_order_relaxed);
      seen_.store(here, std::memory_order_relaxed);
    }
  }
  /// None if it is time to ask.
  [[nodiscard]] std::optional<instant> now() const {
    const std::int64_t here = here_now();
    if (here - seen_.load(std::memory_order_relaxed) > lifetime) {
      return std::nullopt;
    }
    return instant(std::chrono::microseconds(here + offset_.load(std::memory_order_relaxed)));
  }

 private:
  static constexpr std::int64_t lifetime = 1'000'000;

  static std::int64_t here_now() {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  std::atomic<std::int64_t> offset_{0};
  std::atomic<std::int64_t> seen_{-2 * lifetime};  // by the clock here
};

}  // namespace timing_wheel::durable::postgres
