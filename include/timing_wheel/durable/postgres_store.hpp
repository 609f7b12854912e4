#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/store.hpp"

extern "C" {
struct pg_conn;  // PGconn of libpq
}

namespace timing_wheel::durable {

/// The category of PostgreSQL's error codes (SQLSTATE), by the name "postgres": the five characters as a number in base
/// 36. `message` gives the characters back.
[[nodiscard]] TIMING_WHEEL_EXPORT const std::error_category& postgres_category() noexcept;

/// How a database is used.
struct postgres_options {
  /// The schema of the tables. Quoted, so any name will do.
  std::string schema = "timing_wheel";
  /// Connections at a time, at most. In [1, 64]. They are opened when they are needed.
  std::size_t connections = 4;
  /// How long to try to connect, over all hosts of the connection string, before a call fails. In
  /// [1 ms, 1 000 000 s], some eleven days.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5);
  /// How long one statement may take, waiting for locks included. It also ends the wait for a server that is silent. In
  /// the same range, and so is the next.
  std::chrono::milliseconds statement_timeout = std::chrono::seconds(10);
  /// How long a transaction may do nothing, for a process that is frozen: afterwards the server ends it, and the
  /// connection. In the transactions of a scheduler's jobs its lease takes this place.
  std::chrono::milliseconds transaction_timeout = std::chrono::seconds(30);
  /// Prepare the statements. Behind PgBouncer it must be false.
  bool prepare = true;
  /// What may be written.
  request_limits limits = {};
};

/// Checks in a PostgreSQL database (13 or newer), which any number of nodes may use at a time.
///
/// The connection string is libpq's: several hosts, TLS and a service file are as there. A connection that breaks is
/// replaced; the call that met it fails, unless nothing had been sent. Every decision is made by the clock of the
/// server. A role that may use the tables is enough, see docs/postgres.md; only `migrate` has to own the schema.
class TIMING_WHEEL_EXPORT postgres_store final : public store {
 public:
  /// Connects once, to see that it can.
  /// \throws timer_error with the SQLSTATE and the server's words; without the password. `invalid_option`.
  explicit postgres_store(const std::string& conninfo, const postgres_options& options = {});
  ~postgres_store() override;

  void migrate() override;
  [[nodiscard]] instant now() override;
  [[nodiscard]] const request_limits& limits() const noexcept override;
  void transact(const std::function<void(store_transaction&)>& work) override;
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override;
  void read_ahead(const window& which, std::vector<upcoming>& found) override;
  [[nodiscard]] std::optional<std::vector<std::int16_t>> take_shares(std::string_view node,
                                                                     std::span<const std::string> kinds,
                                                                     std::chrono::milliseconds hold,
                                                                     bool leave = false) override;
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override;
  [[nodiscard]] std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0) override;
  bool retry_dead(std::int64_t id) override;
  bool delete_dead(std::int64_t id) override;
  [[nodiscard]] store_counts counts() const noexcept override;

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

/// Where the tables are, for calls on a user's own connection.
struct postgres_target {
  std::string_view schema = "timing_wheel";  ///< As in `postgres_options`.
  request_limits limits = {};                ///< What may be written.
};

/// Schedules in the transaction that is open on `connection`, the user's own: the check exists if, and only if, that
/// transaction commits. One statement, and one round trip. A scheduler sees it at its next look. Each call
/// has its statement planned anew; a `postgres_session` keeps it.
/// \throws timer_error as `scheduler::schedule`; after an error of the server the transaction is to be rolled back.
/// Thread safety: as the connection.
TIMING_WHEEL_EXPORT scheduled schedule(pg_conn* connection, const request& asked, const postgres_target& target = {});
/// Cancels in the transaction that is open on `connection`.
TIMING_WHEEL_EXPORT cancel_answer cancel(pg_conn* connection, std::string_view kind, std::string_view key,
                                         const postgres_target& target = {});
/// Moves in the transaction that is open on `connection`.
TIMING_WHEEL_EXPORT reschedule_result reschedule(pg_conn* connection, std::string_view kind, std::string_view key,
                                                 due_time due, const postgres_target& target = {});

/// The same calls, with their statements prepared once and kept: for a connection that makes many of them. A `schedule`
/// takes the server half the time, since it plans nothing.
///
///     durable::postgres_session session(connection);
///     execute(connection, "BEGIN");
///     insert_order(connection, order);
///     session.schedule({.kind = "verify", .key = order.id, .payload = {}, .due = 30min});
///     execute(connection, "COMMIT");
///
/// The first use of each statement takes a round trip more, and so does that of one that searches (a cancel, a
/// reschedule, a replacement) once in a second: then it is planned for the table as it has become. Settings of the
/// connection stay as they are. `DISCARD ALL` or `DEALLOCATE ALL` on it make later calls fail with SQLSTATE 26000, as a
/// pooler does that shares connections (PgBouncer in transaction mode): there use the functions. A connection that
/// `PQreset` has made anew is noticed.
///
/// Destroy it before the connection is closed. Thread safety: as the connection.
class TIMING_WHEEL_EXPORT postgres_session {
 public:
  /// Prepares nothing yet. `connection` must outlive it.
  /// \throws timer_error if there is none.
  explicit postgres_session(pg_conn* connection, const postgres_target& target = {});
  /// Takes the statements over. The other one may only be destroyed or assigned to.
  postgres_session(postgres_session&& other) noexcept;
  /// The same; its own statements are deallocated.
  postgres_session& operator=(postgres_session&& other) noexcept;
  /// Deallocates the statements, unless the connection is busy, broken, or in a transaction that has failed: then they
  /// stay as long as it does.
  ~postgres_session();

  /// As the function `schedule(pg_conn*, request)`.
  scheduled schedule(const request& asked);
  /// As the function `cancel(pg_conn*, kind, key)`.
  cancel_answer cancel(std::string_view kind, std::string_view key);
  /// As the function `reschedule(pg_conn*, kind, key, due)`.
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

/// The connection of a transactional handler's transaction. Null if the store is none of PostgreSQL.
[[nodiscard]] TIMING_WHEEL_EXPORT pg_conn* postgres_connection(transaction& open) noexcept;

}  // namespace timing_wheel::durable
