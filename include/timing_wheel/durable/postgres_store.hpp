#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/forwarding_store.hpp"
#include "timing_wheel/durable/store.hpp"

extern "C" {
struct pg_conn;  // PGconn of libpq
}

namespace timing_wheel::durable {

/// The category of PostgreSQL's error codes (SQLSTATE), by the name "postgres". A code is the five characters as a
/// number in base 36; `message` gives the characters back.
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& postgres_category() noexcept;

/// How a store uses its database.
struct postgres_options {
  /// The schema of the tables. The store quotes it, so any name will do.
  std::string schema = "timing_wheel";
  /// How many connections the store has at a time, at most, beside one for the extension of leases and one for
  /// `vacuum`. In [1, 64]. It opens each when it needs one more.
  std::size_t connections = 4;
  /// If none of the connection string's hosts accepts a connection in this time, the call fails. From 1 ms to
  /// 1 000 000 s, some eleven days.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5);
  /// How long one statement may take, including its wait for locks. If the server is silent for a second longer, the
  /// call fails, too. A `migrate` that is not additive writes all checks anew, and has no limit while it does so. Range
  /// of `statement_timeout` and `transaction_timeout`: as of `connect_timeout`.
  std::chrono::milliseconds statement_timeout = std::chrono::seconds(10);
  /// If a transaction does nothing for that long, because its process is frozen, the server ends the transaction and
  /// the connection. For the transactions of a scheduler's jobs, `scheduler_options::lease` takes this place.
  std::chrono::milliseconds transaction_timeout = std::chrono::seconds(30);
  /// Whether the constructor connects, to see that it can. False: the first call does, so a program may begin before
  /// its server; see `scheduler_options::wait_for_store`.
  bool connect_at_once = true;
  /// Whether the store prepares its statements. Behind PgBouncer it must be false.
  bool prepare = true;
  /// Whether the store vacuums the table of checks. It needs `prepare`, and a role that owns the table (from PostgreSQL
  /// 17 on: one that has `MAINTAIN`). When 50 000 runs of the store have ended, and 50 000 rows plus 5 % of the table
  /// are dead, the store runs a `VACUUM` in a thread and on a connection of its own. The destructor cancels one that is
  /// under way.
  bool vacuum = true;
  /// How long the parts of a request may be.
  request_limits limits = {};
};

/// Keeps checks in a PostgreSQL database (13 or newer), which several nodes may use at a time; docs/scale.md says how
/// many were measured.
///
/// The connection string is libpq's, so it may name several hosts, TLS and a service file. If a connection breaks, the
/// store opens another one; the call that met the broken one fails, unless it had sent nothing yet. The clock of the
/// server makes every decision. A role that may use the tables is enough; for what `migrate` needs, see
/// docs/postgres.md.
///
/// `store` describes the inherited members. Thread safety: any thread.
class TIMING_WHEEL_EXPORT postgres_store final : public forwarding_store {
 public:
  /// Connects once, to see that it can, unless the options say not to.
  /// \throws timer_error with the SQLSTATE and the server's words, never with the password; `invalid_option`.
  explicit postgres_store(const std::string& conninfo, const postgres_options& options = {});
  ~postgres_store() override;

 private:
  class TIMING_WHEEL_LOCAL implementation;
  TIMING_WHEEL_LOCAL explicit postgres_store(std::unique_ptr<implementation> inside);
  std::unique_ptr<implementation> implementation_;
};

/// Where the tables are, for calls on your own connection.
struct postgres_target {
  std::string_view schema = "timing_wheel";  ///< As in `postgres_options`.
  request_limits limits = {};                ///< How long the parts of a request may be.
};

/// Schedules in the transaction that is open on `connection`, which is your own. The check exists if, and only if, that
/// transaction commits. The call is one statement, so one round trip; if it replaces a check, it sets a savepoint, as
/// `cancel` and `reschedule` do, which takes three. A scheduler sees the check at its next look. The server plans the
/// statement of each call anew; a `postgres_session` keeps the plan.
/// \throws timer_error as `scheduler::schedule`. If the connection is busy or in pipeline mode, the code is
/// SQLSTATE 55000, and the transaction goes on. The same happens if the kind has characters outside ASCII, unless
/// `client_encoding` is UTF8, or is SQL_ASCII with a database in UTF8 or SQL_ASCII. After an error of the server you
/// have to roll the transaction back. Thread safety: that of the connection.
TIMING_WHEEL_EXPORT scheduled schedule(pg_conn* connection, const request& asked, const postgres_target& target = {});
/// Cancels in the transaction that is open on `connection`: see `scheduler::cancel`. \throws timer_error
/// (`invalid_request`) if the kind is not UTF-8 or has a zero byte, or SQLSTATE 55000 as `schedule` above; the
/// transaction goes on. After an error of the server you have to roll it back.
TIMING_WHEEL_EXPORT cancel_answer cancel(pg_conn* connection, std::string_view kind, std::string_view key,
                                         const postgres_target& target = {});
/// Moves a check in the transaction that is open on `connection`: see `scheduler::reschedule`. Errors as `cancel`.
TIMING_WHEEL_EXPORT reschedule_result reschedule(pg_conn* connection, std::string_view kind, std::string_view key,
                                                 due_time due, const postgres_target& target = {});

/// Makes the same calls, but prepares each statement once and keeps it, for a connection that makes many calls. A
/// `schedule` then takes the server half the time, since it plans nothing.
///
///     durable::postgres_session session(connection);
///     execute(connection, "BEGIN");
///     insert_order(connection, order);
///     session.schedule({.kind = "verify", .key = order.id, .payload = {}, .due = 30min});
///     execute(connection, "COMMIT");
///
/// | call | round trips |
/// |---|---|
/// | the first use of a statement | one more, to prepare it |
/// | a cancel, a reschedule or a `replace`, a second or more after its last preparation | two more, to prepare anew |
/// | any other | as the function |
///
/// The session changes no setting of the connection. After `DISCARD ALL` or `DEALLOCATE ALL` on it, later calls fail
/// with SQLSTATE 26000. So do calls behind a pooler that shares connections (PgBouncer in transaction mode): use the
/// functions there. If `PQreset` has made the connection anew, the session notices that.
///
/// Destroy the session before you close the connection. Thread safety: that of the connection.
class TIMING_WHEEL_EXPORT postgres_session {
 public:
  /// Prepares nothing yet. `connection` must outlive the session. \throws timer_error if `connection` is null.
  explicit postgres_session(pg_conn* connection, const postgres_target& target = {});
  /// Takes the statements over. The other session may only be destroyed or assigned to.
  postgres_session(postgres_session&& other) noexcept;
  /// The same; the statements that this session had are deallocated.
  postgres_session& operator=(postgres_session&& other) noexcept;
  /// Deallocates the statements. If the connection is busy, broken, or in a transaction that has failed, they stay as
  /// long as the connection does.
  ~postgres_session();

  /// Does what the function `schedule(pg_conn*, request)` does.
  scheduled schedule(const request& asked);
  /// Does what the function `cancel(pg_conn*, kind, key)` does.
  cancel_answer cancel(std::string_view kind, std::string_view key);
  /// Does what the function `reschedule(pg_conn*, kind, key, due)` does.
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

/// The connection of a transactional handler's transaction. Null unless the store is a `postgres_store`.
[[nodiscard]] TIMING_WHEEL_EXPORT pg_conn* postgres_connection(transaction& open) noexcept;

/// Prepares a statement on the connection of a transactional handler's transaction, unless it was prepared there. So
/// the server parses the statement once for a connection, and not for each check; after some calls it keeps the plan.
/// Run the statement on `postgres_connection(open)`, by `PQexecPrepared`.
///
/// A prepared statement stays as long as its connection. So do not make a text for each check, and name the columns of
/// a SELECT: if somebody adds a column to the table, the server refuses a prepared `SELECT *` (SQLSTATE 0A000). Do not
/// deallocate the statement. With `postgres_options::prepare` false, each call prepares the unnamed statement, and
/// every other use of the connection replaces it, also `transaction::schedule`: run the statement at once.
/// \returns the name of the statement, for `PQexecPrepared`; the pointer is valid until the transaction ends.
/// \throws timer_error with the server's code if it refuses the statement, and then the transaction is to be undone;
/// `timer_errc::invalid_option` unless the store is a `postgres_store`; std::bad_alloc. Complexity: O(statements
/// prepared on the connection); one round trip if it prepares.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* postgres_prepare(transaction& open, const std::string& sql);

}  // namespace timing_wheel::durable
