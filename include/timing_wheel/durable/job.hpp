#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// One run of a check: what a handler gets.
///
/// A leased run holds its row on a lease, which is extended for it as long as it lasts. Thread safety: it is only read.
class job {
 public:
  /// What it is made of. A user gets it from the scheduler, and makes one only to test a handler alone.
  struct parts {
    std::string kind = {};     ///< As it was scheduled.
    std::string key = {};      ///< As it was scheduled.
    std::string payload = {};  ///< As it was scheduled.
    instant due = {};          ///< Its deadline.
    int attempt = 1;           ///< 1 for the first claim.
    std::int64_t fence = 0;    ///< See `job::fence`.
  };
  /// A run with these parts.
  explicit job(parts all, std::stop_token stop = {}) : parts_(std::move(all)), stop_(std::move(stop)) {}

  [[nodiscard]] const std::string& kind() const noexcept { return parts_.kind; }        ///< As it was scheduled.
  [[nodiscard]] const std::string& key() const noexcept { return parts_.key; }          ///< As it was scheduled.
  [[nodiscard]] const std::string& payload() const noexcept { return parts_.payload; }  ///< As it was scheduled.
  /// When this run was to begin, by the database's clock.
  [[nodiscard]] instant due() const noexcept { return parts_.due; }
  [[nodiscard]] int attempt() const noexcept { return parts_.attempt; }  ///< 1 for the first claim.
  /// Rises with each run of a check, on whatever node, undone runs included, and over all checks that ever have this
  /// kind and key. It is the number in the row. Hand it to what the handler changes. If that refuses a fence below the
  /// highest that it has seen, a run that has lost its lease does no harm. If a transaction is undone because the
  /// server dies (in SQLite, for another process: if it is undone), the fences that it has drawn may be drawn again, in
  /// any order.
  [[nodiscard]] std::int64_t fence() const noexcept { return parts_.fence; }
  /// A stop is requested when the lease was lost, and when the scheduler stops. What waits for it is called on the
  /// thread that extends leases, or on that of the scheduler: it must not block.
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }

 private:
  parts parts_;
  std::stop_token stop_;
};

/// How a run ended. A handler that returns nothing means `done`; one that throws means `retry`.
class outcome {
 public:
  /// What is to become of the check.
  enum class verdict : std::uint8_t {
    done,   ///< It is over.
    retry,  ///< It runs again, after a delay; or it is dead, after `handler_options::max_attempts` runs.
    dead,   ///< It is given up, and kept among the dead with the reason.
  };

  /// Over.
  outcome() noexcept = default;
  /// \cond
  outcome(verdict what, std::chrono::microseconds delay, std::string reason)
      : verdict_(what), delay_(delay), reason_(std::move(reason)) {}
  /// \endcond

  [[nodiscard]] verdict what() const noexcept { return verdict_; }  ///< What is to become of it.
  /// After how long to retry; negative: as the back-off of the kind says.
  [[nodiscard]] std::chrono::microseconds delay() const noexcept { return delay_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }  ///< What went wrong.

 private:
  verdict verdict_ = verdict::done;
  std::chrono::microseconds delay_{-1};
  std::string reason_;
};

/// The check is over.
inline const outcome done{};
/// The check runs again, `delay` from now; at once if it is not positive. What is longer than 292 years counts as that.
template <class Rep, class Period>
[[nodiscard]] outcome retry_after(std::chrono::duration<Rep, Period> delay,
                                  std::string reason = "retry was asked for") {
  const std::chrono::microseconds wait = saturating_microseconds(delay);
  return {outcome::verdict::retry, wait < wait.zero() ? wait.zero() : wait, std::move(reason)};
}
/// The check runs again after a back-off.
[[nodiscard]] inline outcome retry(std::string reason) {
  return {outcome::verdict::retry, std::chrono::microseconds(-1), std::move(reason)};
}
/// The check is given up.
[[nodiscard]] inline outcome dead(std::string reason) {
  return {outcome::verdict::dead, std::chrono::microseconds(-1), std::move(reason)};
}

/// How long to wait before the next run: `first` after the first run, `factor` times as long after each further one,
/// and `most` at most. Up to a share of `jitter` is left out, at random, so that what failed together does not come
/// back together. `first` is in [0, `most`], `factor` is at least 1, and `jitter` in [0, 1]. `most` may be
/// `std::chrono::milliseconds::max()`: no limit. What is longer than 292 years counts as that.
struct backoff {
  std::chrono::milliseconds first = std::chrono::seconds(1);  ///< After the first run.
  double factor = 2;                                          ///< From one wait to the next.
  std::chrono::milliseconds most = std::chrono::minutes(10);  ///< The longest wait.
  double jitter = 0.2;                                        ///< The share that may be left out.
};

/// How the checks of a kind are run.
struct handler_options {
  /// Runs at a time on this node, at least 1. Of no meaning to a transactional handler, which runs alone.
  std::size_t max_running = std::numeric_limits<std::size_t>::max();
  /// After so many runs without a `done`, the check is dead. At least 1.
  ///
  /// A leased run that ended without a word counts: with its process, or its lease. So does a claim that waited in the
  /// queue of a process that died: nobody knows which runs had begun. Such an end makes a check dead after its third
  /// run at the earliest, also if fewer are allowed. From the second run on it makes the check a suspect, until a run
  /// asks for a retry. A node claims one suspect at a time. So a check whose runs all end so has one beside no other
  /// suspect.
  int max_attempts = 20;
  /// Between the runs.
  durable::backoff backoff = {};
};

/// Runs one job, on a lease. At least once; what it does should be idempotent, or honour `job::fence`.
using leased_handler = std::function<outcome(const job&)>;
/// Runs one job within a transaction: what it writes through the connection and the end of the job commit together, or
/// not at all. Only `done` keeps what it wrote. It may begin after a `cancelled`, if its node stood still before it for
/// so long that the server has undone its transaction; then its SQL fails. So what it tells others is not undone.
using transactional_handler = std::function<outcome(transaction&, const job&)>;
/// Runs several jobs within a transaction. If it throws, all is undone, and each job is given to it alone.
using batch_handler = std::function<void(transaction&, std::span<const job>)>;

}  // namespace timing_wheel::durable
