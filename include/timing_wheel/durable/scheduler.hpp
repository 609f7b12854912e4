#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/executor.hpp"
#include "timing_wheel/histogram.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::durable {

/// What went wrong in the background: a handler threw, or the store did not answer.
struct failure {
  std::string_view what;  ///< "handler", "dead", "store", "lease", "executor", "completion", "timer" or "scheduler".
  std::string_view kind;  ///< Of the job, if it is about one.
  std::string_view key;   ///< Of the job, if it is about one.
  /// What went wrong. Of a check that dies ("dead"), what its last run threw, or a std::runtime_error with the reason.
  std::exception_ptr error;
  int attempt = 0;  ///< The number of the run, from 1 on, if it is about one.
  /// Of a "handler" whose check runs again: after how long, at most. None: it does not, or nobody knows.
  std::optional<std::chrono::microseconds> again = {};
};

/// How a scheduler works. The defaults suit most.
struct scheduler_options {
  /// How far ahead rows are read. A check that was written so long before its deadline is on time to a tick. In
  /// [1 ms, 30 days], and so are `poll` and `sweep`: what is read at each look grows with it, and what a node forgets
  /// comes back by them.
  std::chrono::milliseconds look_ahead = std::chrono::seconds(1);
  /// How often the store is looked at. What others have scheduled for sooner than the look-ahead is late by one at
  /// most.
  std::chrono::milliseconds poll = std::chrono::milliseconds(250);
  /// How often it is looked at from the beginning, for rows that were committed late.
  std::chrono::milliseconds sweep = std::chrono::seconds(30);
  /// How long a leased job is safe from other nodes without a sign of life from this one; extended at each third of it,
  /// by a thread that does nothing else. While the database does not answer, no lease is lost: a node that has seen
  /// that, or has just come, leaves ended leases alone for half a lease. A store on a server ends a transaction of this
  /// node in which nothing happens for so long: a transactional handler that stalls is undone, and runs again. In [10
  /// ms, 30 days]. A check of a node that has died waits for its end.
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  /// Deadlines are rounded up to it. At least 1 ms, at most a sixth of `lease`.
  std::chrono::milliseconds tick = std::chrono::milliseconds(1);
  /// Checks that are claimed, completed or taken in one transaction, at most. In [1, 1 000].
  std::size_t batch = 500;
  /// Leased jobs that this node holds at a time, queued and running. What is due beyond that stays in the table. At
  /// least 1.
  std::size_t max_claimed = 1000;
  /// Rows that this node remembers at a time: memory stays flat, however much is due. At least `batch`.
  std::size_t max_known = 20'000;
  /// A transaction of transactional handlers takes as many jobs as it is likely to run in this time, but one at least:
  /// meanwhile others cannot write. Not negative; at `std::chrono::milliseconds::max()` it takes a batch.
  std::chrono::milliseconds transaction_time = std::chrono::milliseconds(20);
  /// Names this node in a store that divides its table among nodes. Unique there. UTF-8 without a zero byte. Empty: a
  /// name by chance.
  std::string node = {};
  /// Where leased handlers run. Empty: on `threads` threads of the scheduler. It has to call or drop each task that it
  /// has taken: the destructor waits for that. A scheduler calls it from one thread at a time; one that several
  /// schedulers share is called by several.
  timing_wheel::executor executor = {};
  /// Threads for leased handlers, if there is no executor. In [1, 1024].
  unsigned threads = 2;
  /// Is told what goes wrong, on the thread where it does; by several threads at a time. Empty: it is written to
  /// standard error, one line each, at most once a second of each `failure::what`.
  std::function<void(const failure&)> on_failure = {};
};

/// What a scheduler has done since it was made with the checks of one kind.
struct kind_stats {
  std::string kind;                 ///< As in `scheduler::on`.
  std::uint64_t fired = 0;          ///< As in `scheduler_stats`, and so are those that follow.
  std::uint64_t done = 0;           ///< Runs whose end was written.
  std::uint64_t retried = 0;        ///< Checks put back after a run.
  std::uint64_t given_back = 0;     ///< Checks put back because their run did not begin.
  std::uint64_t dead = 0;           ///< Checks moved to the dead.
  std::uint64_t lost_leases = 0;    ///< Runs whose end or extension found the lease gone.
  std::size_t running = 0;          ///< Leased jobs that run or wait for a thread here, now.
  std::size_t ready = 0;            ///< Rows that are due here, and not yet claimed.
  std::chrono::microseconds lag{};  ///< How long the oldest of `ready` has been due.
  histogram lateness;               ///< From the deadline to the begin of the run.
};

/// What a scheduler has done since it was made.
struct scheduler_stats {
  std::uint64_t scheduled = 0;      ///< New checks written by calls of this scheduler.
  std::uint64_t duplicates = 0;     ///< Requests whose key was there.
  std::uint64_t cancelled = 0;      ///< Checks cancelled by its calls.
  std::uint64_t fired = 0;          ///< Runs begun here.
  std::uint64_t done = 0;           ///< Runs whose end was written: the check is over.
  std::uint64_t retried = 0;        ///< Checks put back after a run, to run again.
  std::uint64_t given_back = 0;     ///< Checks put back because their run did not begin: refused, too late, or a stop.
  std::uint64_t dead = 0;           ///< Checks moved to the dead.
  std::uint64_t lost_leases = 0;    ///< Runs whose end or extension found the lease gone.
  std::uint64_t early = 0;          ///< Runs begun before their deadline by the database's clock. It is always 0.
  std::uint64_t failures = 0;       ///< Calls of the store that failed in the background, and were repeated.
  std::size_t running = 0;          ///< Leased jobs that run or wait for a thread here, now.
  std::size_t ready = 0;            ///< Rows that are due here, and not yet claimed. The backlog that this node sees.
  std::size_t known = 0;            ///< Rows remembered here, now.
  std::size_t shares = 0;           ///< Shares of the table that this node reads ahead, if its store is divided.
  std::chrono::microseconds lag{};  ///< How long the oldest of `ready` has been due.
  histogram lateness;               ///< From the deadline to the begin of the run.
  store_counts store;               ///< Of the store, with all that use it.
  std::vector<kind_stats> kinds;    ///< The same by kind, in the order of `scheduler::on`. Empty before `start`.
};

/// Runs checks that survive the process: each at least once, never early, on one of the nodes that share the store.
///
///     #include <timing_wheel/durable/sqlite_store.hpp>
///     durable::sqlite_store store("orders.db");
///     store.migrate();
///     durable::scheduler checks(store);
///     checks.on("verify", [](durable::transaction& open, const durable::job& check) {
///       give_back_if_unpaid(durable::sqlite_connection(open), check.key());
///     });
///     checks.start();
///     checks.schedule({.kind = "verify", .key = "order-17", .payload = {}, .due = 30min});
///
/// **The row is the truth, a lease is a hint, the wheel is a cache.** Rows due soon are read ahead into a hierarchical
/// wheel; when one is due, a statement on its row decides whether this node may run it. So a cancel has to tell nobody.
///
/// **Handlers** are leased or transactional, by what they take: see `leased_handler`, `transactional_handler` and
/// `batch_handler`. Leased ones run on the executor, beside each other. Transactional ones run on the scheduler's own
/// thread, one after the other, and keep the store's write lock meanwhile; they must not call a scheduler of it
/// (`transaction::schedule` is what they may).
///
/// A scheduler that was not started schedules and cancels only.
///
/// Thread safety: every member may be called from any thread, but for `on` and `start`: those by one, first.
class TIMING_WHEEL_EXPORT scheduler {
 public:
  /// What an asynchronous call ends with: the error, or none and what became of the request.
  using completion = std::function<void(std::error_code, scheduled)>;

  /// Has threads of its own. The store must outlive it.
  /// \throws timer_error (`invalid_option`); std::system_error if no thread can be had.
  explicit scheduler(store& where, const scheduler_options& options = {});
  /// Works in the callbacks of `driven_by`, and its jobs run there; a thread of its own only extends leases. With a
  /// `manual_timer` it has no thread, and on a `memory_store` on the same it runs in virtual time, for tests. Both must
  /// outlive it. The `on_earlier` of a `loop_timer` is called under a lock of the scheduler then, and must not call it.
  scheduler(store& where, timer& driven_by, const scheduler_options& options = {});
  /// Stops. It must not be destroyed by a handler, a completion or `on_failure` of its own.
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Says what runs the checks of `kind`. `handler` takes `(const job&)`, `(transaction&, const job&)` or
  /// `(transaction&, std::span<const job>)`, and returns an `outcome` or nothing.
  /// \throws timer_error (`handler_exists`, `already_started`, `invalid_request`, `invalid_option`, `empty_callback`).
  template <class Handler>
  void on(std::string kind, Handler handler, const handler_options& options = {}) {
    if constexpr (std::invocable<Handler&, transaction&, std::span<const job>>) {
      add(std::move(kind), batch_handler(std::move(handler)), options);
    } else if constexpr (std::invocable<Handler&, transaction&, const job&>) {
      add(std::move(kind), transactional_handler(returning<transaction&, const job&>(std::move(handler))), options);
    } else {
      static_assert(std::invocable<Handler&, const job&>,
                    "a handler takes (const job&), (transaction&, const job&) or (transaction&, std::span<const job>)");
      add(std::move(kind), leased_handler(returning<const job&>(std::move(handler))), options);
    }
  }

  /// Begins to run what is due. \throws timer_error (`already_started`), what the store throws, and what the timer that
  /// drives it says; then it has not begun.
  void start();

  /// Claims nothing any more, asks running jobs to stop (`job::stop_token`), waits for them, writes their ends, and
  /// gives back what has not begun. If the store fails, or others have locked the rows of all that is left, it stops
  /// trying after 5 s: then the leases end by themselves.
  /// Called again, it does nothing. From a handler or a completion it returns at once, and the rest is done when that
  /// has ended. Afterwards `schedule` is refused (`stopped`), no completion is called any more, and a timer that drives
  /// it has none of its timers any more. What was scheduled without waiting is written or refused before; `stop` waits
  /// for the store to say so.
  void stop();

  /// Writes a check, and returns when it is durable. Callers on several threads share a commit.
  /// \throws timer_error: `validate`; `stopped`; what the store says, and then nothing was written. A lost answer may
  /// mean that it was written after all: the same call again is harmless, by its key, unless the check has run
  /// meanwhile: then it is a new one.
  scheduled schedule(const request& asked);
  /// The same for several, all or nothing.
  std::vector<scheduled> schedule(std::span<const request> asked);
  /// The same, without waiting: `then` is called when it is durable or has failed, and before `stop` returns. That is
  /// on a thread of the scheduler, or on one that waits in another call and commits both, or in `stop`. It must not
  /// block.
  /// \throws timer_error: `validate`, `stopped`; then `then` is not called.
  void schedule(request asked, completion then);
  /// The same as the first, without a `timer_error`: a refusal, what the store says, and a lack of memory
  /// (`std::errc::not_enough_memory`) are told by `error`, which is cleared if it worked.
  scheduled schedule(const request& asked, std::error_code& error);

  /// Cancels: `cancelled` means that no leased handler starts for it any more, on any node, and the answer says how
  /// often it was tried before. `running`: a node has claimed it. `finished`: there is no such check. \throws what the
  /// store says.
  cancel_answer cancel(std::string_view kind, std::string_view key);
  /// Moves a check that is pending. \throws what the store says.
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);
  /// The check of that key, pending or running; or none. \throws what the store says.
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key);

  /// The dead, see `store`.
  [[nodiscard]] std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0);
  /// Makes a dead check pending again, due now. \returns whether there was one, and no check of its key.
  bool retry_dead(std::int64_t id);
  /// Deletes a dead check. \returns whether there was one.
  bool delete_dead(std::int64_t id);

  /// What it has done. The counts of all kinds are of one moment. Complexity: O(kinds), 8 KiB are copied for each.
  [[nodiscard]] scheduler_stats stats() const;

 private:
  class TIMING_WHEEL_LOCAL implementation;

  void add(std::string kind, leased_handler handler, const handler_options& options);
  void add(std::string kind, transactional_handler handler, const handler_options& options);
  void add(std::string kind, batch_handler handler, const handler_options& options);

  // The same handler, returning an outcome; none if it is empty.
  template <class... Arguments, class Handler>
  static std::function<outcome(Arguments...)> returning(Handler handler) {
    if (detail::is_null<Handler>(handler)) {
      return {};
    }
    return [handler = std::move(handler)](Arguments... arguments) mutable -> outcome {
      if constexpr (std::is_void_v<std::invoke_result_t<Handler&, Arguments...>>) {
        handler(arguments...);
        return {};
      } else {
        return handler(arguments...);
      }
    };
  }

  std::unique_ptr<implementation> implementation_;
};

}  // namespace timing_wheel::durable
