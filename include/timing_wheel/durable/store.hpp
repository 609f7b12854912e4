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
#include <utility>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/overview.hpp"
#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

// A store keeps checks in **rows**. If you only use a store, you need `store::migrate`, the calls of `scheduler`, and
// `transaction` in a transactional handler; for an operator, calls such as `store::list` and `store::pause`. The rest
// of this header is for a store of your own.

/// A row that is due soon. A node reads only as much of the row as it needs to know when to claim it.
struct upcoming {
  std::int64_t id = 0;     ///< Of the row.
  instant due{};           ///< Its deadline.
  instant lease{};         ///< Until when a node has claimed it; the epoch if none has.
  std::uint32_t kind = 0;  ///< Which of `read_range::kinds` it has.
  int attempt = 0;         ///< How many runs count as attempts, see `handler_options`.
  std::size_t size = 0;    ///< Of its payload, in bytes. If a store leaves it 0, nothing limits the bytes of a claim.
};

/// Which rows to read: those that have one of the kinds, that have (due, id) after (`from`, `after_id`), and that are
/// due before `until`; at most `limit` rows, in the order of (due, id).
///
/// | rows (due, id) | `from` 10, `after_id` 5, `until` 20, `limit` 2 |
/// |---|---|
/// | (10, 5) | was the last row of the page before |
/// | (10, 7), (12, 3) | are read; the next page begins at `from` 12, `after_id` 3 |
/// | (19, 1) | lies on the next page |
/// | (20, 2) | is not read: it is not due before 20 |
struct read_range {
  instant from = instant::min();  ///< Rows that are due at this time are read if their ids are above `after_id`.
  std::int64_t after_id = std::numeric_limits<std::int64_t>::min();  ///< Of the last row of the page before.
  instant until{};                                                   ///< Rows that are due then or later are not read.
  std::size_t limit = 0;                                             ///< How many rows to read, at most.
  std::span<const std::string> kinds = {};                           ///< Only rows of these kinds; if empty, no rows.
  /// Only rows of these shares are read, and those that are due before `overdue`. None: rows of all shares.
  std::optional<std::span<const std::int16_t>> shares = {};
  /// If there are `shares`: rows that are due before it are read, whichever share they have.
  instant overdue = instant::min();
  /// If set: the store adds all kinds that are paused. If `node` is drained, the store also adds an empty name, because
  /// for that node every kind is paused. A range without kinds asks only for what is paused.
  std::vector<std::string>* paused = nullptr;
  std::string_view node = {};  ///< The node that reads. Empty: a node that cannot be drained.
  /// If set: the store may read only the first rows of the range, such as when it has looked at many of other kinds.
  /// Then it sets this to (due, id) of the last row that it has looked at, where the next page begins.
  std::optional<std::pair<instant, std::int64_t>>* stopped_at = nullptr;
};

/// A kind of which a check is late.
struct overdue_kind {
  std::string kind;  ///< As it was scheduled.
  instant since{};   ///< Since when a check of this kind has been due and free: the earliest such time.
};

/// A kind of which no node claims a check.
struct paused_kind {
  std::string kind;  ///< As in `store::pause`.
  instant since{};   ///< When it was paused.
};

/// A node that claims nothing.
struct drained_node {
  std::string node;                      ///< As in `store::drain`.
  instant since{};                       ///< When it was drained.
  std::optional<std::size_t> held = {};  ///< How many checks it still has, as it told last; none: it has told nothing.
  instant told{};                        ///< When it told that.
};

/// A run of a leased job that has lasted for five seconds or more. Its node tells of it each five seconds.
struct long_run {
  std::string node;        ///< As in `scheduler_options::node`.
  std::string kind;        ///< Of the check.
  std::string key;         ///< Of the check.
  std::int64_t id = 0;     ///< Of the check's row.
  std::int64_t fence = 0;  ///< As `job::fence`.
  instant begun{};         ///< When the handler was called.
  instant told{};          ///< When the node told that. If that is long ago, the node has died or hangs.
};

/// A run that has failed, of a check that runs again.
struct failed_run {
  std::string node;     ///< As in `scheduler_options::node`.
  std::int64_t id = 0;  ///< Of the check's row.
  int attempt = 0;      ///< As `job::attempt`.
  std::string error;    ///< What went wrong: the first 1 000 bytes.
  instant told{};       ///< When the node told that.
};

/// How many runs of checks there were, as the nodes tell each five seconds.
struct run_counts {
  std::uint64_t begun = 0;   ///< Runs whose handlers were called.
  std::uint64_t ended = 0;   ///< Runs whose ends were written, or whose leases were lost.
  std::uint64_t failed = 0;  ///< Of those that have ended: runs after which the check runs again, or is dead.

  /// Whether all three are the same.
  friend bool operator==(const run_counts&, const run_counts&) noexcept = default;
};

/// \throws timer_error (`invalid_request`) if no node can have that name: see `scheduler_options::node`.
TIMING_WHEEL_EXPORT void validate_node(std::string_view node);

/// A row that this node has claimed or consumed, with all that is in it.
struct claimed {
  std::int64_t id = 0;     ///< Of the row.
  std::int64_t fence = 0;  ///< See `job::fence`.
  std::uint32_t kind = 0;  ///< As in the `upcoming` that it was claimed by: a kind never changes.
  int attempt = 0;         ///< This run's number, from 1 on.
  instant due{};           ///< Its deadline.
  std::string key;         ///< As it was scheduled.
  std::string payload;     ///< As it was scheduled.
  bool orphaned = false;   ///< When it was claimed, it had a lease that had ended. See `store_transaction`.
};

/// A claim as the store knows it: the row, and the fence that the claim has drawn.
struct ticket {
  std::int64_t id = 0;      ///< Of the row.
  std::int64_t fence = 0;   ///< See `job::fence`.
  bool still_ours = false;  ///< Out: the row was there with that fence, and was changed.
  /// Out: the row is still there with that fence, and another transaction has locked it, so it was not changed. Only
  /// with `transaction_limits::skip_locked`. If the store refuses to write the end of a run, the node sets it itself,
  /// and tries again later.
  bool locked = false;
};

/// Claims that a node completes, and rows that it claims, in one round.
struct lease_round {
  std::span<ticket> done;             ///< As in `store_transaction::complete`.
  std::span<const upcoming> wanted;   ///< As in `store_transaction::claim_some`.
  std::size_t most = 0;               ///< As there.
  std::chrono::milliseconds lease{};  ///< How long the new claims have. At least 1 ms.
  std::vector<claimed> got;           ///< Out: the rows that were claimed.
  std::size_t looked_at = 0;          ///< Out: as `store_transaction::claim_some` returns it.
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

/// A claim to give up; at `due` or later the row may be claimed again.
struct release_op {
  ticket of;              ///< Which claim.
  instant due{};          ///< Its deadline.
  int attempt = 0;        ///< The number of attempts that the row has from now on.
  bool orphaned = false;  ///< As in the `claimed`.
};

/// A claim to move to the dead.
struct bury_op {
  ticket of;          ///< Which claim.
  std::string error;  ///< What went wrong.
};

/// How long a transaction may block others, and how long others may block it, if that differs from the store's options.
/// If the transactions of a store never run at the same time, the store heeds only `orphans_until` and `asked_at`.
struct transaction_limits {
  /// If a statement waits for longer than this for a row that another transaction has locked, it fails with
  /// `errc::row_locked`. None: it waits as long as a statement may take. At least 1 ms.
  std::optional<std::chrono::milliseconds> lock_wait = {};
  /// If the transaction does nothing for longer than this between two statements, its process may be frozen. Then the
  /// server undoes the transaction, and every later statement in it fails. None: what the store's options say. At least
  /// 1 ms.
  std::optional<std::chrono::milliseconds> idle = {};
  /// If another transaction has locked a row, `complete`, `extend`, `release` and `bury` leave the row out, and say so
  /// in `ticket::locked`. False: they wait for the row, up to `lock_wait`.
  bool skip_locked = false;
  /// Rows whose lease has ended are claimed and consumed only if `now()` is not later than this. The reason: if an
  /// outage of the database has held the statement up, the owners of the leases could not extend their leases either.
  /// None: always. Rows that were orphaned and given up have no owner, and are claimed at any time.
  std::optional<instant> orphans_until = {};
  /// Set for extensions of leases. Then the transaction uses a connection that the store keeps for such transactions
  /// alone, so that it waits for no other use of the store. If the server does not answer a statement or a try to
  /// connect for this time, the transaction fails. None: the transaction uses the same connections as all others. At
  /// least 1 ms.
  std::optional<std::chrono::milliseconds> urgent = {};
  /// Since when a caller has waited for this transaction. If another process has locked the whole database, the time to
  /// wait counts from this moment, or from the last moment when this store had the lock, whichever is later. None: the
  /// moment of the call takes its place.
  std::optional<std::chrono::steady_clock::time_point> asked_at = {};
};

/// The open transaction that a transactional handler gets. It commits together with the end of the job.
///
/// Run your own statements on its connection: `sqlite_connection(transaction&)`, `postgres_connection(transaction&)`.
/// The handler must neither commit nor roll back. Thread safety: only the thread that runs the handler, until it
/// returns.
class TIMING_WHEEL_EXPORT transaction {
 public:
  virtual ~transaction() = default;

  /// What the database's clock shows. Within a transaction it stands still.
  [[nodiscard]] virtual instant now() = 0;

  /// Schedules within this transaction, as `scheduler::schedule` does. If the transaction is undone, the check does not
  /// exist. One transaction may run many checks. A check whose handler has yet to begin counts as running, and keeps
  /// its key. The check of this handler, and the checks that are done, have left the table. Calls on the connection,
  /// such as `durable::cancel(sqlite_connection(open), ...)`, do not know the checks whose handlers have yet to begin.
  /// O(checks of the transaction).
  scheduled schedule(const request& asked);
  /// Cancels within this transaction, as `scheduler::cancel` does. For this call, too, a check of this transaction
  /// whose handler has yet to begin counts as running.
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

 private:
  friend class store_transaction;
  std::function<std::optional<instant>(std::string_view kind, std::string_view key)> due_of_waiting_;
};

/// A transaction as a scheduler uses it. A store runs one statement for a list of operations, or a prepared statement
/// for each of them.
///
/// | a row is | if |
/// |---|---|
/// | **pending** | it has no lease: its handler has not begun, or has ended with a retry |
/// | **running** | it has a lease, even an ended one: its handler may have begun, so nobody may cancel or move it |
/// | **free** | it is pending, or its lease has ended by `now()` |
/// | **orphaned** | its lease had ended when it was claimed |
///
/// The node that claimed an orphaned row earlier may be frozen just before it calls the handler, and may continue at
/// any time. So an orphaned row must never be pending again. If a node gives it up, the row keeps a lease that has
/// ended and that nobody can extend. By that lease, the next claim finds the row orphaned, too.
class TIMING_WHEEL_EXPORT store_transaction : public transaction {
 public:
  using transaction::cancel;
  /// Writes new rows, without a lease and with attempt 0. If a row has the key already, it stays as it is, unless the
  /// request says `replace` and the row is pending.
  void append(std::span<append_op> ops) override = 0;
  /// Deletes pending rows; the result is `cancelled`. A running row stays; the result is `running`. If there is no row,
  /// the result is `finished`.
  void cancel(std::span<cancel_op> ops) override = 0;
  /// Gives pending rows a new deadline.
  virtual void reschedule(std::span<reschedule_op> ops) = 0;

  /// Claims those rows of `wanted` (at most 1 000) that are there, due by `now()` and free. Gives each a new fence,
  /// raises its attempt by one, sets its lease to end at `lease`, and adds it to `got`. Leaves out a row that another
  /// transaction has locked.
  ///
  /// The store draws a fence from one counter while the row is locked. So the fence is higher than all fences that
  /// checks of that kind and key ever had. If a transaction is undone, the fences that it has drawn stay drawn. If the
  /// server also dies then (in SQLite, if the process dies, or another process draws a fence), the store may draw these
  /// fences again.
  virtual void claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) = 0;
  /// Claims in the same way, in the order of `wanted` (at most 2 000), and stops when it has claimed `most`. So a node
  /// gets enough rows, even if other nodes have claimed some of the rows that it knows. By default, the call only tries
  /// the first `most`. \returns how many of `wanted` it has looked at.
  virtual std::size_t claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                                 std::vector<claimed>& got);
  /// Claims rows in the same way, and deletes them, because the transaction also does the job, and commits the job and
  /// the deletion together.
  virtual void consume(std::span<const upcoming> wanted, std::vector<claimed>& got) = 0;
  /// Writes a row again that this transaction has consumed. The row is due at `due`, with that attempt and the same
  /// fence. If the row was orphaned, it gets a lease that has ended; otherwise it is pending.
  virtual void put_back(const claimed& consumed, std::string_view kind, instant due, int attempt) = 0;
  /// Writes a row that this transaction has consumed to the dead.
  virtual void bury_consumed(const claimed& consumed, std::string_view kind, std::string_view error) = 0;

  /// Deletes claimed rows, because their jobs are done.
  virtual void complete(std::span<ticket> ops) = 0;
  /// Sets the end of the leases of claimed rows.
  virtual void extend(std::span<ticket> ops, instant lease) = 0;
  /// Gives claims up. The rows get another deadline and no lease; an orphaned row gets a lease that has ended.
  virtual void release(std::span<release_op> ops) = 0;
  /// Moves claimed rows to the dead.
  virtual void bury(std::span<bury_op> ops) = 0;

  /// For operators. \returns the checks that `store::list` returns, and locks their rows until the transaction ends:
  /// nobody claims, cancels or moves these checks meanwhile. Leaves out a row that another transaction has locked.
  [[nodiscard]] virtual std::vector<stored_check> list(const check_range& range);
  /// Makes dead checks pending again, due now, with attempt 0. Leaves out an id that is not there, and a check whose
  /// key another check has by now; of two dead checks with one key it takes that with the higher id. \returns how many
  /// it has made.
  virtual std::size_t revive_dead(std::span<const std::int64_t> ids);
  /// Deletes dead checks. \returns how many were there.
  virtual std::size_t delete_dead(std::span<const std::int64_t> ids);
  /// Writes checks that `store::read_all` of another store has read, as they were, but without a lease. Leaves out a
  /// check whose key another check has. From then on, this store draws fences above all that are in `checks` and
  /// `dead`.
  /// \returns how many of `checks` it has written. It writes all that are in `dead`. On PostgreSQL, the role needs
  /// `SELECT` and `UPDATE` on the sequence `fence`.
  virtual std::size_t restore(std::span<const stored_check> checks, std::span<const dead_check> dead);
  /// Pauses a kind: see `store::pause`.
  virtual bool pause(std::string_view kind);
  /// Ends a pause: see `store::resume`.
  virtual bool resume(std::string_view kind);
  /// Drains a node: see `store::drain`.
  virtual bool drain(std::string_view node);
  /// Lets a node claim again: see `store::end_drain`.
  virtual bool end_drain(std::string_view node);
  /// Writes a line of the audit. The line commits with the action that it tells of.
  /// \throws timer_error (`no_schema`) if `postgres_store` has tables of an older library.
  virtual void record(const audit_entry& entry);

  /// The deadline of a check that this transaction has consumed, and whose handler has yet to begin; for other checks,
  /// none.
  using due_of_waiting = std::function<std::optional<instant>(std::string_view kind, std::string_view key)>;
  /// From now on, `schedule` and `cancel` treat a check as running if `due_of` knows a deadline for it.
  void has_waiting(due_of_waiting due_of) noexcept { due_of_waiting_ = std::move(due_of); }

  /// Begins a part of the transaction that can be undone alone. Parts do not nest.
  virtual void savepoint() = 0;
  /// Begins a part in which no handler runs. By default it calls `savepoint`.
  virtual void own_savepoint() { savepoint(); }
  /// Undoes what was done in the part, and ends it.
  virtual void rollback_to_savepoint() = 0;
  /// Keeps what was done in the part, and ends it.
  virtual void release_savepoint() = 0;
  /// Throws if the statements of a handler have ended the transaction, or have made it fail. A node calls this after
  /// each handler that says that it is done, so that the next handler does not write outside of the transaction. If
  /// `rollback_to_savepoint` still works after a throw, the run counts as a retry; otherwise the store has failed. This
  /// call sends nothing to a server. By default it does nothing.
  virtual void check_open() {}
  /// Whether the statements of a handler have ended the transaction, perhaps by `COMMIT`. Then a node schedules again,
  /// by their keys, the checks that the transaction has consumed and whose handlers have not begun. By default: false.
  [[nodiscard]] virtual bool was_ended() const noexcept { return false; }
};

/// What a store has done since it was made.
struct store_counts {
  std::uint64_t statements = 0;   ///< Statements executed, without those on your own connections.
  std::uint64_t rows_read = 0;    ///< Rows that reads, claims and `consume` have returned.
  std::uint64_t commits = 0;      ///< Transactions that have written and committed.
  std::uint64_t round_trips = 0;  ///< Waits for an answer of the server; with SQLite there are none.
};

/// What `store::migrate` would do.
struct migration_plan {
  std::string from;                     ///< The version of the tables, such as "2.0"; empty if there are no tables.
  std::string to;                       ///< The version that this library makes. The same if there is nothing to do.
  std::vector<std::string> statements;  ///< In their order, for one transaction; none if there is nothing to do.
  /// Whether programs with the older library (that made the tables) can continue, during the migration and after it.
  /// Then `migrate` takes no lock that conflicts with reading or writing rows. If not, `migrate` locks the checks while
  /// it writes each of them anew, O(checks), and these programs are refused afterwards (`newer_schema`).
  bool additive = true;
};

/// Keeps checks, a row for each. The row is the truth; what a node remembers of the row is a hint.
///
/// Thread safety: any thread may call any member. A read may run beside a transaction. Errors: if the database refuses,
/// every member throws timer_error with the code and the words of the database, and has changed nothing. There is one
/// exception. If the answer to a commit is lost, the change may have happened all the same.
class TIMING_WHEEL_EXPORT store {
 public:
  store() = default;
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  virtual ~store() = default;

  /// Makes the tables, or brings those of an older version up to date. Call it once; a further call does nothing. On
  /// PostgreSQL, if a version only adds to the tables, only a call by their owner makes the additions; calls by other
  /// roles leave them out.
  /// \throws timer_error (`newer_schema`) if a newer library has made them.
  virtual void migrate() = 0;

  /// Changes nothing. \returns what `migrate` would do now; by default an empty plan, as for a store that has no
  /// tables.
  /// \throws timer_error (`newer_schema`) as `migrate`.
  [[nodiscard]] virtual migration_plan plan_migration();

  /// What the database's clock shows.
  [[nodiscard]] virtual instant now() = 0;

  /// How long the parts of a request may be.
  [[nodiscard]] virtual const request_limits& limits() const noexcept = 0;

  /// Runs `work` in a transaction that may write. When `work` returns, commits; after the commit, all of it is durable.
  /// If `work` throws, undoes the transaction, and throws the same. Other transactions may run meanwhile, or wait.
  virtual void transact(const std::function<void(store_transaction&)>& work) = 0;

  /// Does what `transact` does, within `limits`. By default it calls `transact`, and heeds no limit.
  virtual void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work);

  /// Does what `transact_within` does, and consumes `wanted` before it calls `work`: `got` has the rows then. A store
  /// may begin and consume in one round trip.
  virtual void consume_within(const transaction_limits& limits, std::span<const upcoming> wanted,
                              std::vector<claimed>& got, const std::function<void(store_transaction&)>& work);

  /// Does what `transact_within` with one `append` does, in one statement that commits by itself: one round trip, and
  /// not three. \returns false, and has written nothing, if that cannot be done here and now; then use a transaction.
  /// It returns false if one of the keys is taken; by default, always. If it throws, nobody knows whether the checks
  /// were written.
  virtual bool append_at_once(const transaction_limits& limits, std::span<append_op> ops);

  /// Does what `transact_within` with `complete` and `claim_some` does, in one statement that commits by itself.
  /// \returns false, and has written nothing, if that cannot be done here and now; then use a transaction. It returns
  /// false if another transaction keeps one of the rows to complete locked for `lock_wait`; by default, always. If it
  /// throws, nobody knows whether anything was written: then claims that were made end with their leases, as those of a
  /// dead node do.
  virtual bool complete_and_claim_at_once(const transaction_limits& limits, lease_round& round);

  /// Adds the rows of `which` to `found`, also those with a lease and those of paused kinds. Complexity: O(rows due in
  /// that range of time), rows of other kinds included, however many rows lie outside of it.
  virtual void read_ahead(const read_range& which, std::vector<upcoming>& found) = 0;

  /// Adds to `found` each kind of which a check is due and **free**: no node has claimed it, or the lease has ended. So
  /// it also finds checks that no node knows, and kinds that no node has a handler for. A row that an open transaction
  /// has locked, or has deleted and not committed, counts as it was before. By default it adds nothing.
  ///
  /// | store | reads |
  /// |---|---|
  /// | `sqlite_store` | of each kind what is due, up to the first free row |
  /// | `postgres_store` | what is due, up to the 5 000th free row: a kind that is not among these is left out |
  /// | `memory_store` | all that is due |
  virtual void read_overdue(std::vector<overdue_kind>& found);

  /// How far the wall clock of this process is ahead of the store's clock; negative if it is behind. By default 0,
  /// because a store may have no clock but that of its process.
  [[nodiscard]] virtual std::chrono::microseconds clock_difference();

  /// A store may divide its table into **shares**, so that nodes do not read the same rows. The call renews this node's
  /// shares for `hold`, takes shares that no node has, and gives up those beyond its part. The living nodes that serve
  /// the same `kinds` (in whatever order they list them) get about equally many shares each. Nodes that serve another
  /// set of kinds divide all shares among themselves once more. With `leave` the node gives up all its shares.
  ///
  /// | nodes of one set | shares of 64 |
  /// |---|---|
  /// | 1 | 64 |
  /// | 3 | 21 or 22 each |
  ///
  /// Two nodes that both believe to have a share do no harm, because a claim decides which of them runs a check.
  /// \returns the shares that this node has; none if the store is not divided, so that a node reads all of it.
  [[nodiscard]] virtual std::optional<std::vector<std::int16_t>> renew_shares(std::string_view node,
                                                                              std::span<const std::string> kinds,
                                                                              std::chrono::milliseconds hold,
                                                                              bool leave = false);

  /// \returns the check of that key; none if there is no such check.
  [[nodiscard]] virtual std::optional<stored_check> find(std::string_view kind, std::string_view key) = 0;

  /// \returns checks, see `check_range`.
  ///
  /// | filter | complexity |
  /// |---|---|
  /// | none, `kind`, `due_before`, `due`, `waiting`, `running` | O(limit), if most of the first checks match |
  /// | `pending`, `due_after` | the same |
  /// | `kind`, if few of the first match | O(limit) on SQLite; on PostgreSQL O(checks of the kind) up to 300 000 |
  /// | `key_prefix` | O(checks whose keys begin so) |
  /// | `kind`, in the order of the keys (`check_range::from_key`) | O(limit) |
  /// | `retrying`, `suspect` | O(checks), if few match |
  [[nodiscard]] virtual std::vector<stored_check> list(const check_range& range);
  /// \returns how many checks `which` means, and at most `most`. Complexity: as `list`, with `most` for `limit`.
  [[nodiscard]] virtual std::size_t count(const check_filter& which, std::size_t most);
  /// \returns the counts of each kind that has a check, a dead check or a pause, in the order of the kinds. For each
  /// figure, the store looks at no more than `most` rows. For all figures but `pending` and `dead`, these are the rows
  /// that are due first. If there are more rows than `most`, `postgres_store` looks at a tenth of `most` of the rows
  /// that are not due, so `retrying` may be too low. Complexity: O(kinds × most). `median_waiting` and `p99_waiting`
  /// are set if `with_waits`; on PostgreSQL it takes up to twice as long then, because the server sorts the rows.
  [[nodiscard]] virtual std::vector<kind_counts> count_kinds(std::size_t most = 100'000, bool with_waits = false);
  /// \returns the nodes that are alive, or have gone silent within the last day; none if the store does not know them,
  /// as `sqlite_store` and `memory_store` do not.
  [[nodiscard]] virtual std::optional<std::vector<node_info>> nodes();

  /// \returns dead checks, see `dead_range`.
  [[nodiscard]] virtual std::vector<dead_check> list_dead(const dead_range& range) = 0;
  /// \returns the first `limit` dead checks behind the id `after`.
  [[nodiscard]] std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0) {
    return list_dead({.limit = limit, .after = after});
  }
  /// \returns the dead checks by kind and error, at most `limit` groups, those with most checks first. The store looks
  /// at no more than the `most` that died last. Complexity: O(most).
  [[nodiscard]] virtual std::vector<dead_group> count_dead(const dead_filter& which, std::size_t limit,
                                                           std::size_t most = 1'000'000);
  /// Reads all checks and all dead checks, as they are at one moment, in any order, while others change them. Only
  /// `memory_store` keeps them all in memory. The two functions must not call this store. Meanwhile `postgres_store`
  /// removes no dead row versions, `sqlite_store` copies none of its log into the file, and delays other reads of this
  /// object. By default it is refused (`std::errc::operation_not_supported`). \throws what the functions throw, and
  /// ends then.
  virtual void read_all(const std::function<void(stored_check&&)>& check,
                        const std::function<void(dead_check&&)>& dead);
  /// Makes a dead check pending again, due now, with attempt 0. \returns false if there is no such dead check, or if
  /// another check has its key by now.
  bool revive_dead(std::int64_t id);
  /// Deletes a dead check. \returns whether there was such a check.
  bool delete_dead(std::int64_t id);

  /// Pauses a kind. From its next poll on, no node claims a check of that kind, also after a restart; what is claimed
  /// goes on. Checks of the kind may be scheduled, moved and cancelled meanwhile, and grow late. A scheduler of release
  /// 0.1.0 does not heed a pause. \returns false if the kind was paused already.
  /// \throws timer_error (`invalid_request`, `kind_too_long`) if no check can have that kind; (`no_schema`) if
  /// `postgres_store` has tables of an older library; `std::errc::operation_not_supported` if the store has no pauses.
  bool pause(std::string_view kind);
  /// Ends a pause. From its next poll on, a node runs what is due of that kind. \returns false if the kind was not
  /// paused. \throws as `pause`.
  bool resume(std::string_view kind);
  /// \returns the kinds that are paused, in their order; by default none.
  [[nodiscard]] virtual std::vector<paused_kind> paused_kinds();

  /// Drains a node. From its next poll on, the node of that name claims nothing, gives back what has not begun, and
  /// gives up its shares; what runs goes on. The node also stays drained after a restart with that name. A scheduler of
  /// release 0.1.0 does not heed that. \returns false if the node was drained already.
  /// \throws timer_error (`invalid_request`) if no node can have that name; (`no_schema`) if `postgres_store` has
  /// tables of an older library; `std::errc::operation_not_supported` if the store has no drains.
  bool drain(std::string_view node);
  /// Lets a node claim again, from its next poll on. \returns false if it was not drained. \throws as `drain`.
  bool end_drain(std::string_view node);
  /// \returns the nodes that are drained, in the order of their names; by default none.
  [[nodiscard]] virtual std::vector<drained_node> drained_nodes();
  /// A drained node calls this, and so tells that it still has `held` checks, which run, or whose ends are not written.
  /// By default the call does nothing. If the node is not drained, nothing happens.
  virtual void tell_drained(std::string_view node, std::size_t held);

  /// \returns the long runs that nodes have told of and whose checks have not ended since, in the order of their
  /// begins; by default none. Complexity: O(told).
  [[nodiscard]] virtual std::vector<long_run> long_runs();
  /// A node calls this to tell of its long runs, at most 1 000: the `id`, `fence` and `begun` of each. They take the
  /// place of the runs that the node told of before. By default, and if `postgres_store` has tables of an older library
  /// or its role may not write them, the call does nothing.
  virtual void tell_long_runs(std::string_view node, std::span<const long_run> runs);

  /// \returns why the checks with these ids run again, in the order of the ids: of each, the last failed run that its
  /// node has told of. The check may have failed again since then. By default the result is empty. Complexity: O(ids).
  [[nodiscard]] virtual std::vector<failed_run> failed_runs(std::span<const std::int64_t> ids);
  /// A node calls this soon after runs have failed, at most once in five seconds. It tells of at most 1 000 checks that
  /// run again after a failed run: the `id`, `attempt` and `error` of each. Each takes the place of what was told of
  /// that check before; a check that is gone is left out. If `runs` is empty, the store forgets what was told of checks
  /// that are gone: O(told). By default, and if `postgres_store` has tables of an older library or its role may not
  /// write them, the call does nothing.
  virtual void tell_failed_runs(std::string_view node, std::span<const failed_run> runs);

  /// \returns the runs that nodes have told of within the last minute; what has happened within the last five seconds
  /// may be missing. The result is none by default, if no node has told of a run yet, and if `postgres_store` has
  /// tables of an older library. Complexity: O(nodes).
  [[nodiscard]] virtual std::optional<run_counts> runs_of_last_minute();
  /// A node calls this at most once in five seconds, to tell of the runs since its last call. The store keeps these
  /// counts for a minute or more. By default, and if `postgres_store` has tables of an older library or its role may
  /// not write them, the call does nothing.
  virtual void tell_runs(std::string_view node, const run_counts& since);

  /// \returns the newest `limit` lines of the audit, the newest first; by default none. See
  /// `store_transaction::record`.
  [[nodiscard]] virtual std::vector<audit_entry> audit(std::size_t limit);

  /// What the store has done since it was made.
  [[nodiscard]] virtual store_counts counts() const noexcept = 0;
};

}  // namespace timing_wheel::durable
