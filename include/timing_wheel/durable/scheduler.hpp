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

/// What went wrong in the background, where no call of yours can throw. For instance, a handler threw, or the store did
/// not answer.
///
/// | `what` | means |
/// |---|---|
/// | "handler" | a handler threw |
/// | "dead" | the scheduler gave a check up |
/// | "store" | a call of the store failed; the scheduler repeats it |
/// | "time_limit" | the scheduler has given a run up (`handler_options::time_limit`), and its thread is lost |
/// | "lease" | a run has lost its lease, so another node may have the check |
/// | "executor" | the executor has refused a run, and the check becomes pending again |
/// | "completion" | a completion threw |
/// | "timer" | the timer that drives the scheduler refused to schedule; the scheduler looks again after one poll |
/// | "scheduler" | memory was short, or the clock of the store failed |
/// | "unhandled" | a check has been due and free for a whole `sweep`, and this scheduler has no handler for its kind |
/// | "clock" | the clock of the store and the wall clock of this process differ by 10 s or more |
struct failure {
  std::string_view what;  ///< One of the words above.
  std::string_view kind;  ///< The kind of the job, if the failure is about one.
  std::string_view key;   ///< The key of the job, if the failure is about one.
  /// What was thrown. If a check dies ("dead"), this is what its last run threw, or a std::runtime_error with the
  /// reason.
  std::exception_ptr error;
  int attempt = 0;  ///< The number of the run, from 1 on, if the failure is about one.
  /// If a handler threw ("handler") or a run was given up ("time_limit"), and the check will be retried: the longest
  /// time until the check runs again. None: the check does not run again, or the scheduler does not know when.
  std::optional<std::chrono::microseconds> again = {};
};

/// How a scheduler works. The defaults suit most programs. A **node** is a started scheduler; usually there is one for
/// each process. Several nodes may share a store. A **look** is one reading of the rows that are due soon.
struct scheduler_options {
  /// How far ahead a look reads; keep it above `poll`. Then, if a check was written at least `look_ahead` before its
  /// deadline, it is at most a tick late. A longer look-ahead makes each look read more. Range of `look_ahead`, `poll`
  /// and `sweep`: 1 ms to 30 days.
  std::chrono::milliseconds look_ahead = std::chrono::milliseconds(500);
  /// The time from one look to the next. If another process schedules a check for sooner than the look-ahead, that
  /// check is late by one `poll` at most.
  std::chrono::milliseconds poll = std::chrono::milliseconds(250);
  /// How often a look begins at the beginning of the table, to find rows that were committed long after they were due.
  std::chrono::milliseconds sweep = std::chrono::seconds(30);
  /// How long a leased job is safe from other nodes if this node gives no sign of life. A thread that does nothing else
  /// extends each lease when a third of it has passed. From 10 ms to 30 days.
  ///
  /// | if | then |
  /// |---|---|
  /// | a node dies | its leased checks wait for the ends of their leases; then other nodes run them |
  /// | the database does not answer | no lease is lost |
  /// | the database answers again | for half a lease, nodes take over no expired lease |
  /// | on PostgreSQL, a transactional handler stalls for one lease | its transaction is undone; the check runs again |
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  /// The node rounds deadlines up to a multiple of this. At least 1 ms, at most a sixth of `lease`.
  std::chrono::milliseconds tick = std::chrono::milliseconds(1);
  /// How many checks one transaction claims, completes, or takes for transactional handlers, at most. From 1 to 1000.
  std::size_t batch = 1000;
  /// How many leased jobs this node has at a time, at most. A node claims fewer: one for each free thread, and as many
  /// as its threads will end within about two round trips to the store. The node estimates this from the times of
  /// earlier runs of that kind. If a claimed job has not begun within eight round trips (at least 0.1 s, at most
  /// 0.4 s), the node gives it back. All other checks that are due stay in the table, where any node may claim them. At
  /// least 1.
  std::size_t max_claimed = 4000;
  /// How many bytes the payloads of all leased jobs that this node has at a time may have together, at most. The
  /// payloads of one transaction of transactional handlers have the same limit, of their own. A job whose payload is
  /// larger is claimed alone. At least 1.
  std::size_t max_claimed_bytes = std::size_t{4} << 20;
  /// How many rows this node remembers at a time. This limit keeps its memory flat, however many checks are due. At
  /// least `batch`.
  std::size_t max_known = 20'000;
  /// A transaction of transactional handlers runs as many jobs as fit into this time, at least one and at most `batch`.
  /// Keep it short: on SQLite nobody else can write meanwhile. Not negative. At `std::chrono::milliseconds::max()` only
  /// `batch` and `max_claimed_bytes` limit the jobs.
  std::chrono::milliseconds transaction_time = std::chrono::milliseconds(20);
  /// The node's name, by which `store::drain`, `store::long_runs` and the nodes that divide a table know it. Each node
  /// of a store needs a different name. UTF-8 without a zero byte. Empty: the scheduler draws a random name.
  std::string node = {};
  /// What happens if the store does not answer when the scheduler starts. False: `start` throws. True: `start` returns,
  /// and the scheduler tells `on_failure` ("store") each second, and begins when the store answers. So a program may
  /// begin before its server, or before `store::migrate` was called; `scheduler_stats::serving` says when it has begun.
  bool wait_for_store = false;
  /// Where leased handlers run. Empty: on `threads` threads of the scheduler, or, if a timer drives the scheduler, in
  /// the timer's callbacks. The executor has to call or drop each task that it has accepted, because the scheduler's
  /// destructor waits for that. A scheduler calls the executor from one thread at a time; if several schedulers share
  /// an executor, several threads call it.
  timing_wheel::executor executor = {};
  /// How many threads leased handlers have, if there is no executor. From 1 to 1024.
  unsigned threads = 2;
  /// The scheduler calls this for each failure, on the thread where the failure happens, so several threads may call it
  /// at a time. One of these threads extends the leases, so the function must not block. Empty: the scheduler writes a
  /// line to standard error, at most one a second for each `failure::what`.
  std::function<void(const failure&)> on_failure = {};
};

/// What a scheduler has done with the checks of one kind since it was made. The members mean what those of
/// `scheduler_stats` mean.
struct kind_stats {
  std::string kind;                         ///< As in `scheduler::on`.
  std::uint64_t fired = 0;                  ///< Runs begun here.
  std::uint64_t done = 0;                   ///< Runs whose end was written.
  std::uint64_t retried = 0;                ///< Checks put back after a run that failed.
  std::uint64_t snoozed = 0;                ///< Checks put back by `snooze`, or by a `reschedule` in their handler.
  std::uint64_t given_back = 0;             ///< Checks put back because their run did not begin.
  std::uint64_t dead = 0;                   ///< Checks moved to the dead.
  std::uint64_t lost_leases = 0;            ///< Runs that found their lease gone when they tried to end.
  std::uint64_t timed_out = 0;              ///< Runs given up since they took too long.
  std::size_t running = 0;                  ///< Leased jobs whose handlers run here, now.
  std::size_t claimed = 0;                  ///< Leased jobs that are claimed here and wait for a thread, now.
  std::size_t ready = 0;                    ///< Rows that are due here, and not yet claimed.
  std::chrono::microseconds lag{};          ///< As `scheduler_stats::lag`, of this kind.
  std::chrono::microseconds longest_run{};  ///< The running time of the oldest handler that has not returned.
  histogram lateness;                       ///< From the deadline to the begin of the run.
  bool paused = false;                      ///< The kind was paused at this node's last poll, see `store::pause`.
};

/// How late the checks of a kind are in the store, whether or not this scheduler knows them or has a handler for them.
struct kind_lag {
  std::string kind;                 ///< As it was scheduled.
  std::chrono::microseconds lag{};  ///< The longest time that a check has been due and free.
  bool handled = false;             ///< This scheduler has a handler for the kind. Another one may have one, too.
};

/// What a scheduler has done since it was made.
struct scheduler_stats {
  std::uint64_t scheduled = 0;    ///< New checks written by calls of this scheduler.
  std::uint64_t duplicates = 0;   ///< Requests that wrote no new check, because a check with that key existed.
  std::uint64_t cancelled = 0;    ///< Checks cancelled by calls of this scheduler.
  std::uint64_t fired = 0;        ///< Runs begun here.
  std::uint64_t done = 0;         ///< Runs whose end was written, so the check is over.
  std::uint64_t retried = 0;      ///< Checks put back after a run that failed, to run again.
  std::uint64_t snoozed = 0;      ///< Checks put back by `snooze`, or by a `reschedule` in their handler.
  std::uint64_t given_back = 0;   ///< Checks put back because their run did not begin in time, or not before a stop.
  std::uint64_t dead = 0;         ///< Checks moved to the dead.
  std::uint64_t lost_leases = 0;  ///< Runs that found their lease gone when they tried to end.
  std::uint64_t timed_out = 0;    ///< Runs given up since they took too long (`handler_options::time_limit`).
  std::uint64_t early = 0;        ///< Runs begun before their deadline by the database's clock. It is always 0.
  std::uint64_t failures = 0;     ///< Calls of the store that failed in the background, and were repeated.
  std::size_t running = 0;        ///< Leased jobs whose handlers run here, now.
  std::size_t claimed = 0;        ///< Leased jobs that are claimed here and wait for a thread, now.
  std::size_t lost_threads = 0;   ///< Threads in handlers whose runs were given up, now.
  std::size_t ready = 0;          ///< Rows that are due here and not yet claimed. The backlog that this node sees.
  std::size_t known = 0;          ///< Rows remembered here, now.
  std::size_t shares = 0;         ///< Shares of the table that this node reads ahead, if its store is divided.
  bool serving = false;           ///< The node has begun, and was not stopped: it was started, and the store answered.
  /// The longest time that a check has waited that is due and has not begun. It counts the checks of `ready`, of
  /// `claimed` and of `store_lag`, and those that have become due while a transactional handler or the store hangs.
  std::chrono::microseconds lag{};
  histogram lateness;             ///< From the deadline to the begin of the run.
  store_counts store;             ///< What the store object did, for all schedulers that use it.
  std::vector<kind_stats> kinds;  ///< The same by kind, in the order of `scheduler::on`. Empty before `start`.
  /// The kinds that had a check late by a second or more, at the last look for such checks, see `store::read_overdue`.
  /// The scheduler looks with each `sweep`, within a poll after a call of `stats`, and, while a kind for which it has a
  /// handler is late, again and again. It looks at most once a second, and spends at most a hundredth of the time on
  /// looks.
  std::vector<kind_lag> store_lag;
  /// How far the wall clock of this process was ahead of the store's clock at that look.
  std::chrono::microseconds clock_difference{};
};

/// A leased job whose handler has not returned.
struct unfinished_run {
  std::string kind;                         ///< As in `scheduler::on`.
  std::string key;                          ///< As in the request.
  std::int64_t fence = 0;                   ///< As `job::fence`.
  std::chrono::microseconds running_for{};  ///< Since the handler was called.
};

/// How far a scheduler was stopped.
struct stop_result {
  bool finished = false;                   ///< All is over, except threads in handlers whose runs were given up.
  std::vector<unfinished_run> unfinished;  ///< The leased jobs whose handlers have not returned, given up or not.
  /// If `finished`: the checks whose ends the store did not take. They run again when their leases have ended.
  std::size_t unwritten = 0;
};

/// Runs **checks**, which are jobs for later. A store keeps them, so they survive the process. Each check runs at least
/// once, never early, on one of the nodes that share the store.
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
/// **The row is the truth, a lease is a hint, the wheel is a cache.** A lease says that a node has claimed the check,
/// and not that this node still lives. A node reads the rows that are due soon into a hierarchical wheel. When a row is
/// due, a statement of the store on that row decides whether this node may run the check. So a cancel only changes the
/// row, and has to tell no node.
///
/// **Handlers** are leased or transactional; the parameters decide:
///
/// | parameters | type | runs |
/// |---|---|---|
/// | `(const job&)` | `leased_handler` | on the executor, beside others |
/// | `(transaction&, const job&)` | `transactional_handler` | on the scheduler's thread, one after another |
/// | `(transaction&, std::span<const job>)` | `batch_handler` | the same, with several jobs at once |
///
/// A transactional or batch handler runs inside an open transaction; on SQLite this transaction holds the store's write
/// lock. So the handler must call no scheduler of the store. It may call `transaction::schedule` and
/// `transaction::cancel`.
///
/// A scheduler that was not started schedules and cancels, and runs nothing.
///
/// Thread safety: any thread may call any member. Call `on` and `start` from one thread first.
class TIMING_WHEEL_EXPORT scheduler {
 public:
  /// Called when a `schedule` with a completion ends: with an error, or with an empty error and the result.
  using completion = std::function<void(std::error_code, scheduled)>;

  /// Makes a scheduler that has threads of its own. The store must outlive it.
  /// \throws timer_error (`invalid_option`); std::system_error if no thread can be had.
  explicit scheduler(store& where, const scheduler_options& options = {});
  /// Makes a scheduler that runs, and runs its jobs, inside the callbacks of `driven_by`. The scheduler has one thread
  /// of its own, which only extends leases. The store and the timer must outlive it.
  ///
  /// If the timer is a `manual_timer`, the scheduler has no thread of its own. With a `memory_store` or an
  /// `sqlite_store` in memory on the same timer it runs in virtual time, for tests. If the timer is a `loop_timer`, it
  /// may call its `on_earlier` while the scheduler holds a lock of its own, so `on_earlier` must not call the
  /// scheduler.
  scheduler(store& where, timer& driven_by, const scheduler_options& options = {});
  /// Stops. A handler, a completion or `on_failure` of this scheduler must not destroy it.
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Sets the handler that runs the checks of `kind`. `handler` has one of the parameter lists above, and returns an
  /// `outcome` or nothing.
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

  /// Begins to run the checks that are due. \throws timer_error (`already_started`), what the store throws unless
  /// `scheduler_options::wait_for_store` is set, and what the timer that drives the scheduler throws. If the call
  /// throws, the scheduler has not started.
  void start();

  /// Stops running checks:
  ///
  /// 1. The node claims no check any more. It gives back the checks whose runs have not begun.
  /// 2. The scheduler asks running jobs to stop (`job::stop_token`), waits for them and writes their ends. If the store
  ///    fails, or other transactions have locked all rows that are left, `stop` gives up after 5 s. Then the leases end
  ///    by themselves, and `stop_result::unwritten` counts the checks.
  /// 3. The scheduler writes or refuses the requests that were posted without waiting, and calls their completions.
  ///
  /// Afterwards `schedule` refuses (`stopped`), the scheduler calls no completion any more, and nothing of this
  /// scheduler is pending on the driving timer. A second call does nothing. If a handler or completion calls `stop`,
  /// the call returns at once, and the stop itself finishes when that function has ended. `stop` does not wait for a
  /// run that was given up (`handler_options::time_limit`); the destructor does.
  void stop();
  /// Stops as `stop`, but waits for running jobs no longer than `until`. If some jobs still run then, the scheduler
  /// continues to wait for them, to extend their leases and to write their ends; a later `stop` and the destructor wait
  /// for them, too. So a program that must end now has to end without the destructor, for instance by `std::_Exit`.
  ///
  ///     const durable::stop_result left = checks.stop(std::chrono::steady_clock::now() + 10s);
  ///     for (const durable::unfinished_run& each : left.unfinished) {
  ///       std::cerr << each.kind << ' ' << each.key << " still runs\n";
  ///     }
  stop_result stop(std::chrono::steady_clock::time_point until);

  /// Writes a check, and returns when it is durable. If several threads call at a time, they share a commit.
  /// \throws timer_error if the request is invalid (see `validate`), if the scheduler was stopped (`stopped`), or if
  /// the store fails.
  ///
  /// After these errors nothing was written, except in one case: if the answer to the commit is lost, the store may
  /// have written the check. Then call again. If the check still exists, its key makes the second call harmless. If the
  /// check has run meanwhile, the second call writes a new one.
  scheduled schedule(const request& asked);
  /// Writes several checks, all or none. Errors as `schedule(asked)`.
  std::vector<scheduled> schedule(std::span<const request> asked);
  /// Writes a check without waiting. When the check is durable, or the write has failed, `then` is called by a
  /// scheduler thread, by a caller whose commit includes this check, or by `stop` before it returns. `then` must not
  /// block.
  /// \throws timer_error if the request is invalid (see `validate`), or if the scheduler was stopped (`stopped`); then
  /// `then` is not called.
  void schedule(request asked, completion then);
  /// Like `schedule(asked)`, but sets `error` instead of throwing: to the code of the refusal or of the store, or to
  /// `std::errc::not_enough_memory`. If the call succeeds, it clears `error`.
  scheduled schedule(const request& asked, std::error_code& error);

  /// Cancels a check. \throws timer_error if the store fails.
  ///
  /// | answer | means |
  /// |---|---|
  /// | `cancelled` | no node starts a leased handler for the check any more; for `attempts` see `cancel_answer` |
  /// | `running` | a node has claimed the check; nothing has changed |
  /// | `finished` | there is no such check (any more) |
  cancel_answer cancel(std::string_view kind, std::string_view key);
  /// Gives a pending check another deadline. A leased handler may also move the check that it runs: the answer is
  /// `moved`, and if the handler then ends with `done`, the check runs again at that deadline, as after `snooze`.
  /// \throws timer_error if the store fails.
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);
  /// \returns the check of that key, pending or running; none if there is no such check. \throws timer_error if the
  /// store fails.
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key);

  /// \returns dead checks with ids above `after`, at most `limit`, in the order of their ids.
  [[nodiscard]] std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0);
  /// Makes a dead check pending again, due now, as if it had never run. \returns false if there is no such dead check,
  /// or if another check has the same key by now.
  bool revive_dead(std::int64_t id);
  /// Deletes a dead check. \returns whether there was such a check.
  bool delete_dead(std::int64_t id);

  /// \returns the leased jobs whose handlers run here now, given up or not; those that were given up come first. So the
  /// call says whether this node runs a check, and since when; the row does not say it. Complexity: O(running).
  [[nodiscard]] std::vector<unfinished_run> unfinished() const;

  /// What the scheduler has done. The counts of all kinds belong to one moment, but for `running`, `claimed` and
  /// `lost_threads`, which belong to a moment just before. Complexity: O(kinds); the call copies 8 KiB for each kind.
  [[nodiscard]] scheduler_stats stats() const;

 private:
  class TIMING_WHEEL_LOCAL core;

  void add(std::string kind, leased_handler handler, const handler_options& options);
  void add(std::string kind, transactional_handler handler, const handler_options& options);
  void add(std::string kind, batch_handler handler, const handler_options& options);

  // Wraps the handler so that it returns an outcome; an empty handler stays empty.
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

  std::unique_ptr<core> core_;
};

}  // namespace timing_wheel::durable
