#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/forwarding_store.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/timer.hpp"

struct sqlite3;

namespace timing_wheel::durable {

/// The category of SQLite's extended result codes, by the name "sqlite". `message` gives SQLite's own text.
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& sqlite_category() noexcept;

/// How a store opens its file.
struct sqlite_options {
  /// If another process keeps the file locked for longer than this, a call fails with `SQLITE_BUSY`. The time counts
  /// from the call, or from the last moment when this store had the lock, whichever is later. If calls share a commit,
  /// the first of them counts. Not negative. At `std::chrono::milliseconds::max()` a call waits as long as it takes.
  std::chrono::milliseconds busy_timeout = std::chrono::seconds(5);
  /// Whether the constructor looks through the whole file for damage (`PRAGMA integrity_check`). Complexity: O(file).
  bool check_integrity = false;
  /// How long the parts of a request may be.
  request_limits limits = {};
  /// Opens a file that is there, and only reads: a call that would write fails with `SQLITE_READONLY`. SQLite needs the
  /// `-shm` of the file, or the right to make it. If no process has used the file to write since the machine's start,
  /// the store shows the wall clock (see `sqlite_store`).
  bool read_only = false;
};

/// Keeps checks in an SQLite file, which several processes of one host may use at a time.
///
/// The file is in WAL mode with `synchronous=FULL`: a check that was committed survives a power failure. Every
/// transaction that writes begins with `BEGIN IMMEDIATE`. The names of all tables begin with `timing_wheel_`, so your
/// own tables may lie in the same file. Then one transaction writes both the order and its check, see
/// `schedule(sqlite3*, request)`.
///
/// **One file, one clock.** The first process that uses a file after the machine's start notes the wall clock. From
/// then on, all processes count the time since the machine's start from there. So a check is not early if a process has
/// another wall clock, or if the wall clock is set:
///
/// | the machine is up for | the wall clock shows | the file's clock shows |
/// |---|---|---|
/// | 1 min | 12:00, and a process opens the file | 12:00 |
/// | 11 min | 12:10 | 12:10 |
/// | 12 min | 13:11, since somebody has set it an hour ahead | 12:11 |
///
/// `clock_difference` shows how far the two clocks are apart (here an hour); `adopt_wall_clock` sets the file's clock
/// to the wall clock. `store` describes the inherited members. Thread safety: any thread.
class TIMING_WHEEL_EXPORT sqlite_store final : public forwarding_store {
 public:
  /// Opens the file, or creates it if there is none. `migrate` creates the tables.
  /// \throws timer_error with SQLite's code, if the folder is missing, if there is no permission, or if the file is
  /// read-only or not a database; `store_damaged` if `check_integrity` has found damage.
  explicit sqlite_store(const std::string& file, const sqlite_options& options = {});
  /// Keeps the checks in a database in memory, for tests; nothing survives the object. The clock of the store is that
  /// of `clock`, which must outlive the store; the zero of a `manual_timer` is 1970-01-01. If the timer also drives the
  /// scheduler, handlers with SQL run in virtual time. There is one connection, so a read waits for the transactions of
  /// other threads.
  ///
  ///     timing_wheel::manual_timer timer;
  ///     durable::sqlite_store store(timer);
  ///     store.migrate();
  ///     execute(store.connection(), "CREATE TABLE orders(id TEXT, state TEXT)");
  ///     durable::scheduler checks(store, timer);
  explicit sqlite_store(const timer& clock, const sqlite_options& options = {});
  ~sqlite_store() override;

  /// Sets the clock of the file to the wall clock of this process. Other processes follow at their next transaction.
  void adopt_wall_clock();
  /// The only connection of a store in memory, for your own tables and transactions, and for the functions below. While
  /// a transaction of yours is open on it, the scheduler cannot write (`SQLITE_BUSY`), so end it before time goes on.
  /// Null for a store on a file. Thread safety: use it while no other thread uses the store.
  [[nodiscard]] sqlite3* connection() const noexcept;

 private:
  class TIMING_WHEEL_LOCAL implementation;
  TIMING_WHEEL_LOCAL explicit sqlite_store(std::unique_ptr<implementation> inside);
  std::unique_ptr<implementation> implementation_;
};

/// Schedules in the transaction that is open on `connection`, which is your own connection to the file. The check
/// exists if, and only if, that transaction commits. A scheduler sees the check at its next look: if the check is due
/// earlier, it is late by one `scheduler_options::poll` at most.
///
/// The connection needs a busy handler of its own, see docs/durable.md. Each call prepares its statements anew; a
/// `sqlite_session` keeps them.
/// \throws timer_error as `scheduler::schedule`. Thread safety: that of the connection.
TIMING_WHEEL_EXPORT scheduled schedule(sqlite3* connection, const request& asked, const request_limits& limits = {});
/// Cancels in the transaction that is open on `connection`: see `scheduler::cancel`.
TIMING_WHEEL_EXPORT cancel_answer cancel(sqlite3* connection, std::string_view kind, std::string_view key);
/// Moves a check in the transaction that is open on `connection`: see `scheduler::reschedule`.
TIMING_WHEEL_EXPORT reschedule_result reschedule(sqlite3* connection, std::string_view kind, std::string_view key,
                                                 due_time due);

/// Makes the same calls, but prepares each statement once and keeps it. If a connection makes many calls, each takes a
/// fifth of the time.
///
///     durable::sqlite_session session(connection);
///     execute(connection, "BEGIN IMMEDIATE");
///     insert_order(connection, order);
///     session.schedule({.kind = "verify", .key = order.id, .payload = {}, .due = 30min});
///     execute(connection, "COMMIT");
///
/// Destroy the session before you close the connection, because `sqlite3_close` refuses (`SQLITE_BUSY`) while there are
/// statements. Thread safety: that of the connection.
class TIMING_WHEEL_EXPORT sqlite_session {
 public:
  /// Prepares nothing yet. `connection` must outlive the session.
  explicit sqlite_session(sqlite3* connection, const request_limits& limits = {});
  /// Takes the statements over. The other session may only be destroyed or assigned to.
  sqlite_session(sqlite_session&& other) noexcept;
  /// The same; the statements that this session had are finalized.
  sqlite_session& operator=(sqlite_session&& other) noexcept;
  /// Finalizes the statements.
  ~sqlite_session();

  /// Does what the function `schedule(sqlite3*, request)` does.
  scheduled schedule(const request& asked);
  /// Does what the function `cancel(sqlite3*, kind, key)` does.
  cancel_answer cancel(std::string_view kind, std::string_view key);
  /// Does what the function `reschedule(sqlite3*, kind, key, due)` does.
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

/// The connection of a transactional handler's transaction. Null unless the store is an `sqlite_store`.
[[nodiscard]] TIMING_WHEEL_EXPORT sqlite3* sqlite_connection(transaction& open) noexcept;

}  // namespace timing_wheel::durable
