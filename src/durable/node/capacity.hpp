#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "durable/node/run_queue.hpp"
#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// How much a node may ask for at once.
struct allowance {
  std::size_t rows = 0;   ///< At most.
  std::size_t bytes = 0;  ///< Of payloads, at most; but the first row always passes if nothing is held.
  std::size_t threads = std::numeric_limits<std::size_t>::max();  ///< So many rows pass, whatever they take.
  std::chrono::microseconds time{};                               ///< What the others may take, all together.
  std::chrono::microseconds short_run{};  ///< One that takes no longer passes also if the time that is left is shorter.
  std::span<const std::chrono::microseconds> costs = {};  ///< What a row of each kind takes.
  bool took_bytes = false;                                ///< A row that has a payload was counted.

  /// What a row of the kind takes: an hour if nobody knows. Nothing without `costs`.
  [[nodiscard]] std::chrono::microseconds cost_of(std::uint32_t kind) const noexcept;
  /// Whether a payload of that size may still be asked for. \param no_bytes nothing that is held has a payload.
  [[nodiscard]] bool fits(std::size_t size, bool no_bytes) const noexcept { return size <= bytes || no_bytes; }
  /// Counts a row of that kind, if it may still be asked for. \pre its payload fits.
  [[nodiscard]] bool admit(std::uint32_t kind, std::size_t size) noexcept;
};

/// How many leased checks a node claims: only what begins soon. What it claims beyond that, no other node can run, and
/// nobody can cancel.
///
/// A claim takes a round trip to the store. Meanwhile threads must not go idle; so there should be as much work in the
/// queue as they do in about that time: by Little's law, rate times round trip. The rate is not the one of the last
/// second, which would be low after a pause, but what the threads can do: a run of each kind **costs** the mean of the
/// last 128 to 256 runs; or what the last two took, if both took longer. One run that the system held up tells little,
/// and two that are slow tell that all of them are now. So a node claims, at a time,
///
/// 1. a row for each thread that is free, whatever it costs: also of a kind that has not run yet;
/// 2. as long as all of it costs no more than the threads that come free soon can do in two round trips, more. A thread
///    whose run began more than two round trips ago is not expected to come free so soon;
/// 3. or, if that is more, as much as takes another run of each thread whose run costs no more than a quarter of
///    `patience`, and has not taken twice as long: it begins in time, and the thread does not wait for a claim.
///
/// | two threads, a round trip of 1 ms: each run takes | wait at most | |
/// |---|---|---|
/// | 2 us | 2 000, which is more than a batch | the threads do not wait for claims |
/// | 1 ms | 4 | |
/// | 10 ms | 2 | |
/// | 1 s, or for ever | 0 | a thread that comes free waits for a round trip, a thousandth of 1 s |
///
/// An executor has threads that nobody counts. So their number is guessed: 1 at first, and twice as many each time that
/// all of it run. If a run waits for too long, the guess is halved, but to no less than what runs; a second later it
/// may rise again.
///
/// A run that waits all the same, since others take longer than those before, goes back after `patience`. The thread
/// that was asked for it is still on its way; until it comes, nothing is claimed.
///
/// Source: J. D. C. Little, "A Proof for the Queuing Formula L = λW", Operations Research 9 (1961).
///
/// Thread safety: as a plain object.
class capacity {
 public:
  /// \param threads how many there are; none if an executor has them. At least 1.
  capacity(std::size_t kinds, std::optional<std::size_t> threads);

  /// A claim, or an end, took that long.
  void took(std::chrono::microseconds round_trip) noexcept;
  /// A run of a kind took that long.
  void ran(std::uint32_t kind, std::chrono::microseconds time) noexcept;

  /// What may be asked for now: at most `rows`. It says nothing of bytes.
  [[nodiscard]] allowance now(const run_queue& runs, instant now, std::size_t rows) noexcept;
  /// A run has waited for too long, while so many others ran.
  void was_late(std::size_t running, instant now) noexcept;
  /// How long a claimed run may wait for a thread.
  [[nodiscard]] std::chrono::microseconds patience() const noexcept;

 private:
  struct past_runs {
    std::int64_t count = 0;
    std::chrono::microseconds time{};  // of them all
    std::chrono::microseconds last{};
  };
  [[nodiscard]] std::chrono::microseconds horizon() const noexcept { return 2 * (round_trip_ + deviation_); }
  [[nodiscard]] std::size_t guess(std::size_t running, instant now) noexcept;

  const std::optional<std::size_t> threads_;
  std::size_t guess_ = 1;                // of an executor's threads
  instant sure_until_ = instant::min();  // of that guess
  std::chrono::microseconds round_trip_;
  std::chrono::microseconds deviation_{};         // of round trips from it
  std::vector<past_runs> runs_;                   // by kind
  std::vector<std::chrono::microseconds> costs_;  // by kind; the longest if none has run
};

}  // namespace timing_wheel::durable
