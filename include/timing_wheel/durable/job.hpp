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

/// One run of a check, as its handler gets it.
///
/// A **leased** run holds its row by a **lease**. Until the lease ends, no other node may run the check. The scheduler
/// extends the lease as long as the handler runs, unless it gives the run up (`handler_options::time_limit`). Thread
/// safety: several threads may read a job.
class job {
 public:
  /// What a job is made of. The scheduler makes jobs; you make one only to test a handler alone.
  struct parts {
    std::string kind = {};     ///< As it was scheduled.
    std::string key = {};      ///< As it was scheduled.
    std::string payload = {};  ///< As it was scheduled.
    instant due = {};          ///< Its deadline.
    int attempt = 1;           ///< 1 for the first claim.
    std::int64_t fence = 0;    ///< See `job::fence`.
    std::int64_t id = 0;       ///< See `job::id`.
  };
  /// Makes a job of these parts.
  explicit job(parts all, std::stop_token stop = {}) : parts_(std::move(all)), stop_(std::move(stop)) {}

  [[nodiscard]] const std::string& kind() const noexcept { return parts_.kind; }        ///< As it was scheduled.
  [[nodiscard]] const std::string& key() const noexcept { return parts_.key; }          ///< As it was scheduled.
  [[nodiscard]] const std::string& payload() const noexcept { return parts_.payload; }  ///< As it was scheduled.
  /// When this run was to begin, by the database's clock.
  [[nodiscard]] instant due() const noexcept { return parts_.due; }
  [[nodiscard]] int attempt() const noexcept { return parts_.attempt; }  ///< 1 for the first claim.
  /// In a leased handler: a number that is higher in each run than in all runs before it, on any node, of all checks
  /// that ever have this kind and key. The row has the same number.
  ///
  /// A leased handler hands the fence to the system that it changes. If that system refuses a fence below the highest
  /// one that it has seen, a run that has lost its lease does no harm:
  ///
  /// | the receiver sees | and |
  /// |---|---|
  /// | fence 7 of node A, which then stands still | accepts it: 7 is the highest |
  /// | fence 8 of node B, which has run the check after A's lease ended | accepts it |
  /// | fence 7 of node A again, which goes on | refuses it |
  ///
  /// A transactional handler must not hand its fence on. Its transaction may be undone. If the server dies then (in
  /// SQLite, if the process dies, or another process draws a fence), later runs may draw the same fences again, in any
  /// order.
  [[nodiscard]] std::int64_t fence() const noexcept { return parts_.fence; }
  /// The number of the row in its store. All runs of a check have the same number. A later check with the same key has
  /// another one, and so has a dead check that somebody has revived. So a receiver that has done its work for this
  /// number need not do it again, unless a `request::replace` has given the check another payload: that keeps the
  /// number. 0 in a job that you have made, unless you set it.
  [[nodiscard]] std::int64_t id() const noexcept { return parts_.id; }
  /// If the lease is lost, the run takes longer than its `handler_options::time_limit`, or the scheduler stops, a stop
  /// is requested. The thread that extends leases, or the scheduler's thread, calls a `std::stop_callback` on this
  /// token, so it must not block.
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }

 private:
  parts parts_;
  std::stop_token stop_;
};

/// How a run ended. A handler that returns nothing means `done`; a handler that throws means `retry`.
class outcome {
 public:
  /// What is to become of the check.
  enum class verdict : std::uint8_t {
    done,    ///< The check is over.
    retry,   ///< The check runs again, after a delay. After `handler_options::max_attempts` runs it is dead.
    dead,    ///< The check is given up. The store keeps it among the dead, with the reason.
    snooze,  ///< The check runs again, after a delay, as if this run had not been.
  };

  /// The check is over.
  outcome() noexcept = default;
  /// \cond
  outcome(verdict what, std::chrono::microseconds delay, std::string reason)
      : verdict_(what), delay_(delay), reason_(std::move(reason)) {}
  /// \endcond

  [[nodiscard]] verdict what() const noexcept { return verdict_; }  ///< What is to become of the check.
  /// After how long to run again. Negative: the back-off of the kind decides.
  [[nodiscard]] std::chrono::microseconds delay() const noexcept { return delay_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }  ///< What went wrong.

 private:
  verdict verdict_ = verdict::done;
  std::chrono::microseconds delay_{-1};
  std::string reason_;
};

/// The check is over.
inline const outcome done{};
/// The check runs again `delay` from now. If `delay` is not positive, it runs again at once; a delay of more than 292
/// years counts as 292 years.
template <class Rep, class Period>
[[nodiscard]] outcome retry_after(std::chrono::duration<Rep, Period> delay,
                                  std::string reason = "retry was asked for") {
  const std::chrono::microseconds wait = saturating_microseconds(delay);
  return {outcome::verdict::retry, wait < wait.zero() ? wait.zero() : wait, std::move(reason)};
}
/// The check runs again after the back-off of its kind, see `backoff`.
[[nodiscard]] inline outcome retry(std::string reason) {
  return {outcome::verdict::retry, std::chrono::microseconds(-1), std::move(reason)};
}
/// It is too early: the check runs again `delay` from now, and this run does not count as an attempt, so a check may
/// ask for it as often as it likes. A delay below 1 ms counts as 1 ms, and one of more than 292 years as 292 years. If
/// the handler is transactional, what this run wrote through its transaction is undone.
///
///     checks.on("verify", [](const durable::job& check) -> durable::outcome {
///       return is_paid(check.key()) ? durable::done : durable::snooze(10min);
///     });
template <class Rep, class Period>
[[nodiscard]] outcome snooze(std::chrono::duration<Rep, Period> delay) {
  const std::chrono::microseconds wait = saturating_microseconds(delay);
  return {outcome::verdict::snooze, wait < wait.zero() ? wait.zero() : wait, {}};
}
/// The check is given up, and kept among the dead, with the first 64 KiB of `reason`.
[[nodiscard]] inline outcome dead(std::string reason) {
  return {outcome::verdict::dead, std::chrono::microseconds(-1), std::move(reason)};
}

/// How long a check waits before its next run. It waits `first` after the first run, `factor` times as long after each
/// further run, and at most `most`. The scheduler shortens each wait at random, by at most the share `jitter`, so that
/// checks that failed together do not come back together.
///
/// | with the defaults, after run | the check waits |
/// |---|---|
/// | 1 | 0.8 s to 1 s |
/// | 2 | 1.6 s to 2 s |
/// | 5 | 12.8 s to 16 s |
/// | 11 and later | 8 min to 10 min |
///
/// `first` is in [0, `most`], `factor` at least 1, and `jitter` in [0, 1]. If `most` is
/// `std::chrono::milliseconds::max()`, there is no limit; a wait of more than 292 years counts as 292 years.
struct backoff {
  std::chrono::milliseconds first = std::chrono::seconds(1);  ///< After the first run.
  double factor = 2;                                          ///< From one wait to the next.
  std::chrono::milliseconds most = std::chrono::minutes(10);  ///< The longest wait.
  double jitter = 0.2;                                        ///< The share that may be left out.
};

/// How the checks of a kind are run.
struct handler_options {
  /// How many runs this node has at a time, at most. At least 1. A transactional handler runs alone, whatever this
  /// value is.
  std::size_t max_running = std::numeric_limits<std::size_t>::max();
  /// After so many runs that count and did not end with `done`, the check is dead. At least 1. A run that ends with
  /// `snooze` does not count.
  ///
  /// A leased run ends **without a word** if its process dies, or if its lease ends. Such a run counts, but makes the
  /// check dead only if it is the third run or a later one. A claim that waited in the queue of a process that died
  /// counts too, because nobody knows which runs had begun there.
  ///
  /// | a run ends without a word, and it is | the check |
  /// |---|---|
  /// | the first | runs again as any other |
  /// | the second or a later one | is a **suspect**, in a narrower sense than `check_state`: it may kill the process |
  /// | the third or a later one, and no more runs are allowed | is dead |
  ///
  /// A node claims one suspect at a time, so a suspect takes no other suspect down with it. A check is no suspect any
  /// more once a run of it asks for a retry.
  int max_attempts = 20;
  /// How long a run of a leased handler may take. At least 1 ms; not for transactional handlers, which the scheduler
  /// cannot leave while their transaction is open.
  ///
  /// | a run takes | then |
  /// |---|---|
  /// | `time_limit` | the scheduler asks it to stop (`job::stop_token`) |
  /// | half as long again | the scheduler gives the run up, and tells `on_failure` ("time_limit") |
  ///
  /// A run that was given up counts as one that asked for a retry. The next run has a higher fence. Until the check is
  /// over, `cancel` answers `running`, because the handler that was given up may still go on. C++ cannot end a thread
  /// from outside. So the thread is **lost** to the scheduler until the handler returns
  /// (`scheduler_stats::lost_threads`), and what the handler returns then has no effect. A lost thread counts for
  /// `max_running`. If all threads are lost, the node claims no leased check any more, and the other nodes run them.
  ///
  /// If a scheduler runs leased handlers inside a timer's callbacks, nothing else happens there while a handler hangs.
  /// The thread that extends leases then gives the run up, and stops extending its lease. When the lease has ended,
  /// another node runs the check.
  std::chrono::milliseconds time_limit = std::chrono::milliseconds::max();
  /// How long the check waits between two runs.
  durable::backoff backoff = {};
};

/// Runs one job, on a lease. The scheduler calls it at least once for each check. If a node dies, another one runs the
/// job again. So what the handler does should be idempotent, or be guarded by `job::fence`.
using leased_handler = std::function<outcome(const job&)>;
/// Runs one job within a transaction. What the handler writes through the connection commits together with the end of
/// the job, or not at all; only `done` keeps it. If a job is not `done`, the scheduler may undo other jobs of that kind
/// in the transaction as well. Then it calls their handlers again in the same transaction, with the same attempt. If a
/// statement has failed, so that the server takes no more of them (PostgreSQL), then `done` means `retry`.
///
/// If its node stands still just before the handler for so long that the server undoes the transaction, the handler may
/// begin although `cancel` has answered `cancelled`. Its SQL then fails; but what the handler does in other systems is
/// not undone.
using transactional_handler = std::function<outcome(transaction&, const job&)>;
/// Runs several jobs within one transaction. If the handler throws, or a statement of it has failed on PostgreSQL, the
/// scheduler undoes all that it wrote, and calls it again for each job alone.
using batch_handler = std::function<void(transaction&, std::span<const job>)>;

}  // namespace timing_wheel::durable
