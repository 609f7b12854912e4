#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// A row that is due soon, as a node reads it ahead: what it needs to know when to come for it, and no more.
struct upcoming {
  std::int64_t id = 0;     ///< Of the row.
  instant due{};           ///< Its deadline.
  instant lease{};         ///< Until when a node holds it; the epoch if none does.
  std::uint32_t kind = 0;  ///< Its place in `window::kinds`.
  int attempt = 0;         ///< How often it was claimed.
};

/// Which rows to read: those with (due, id) after (`from`, `after_id`) and due before `until`, of one of the kinds; at
/// most `limit` of them, in the order of (due, id).
struct window {
  instant from = instant::min();  ///< Rows of this time are read, too, if their ids are above `after_id`.
  std::int64_t after_id = std::numeric_limits<std::int64_t>::min();  ///< With `from`: where a page before has ended.
  instant until{};                                                   ///< Rows of this time are not read.
  std::size_t limit = 0;                                             ///< Of rows.
  std::span<const std::string> kinds = {};                           ///< Only rows of these.
  /// Only rows of these shares, and those due before `overdue`. None: rows of all shares.
  std::optional<std::span<const std::int16_t>> shares = {};
  instant overdue = instant::min();  ///< With `shares`: rows due before it are read, whosever they are.
};

/// A row that this node has claimed, or taken, with all that is in it.
struct claimed {
  std::int64_t id = 0;     ///< Of the row.
  std::int64_t fence = 0;  ///< See `job::fence`.
  std::uint32_t kind = 0;  ///< As in the `upcoming` that it was claimed by: a kind never changes.
  int attempt = 0;         ///< This run's number, from 1 on.
  instant due{};           ///< Its deadline.
  std::string key;         ///< As it was scheduled.
  std::string payload;     ///< As it was scheduled.
  bool orphaned = false;   ///< It had a lease that had ended. See `store_transaction`.
};

/// A claim as the store knows it: the row, and the fence that the claim has drawn.
struct ticket {
  std::int64_t id = 0;     ///< Of the row.
  std::int64_t fence = 0;  ///< See `job::fence`.
  bool held = false;       ///< Out: the row was still there with that fence, and was changed.
  /// Out: the row is still there with that fence, and another transaction has locked it, so it was not changed. Only
  /// with `transaction_limits::skip_locked`.
  bool locked = false;
};

/// A check to append. `asked` is valid (`validate`).
struct append_op {
  const request* asked = nullptr;  ///< What is asked for.
  scheduled result{};              ///< Out.
  std::int64_t id = 0;             ///< Out: of the row, if it was inserted.
};

/// A check to cancel.
struct cancel_op {
  std::string_view kind;   ///< As it was scheduled.
  std::string_view key;    ///< As it was scheduled.
  cancel_result result{};  ///< Out.
  int attempts = 0;        ///< Out: if it was cancelled, see `cancel_answer`.
};

/// A check to move.
struct reschedule_op {
  std::string_view kind;       ///< As it was scheduled.
  std::string_view key;        ///< As it was scheduled.
  due_time due;                ///< Its deadline.
  reschedule_result result{};  ///< Out.
};

/// A claim to give back, to be claimed again at `due` or later.
struct retry_op {
  ticket of;              ///< Which claim.
  instant due{};          ///< Its deadline.
  int attempt = 0;        ///< What the row is to say from now on.
  bool orphaned = false;  ///< As in the `claimed`.
};

/// A claim to move to the dead.
struct bury_op {
  ticket of;          ///< Which claim.
  std::string error;  ///< What went wrong.
};

/// How long a transaction may hold others up, and be held up, beyond what the store's options say. A store whose
/// transactions do not run beside each other has only `orphans_until` and `asked_at`.
struct transaction_limits {
  /// A statement that waits for another transaction's row for longer fails, with `errc::row_locked`. None: it waits as
  /// long as a statement may take. At least 1 ms.
  std::optional<std::chrono::milliseconds> lock_wait = {};
  /// A transaction that does nothing for longer between two statements is undone, since its process may be frozen, and
  /// whatever comes after in it fails. None: what the store's options say. At least 1 ms.
  std::optional<std::chrono::milliseconds> idle = {};
  /// `complete`, `extend`, `retry` and `bury` leave out rows that another transaction has locked, and say so in
  /// `ticket::locked`. False: they wait for such a row, up to `lock_wait`.
  bool skip_locked = false;
  /// Rows whose lease has ended are claimed and taken only if `now()` is not later: a statement that an outage of the
  /// database has held up comes too late, since their owners had no chance to extend. None: always.
  std::optional<instant> orphans_until = {};
  /// Uses a connection that the store keeps for such transactions, so no other use of the store keeps it waiting, and
  /// gives up after so long without an answer, to a try to connect too: for extensions. None: as the others. At least
  /// 1 ms.
  std::optional<std::chrono::milliseconds> urgent = {};
  /// Since when somebody has waited for it: the limit to a wait for another process's lock of the whole database counts
  /// from then, or from when this store last had that lock. None: since the call.
  std::optional<std::chrono::steady_clock::time_point> asked_at = {};
};

/// What a transactional handler is given: a transaction of the store that is open, and commits with the end of the job.
///
/// The handler's own statements go through the connection (`sqlite_connection(transaction&)`). It must neither commit
/// nor roll back. Thread safety: for the thread that was given it, until the handler returns.
class TIMING_WHEEL_EXPORT transaction {
 public:
  virtual ~transaction() = default;

  /// The database's clock. It stands still within a transaction.
  [[nodiscard]] virtual instant now() = 0;

  /// Schedules within this transaction: as `scheduler::schedule`, and undone if the transaction is.
  scheduled schedule(const request& asked);
  /// Cancels within this transaction.
  cancel_answer cancel(std::string_view kind, std::string_view key);

  /// \cond
  // The connection, if it is one of `api` ("sqlite3"); else null.
  [[nodiscard]] virtual void* native_handle(std::string_view api) noexcept = 0;

 protected:
  transaction() = default;
  transaction(const transaction&) = default;
  transaction& operator=(const transaction&) = default;

  virtual void append(std::span<append_op> ops) = 0;
  virtual void cancel(std::span<cancel_op> ops) = 0;
  [[nodiscard]] virtual const request_limits& limits() const noexcept = 0;
  /// \endcond
};

/// A transaction as the scheduler uses it. One list of operations is one statement, or a prepared one for each.
///
/// **Pending** is a row without a lease: its handler has not begun, or has ended with a retry. One with a lease is
/// running, also when that has ended: nobody knows how far its handler came, so it is only for another claim. **Free**
/// is a row that is pending, or whose lease has ended by `now()`.
///
/// **Orphaned** is a row that was claimed when its lease had ended. Who had it may be stopped just before its handler,
/// and go on at any time. So it must never be pending again: given up, it keeps a lease that has ended, and that nobody
/// can extend. By that the next claim finds it orphaned, too.
class TIMING_WHEEL_EXPORT store_transaction : public transaction {
 public:
  using transaction::cancel;
  /// Writes new rows, without a lease and with attempt 0. A key that is there stays as it is, unless `replace` asks and
  /// the row is pending.
  void append(std::span<append_op> ops) override = 0;
  /// Deletes pending rows: `cancelled`. One that is running stays: `running`. None: `finished`.
  void cancel(std::span<cancel_op> ops) override = 0;
  /// Gives pending rows a new deadline.
  virtual void reschedule(std::span<reschedule_op> ops) = 0;

  /// Claims those rows of `wanted` (at most 1 000) that are there, due by `now()` and free: gives each a new fence,
  /// raises its attempt by one, sets the lease to end at `lease`, and adds them to `got`. A row that another
  /// transaction has locked is left out. A fence is drawn from one counter of the store while the row is held, so it is
  /// higher than any that a check of that kind and key ever had. What a transaction has drawn stays drawn if it is
  /// undone; if the server dies as well (in SQLite: if the process dies, or another one draws), these numbers may be
  /// drawn again.
  virtual void claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) = 0;
  /// The same, but deletes them: the transaction does what is to be done, and commits both.
  virtual void take(std::span<const upcoming> wanted, std::vector<claimed>& got) = 0;
  /// Writes a row that this transaction has taken again, to be due at `due`, with that attempt; the fence stays. It is
  /// pending; or, if it was orphaned, it has a lease that has ended.
  virtual void put_back(const claimed& taken, std::string_view kind, instant due, int attempt) = 0;

  /// Writes a row that this transaction has taken to the dead.
  virtual void bury_taken(const claimed& taken, std::string_view kind, std::string_view error) = 0;

  /// Deletes claimed rows.
  virtual void complete(std::span<ticket> ops) = 0;
  /// Sets the end of their leases.
  virtual void extend(std::span<ticket> ops, instant lease) = 0;
  /// Gives claims up: another deadline, and no lease; or, for an orphaned row, one that has ended.
  virtual void retry(std::span<retry_op> ops) = 0;
  /// Moves claimed rows to the dead.
  virtual void bury(std::span<bury_op> ops) = 0;

  /// Begins a part of the transaction that can be undone alone. Parts do not nest.
  virtual void savepoint() = 0;
  /// The same, for a part in which no handler runs. Here it is `savepoint`.
  virtual void own_savepoint() { savepoint(); }
  /// Undoes what was done since, and ends the part.
  virtual void rollback_to_savepoint() = 0;
  /// Keeps it, and ends the part.
  virtual void release_savepoint() = 0;
};

/// What a store has done since it was made.
struct store_counts {
  std::uint64_t statements = 0;  ///< Executed, but for those of a user's own connection.
  std::uint64_t rows_read = 0;   ///< Rows that reads, claims and takes have returned.
  std::uint64_t commits = 0;     ///< Transactions that have written.
};

/// Where checks are kept. The row is the truth: whatever a node remembers of it is a hint.
///
/// Thread safety: every member may be called from any thread. A read may run beside a transaction. Errors: every member
/// throws timer_error with the code and the words of the database; then nothing was changed, unless it was the answer
/// to a commit that was lost: then it may have happened.
class TIMING_WHEEL_EXPORT store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  virtual ~store() = default;

  /// Makes the tables, or brings those of an older version up to date. Needed once; harmless again.
  /// \throws timer_error (`newer_schema`) if a newer library has made them.
  virtual void migrate() = 0;

  /// The database's clock.
  [[nodiscard]] virtual instant now() = 0;

  /// What may be written.
  [[nodiscard]] virtual const request_limits& limits() const noexcept = 0;

  /// Runs `work` in a transaction that may write, and commits when it returns: then all of it is durable. What `work`
  /// throws undoes it. Others may run beside it, or wait.
  virtual void transact(const std::function<void(store_transaction&)>& work) = 0;

  /// The same, within `limits`. Here it is `transact`, without limits.
  virtual void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work);

  /// Adds the rows of `which` to `found`, leased ones too. Complexity: O(rows of the window), those of other kinds
  /// included, whatever lies outside of it.
  virtual void read_ahead(const window& which, std::vector<upcoming>& found) = 0;

  /// Renews this node's hold on its shares of the table for `hold`, takes those that are nobody's and gives up those
  /// beyond its part. All shares are divided among the living nodes that serve the same `kinds`, in any order, so that
  /// these have about as many each; nodes of another set divide all of them among themselves. `leave` gives up all.
  /// Shares only keep nodes from reading the same rows: two that believe to have the same one do no harm.
  /// \returns the shares that this node has; none if the store is not divided, and a node reads all of it.
  [[nodiscard]] virtual std::optional<std::vector<std::int16_t>> take_shares(std::string_view node,
                                                                             std::span<const std::string> kinds,
                                                                             std::chrono::milliseconds hold,
                                                                             bool leave = false);

  /// The check of that key, or none.
  [[nodiscard]] virtual std::optional<stored_check> find(std::string_view kind, std::string_view key) = 0;

  /// Dead checks with ids above `after`, at most `limit`, in the order of their ids.
  [[nodiscard]] virtual std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0) = 0;
  /// Makes a dead check pending again, due now, with attempt 0. \returns whether there was one, and no check of its
  /// key.
  virtual bool retry_dead(std::int64_t id) = 0;
  /// Deletes a dead check. \returns whether there was one.
  virtual bool delete_dead(std::int64_t id) = 0;

  /// How much it has done.
  [[nodiscard]] virtual store_counts counts() const noexcept = 0;
};

}  // namespace timing_wheel::durable
