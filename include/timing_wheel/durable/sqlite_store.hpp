#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/store.hpp"

struct sqlite3;

namespace timing_wheel::durable {

/// The category of SQLite's extended result codes, by the name "sqlite". Their texts are SQLite's.
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& sqlite_category() noexcept;

/// How a file is opened.
struct sqlite_options {
  /// How long to wait for the lock of another process before `SQLITE_BUSY`. It counts from the call, also while others
  /// of this store wait for that lock. Calls that share a commit have that of the first. Not negative;
  /// at `std::chrono::milliseconds::max()` it is as long as it takes.
  std::chrono::milliseconds busy_timeout = std::chrono::seconds(5);
  /// Look through the whole file when it is opened (`PRAGMA integrity_check`). Complexity: O(file).
  bool check_integrity = false;
  /// What may be written.
  request_limits limits = {};
};

/// Checks in an SQLite file, which several processes of one host may use at a time.
///
/// The file is in WAL mode with `synchronous=FULL`: what has been committed survives a power failure. Every transaction
/// that writes begins as `BEGIN IMMEDIATE`. The tables are called `timing_wheel_…`, so they can lie beside the user's
/// own in one file: then order and check are written in one transaction, see `schedule(sqlite3*, request)`.
///
/// **One file, one clock.** All processes on a file use the clock that its first user after the machine's start saw:
/// the wall clock then, and the time since the start of the machine from there on. So neither a process with another
/// wall clock nor a step of the wall clock makes a check early. `clock_difference` shows how far the wall clock is from
/// it; `adopt_wall_clock` sets it anew.
class TIMING_WHEEL_EXPORT sqlite_store final : public store {
 public:
  /// Opens the file, and makes it if there is none. Makes no table: see `migrate`.
  /// \throws timer_error with SQLite's code: no such folder, no permission, read-only, not a database; `store_damaged`.
  explicit sqlite_store(const std::string& file, const sqlite_options& options = {});
  ~sqlite_store() override;

  void migrate() override;
  [[nodiscard]] instant now() override;
  [[nodiscard]] const request_limits& limits() const noexcept override;
  void transact(const std::function<void(store_transaction&)>& work) override;
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override;
  void read_ahead(const window& which, std::vector<upcoming>& found) override;
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override;
  [[nodiscard]] std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0) override;
  bool retry_dead(std::int64_t id) override;
  bool delete_dead(std::int64_t id) override;
  [[nodiscard]] store_counts counts() const noexcept override;

  /// The wall clock of this process, less the clock of the file.
  [[nodiscard]] std::chrono::microseconds clock_difference();
  /// Sets the clock of the file to the wall clock of this process. Other processes see it at their next transaction.
  void adopt_wall_clock();

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

/// Schedules in the transaction that is open on `connection`, the user's own on the same file: the check exists if, and
/// only if, that transaction commits. A scheduler sees it at its next look, so a check that is due before that is late
/// by one `scheduler_options::poll` at most. The connection needs a busy timeout of its own. Each call prepares its
/// statements anew; a `sqlite_session` keeps them.
/// \throws timer_error as `scheduler::schedule`. Thread safety: as the connection.
TIMING_WHEEL_EXPORT scheduled schedule(sqlite3* connection, const request& asked, const request_limits& limits = {});
/// Cancels in the transaction that is open on `connection`.
TIMING_WHEEL_EXPORT cancel_answer cancel(sqlite3* connection, std::string_view kind, std::string_view key);
/// Moves in the transaction that is open on `connection`.
TIMING_WHEEL_EXPORT reschedule_result reschedule(sqlite3* connection, std::string_view kind, std::string_view key,
                                                 due_time due);

/// The same calls, with their statements prepared once and kept: for a connection that makes many of them, a fifth of
/// the time.
///
///     durable::sqlite_session session(connection);
///     execute(connection, "BEGIN IMMEDIATE");
///     insert_order(connection, order);
///     session.schedule({.kind = "verify", .key = order.id, .payload = {}, .due = 30min});
///     execute(connection, "COMMIT");
///
/// Destroy it before the connection is closed: `sqlite3_close` refuses (`SQLITE_BUSY`) while there are statements.
/// Thread safety: as the connection.
class TIMING_WHEEL_EXPORT sqlite_session {
 public:
  /// Prepares nothing yet. `connection` must outlive it.
  explicit sqlite_session(sqlite3* connection, const request_limits& limits = {});
  /// Takes the statements over. The other one may only be destroyed or assigned to.
  sqlite_session(sqlite_session&& other) noexcept;
  /// The same; its own statements are finalized.
  sqlite_session& operator=(sqlite_session&& other) noexcept;
  /// Finalizes the statements.
  ~sqlite_session();

  /// As the function `schedule(sqlite3*, request)`.
  scheduled schedule(const request& asked);
  /// As the function `cancel(sqlite3*, kind, key)`.
  cancel_answer cancel(std::string_view kind, std::string_view key);
  /// As the function `reschedule(sqlite3*, kind, key, due)`.
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

/// The connection of a transactional handler's transaction. Null if the store is none of SQLite.
[[nodiscard]] TIMING_WHEEL_EXPORT sqlite3* sqlite_connection(transaction& open) noexcept;

}  // namespace timing_wheel::durable
