#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "durable/postgres/values.hpp"
#include "durable/store/counters.hpp"

// A connection of our own: statements that are prepared when they are first run, and waits that end.

namespace timing_wheel::durable::postgres {

/// What a statement is for, as a message says it, the name under which it is prepared, and its text, where `@` stands
/// for the schema.
struct query {
  const char* doing;
  const char* name;
  const char* sql;
};

/// The name of a schema, quoted, with the dot behind it.
[[nodiscard]] std::string prefix_of(std::string_view schema);
/// The text of a statement, on the tables in `prefix`, which `prefix_of` has made.
[[nodiscard]] std::string text_of(const char* sql, std::string_view prefix);

/// What helps against errors that a pooler is the reason of.
inline constexpr const char* behind_a_pooler =
    "behind a pooler that shares connections, such as PgBouncer in transaction mode, set postgres_options::prepare to "
    "false, and keep no postgres_session";

/// Throws what the server has said: "scheduling: deadlock detected: SQLSTATE 40P01". Missing tables are
/// `errc::no_schema`, a lock that did not come in time `errc::row_locked`.
[[noreturn]] void fail(const result& answer, const PGconn* connection, std::string_view doing);
/// The same, with another SQLSTATE.
[[noreturn]] void fail(std::string_view doing, std::string_view sqlstate, std::string_view text);

/// What connections of a store share. It outlives them.
struct connection_rules {
  std::string prefix;                           ///< See `quoted`.
  std::chrono::milliseconds statement_timeout;  ///< By the server's clock; a second later by ours.
  bool prepare;
  counters* counts;
};

class connection {
 public:
  /// By this name a transaction gives its connection out.
  static constexpr std::string_view api = "timing_wheel::durable::postgres::connection";

  /// Takes over one that is open.
  connection(PGconn* open, const connection_rules& rules);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  /// For statements of others: it blocks.
  [[nodiscard]] PGconn* get() const noexcept;
  /// Runs one of ours. \throws timer_error
  /// \param by_text without preparing it: for one whose plan is not to be kept.
  result run(const query& which, const parameters& values = {}, bool by_text = false);
  /// Runs `statements` of them by their text, one message for all. \returns the last one that has rows, or else the
  /// last.
  result run(const char* doing, const std::string& text, unsigned statements);
  /// Of ours, with its parameters.
  struct bound {
    const query* which;
    const parameters* values;
  };
  /// Whether `run_together` takes one round trip.
  [[nodiscard]] bool is_pipelined() const noexcept;
  /// Runs all, prepared, or none after one that fails. \returns an answer for each. \throws timer_error: that of the
  /// first that failed.
  std::vector<result> run_together(std::span<const bound> all);
  /// What the user's planner has where ours is another one, in the order of `sql::give_planner_back`.
  [[nodiscard]] const std::vector<std::string>& planner_of_user() const noexcept { return planner_of_user_; }
  /// Prepares a statement of the user's once; without `connection_rules::prepare`, the unnamed one each time. \returns
  /// its name. \throws timer_error
  const std::string& prepare(const std::string& sql);
  /// Runs one that commits by itself. \throws timer_error, also as `commit`
  result run_alone(const query& which, const parameters& values);
  /// Runs a statement by its text, which may take `longest`. When `is_over` says so, which is asked ten times a second,
  /// it is cancelled. \throws timer_error
  void run_long(const char* doing, const std::string& text, std::chrono::seconds longest,
                const std::function<bool()>& is_over);
  /// Commits, after a statement `before` in the same message, if there is one. A server that gives up waiting for its
  /// synchronous standby says so by a warning only: that is an error. \throws timer_error
  void commit(const char* before);

  /// Whether the server has refused what it takes on a new connection: it is a standby, or was one when the name led
  /// to it, or somebody has deallocated the statements.
  [[nodiscard]] bool is_stale() const noexcept { return is_stale_; }
  /// Whether it can still be used. One whose server was silent cannot.
  [[nodiscard]] bool works() const noexcept { return !silent_ && PQstatus(connection_) == CONNECTION_OK; }
  [[nodiscard]] PGTransactionStatusType transaction() const noexcept { return PQtransactionStatus(connection_); }
  /// Undoes what is open, if anything is. Never throws: the server undoes it at the latest when the connection ends.
  void roll_back() noexcept;

  /// Whether a call before has used it: then its server may be gone.
  bool used = false;
  /// When its server has answered last. One that has just done so is likely to work.
  std::chrono::steady_clock::time_point used_at = {};
  /// Whether the version of the tables was seen.
  bool checked = false;
  /// How long to wait for an answer; none: as the rules say.
  std::optional<std::chrono::milliseconds> answer_within = {};

 private:
  using clock = std::chrono::steady_clock;

  void begin_session();
  const std::string& prepare(const query& which);
  void prepare(const char* doing, const std::string& name, const std::string& sql);
  void cancel() const noexcept;
  void send(int sent, const char* doing);
  void note(const result& error) noexcept;
  result wait(const char* doing);
  result next_answer(const char* doing, clock::time_point until, const result& error);
  [[nodiscard]] clock::time_point last_moment() const;
  bool wait_for(short events, clock::time_point until) const;

  PGconn* connection_;
  const connection_rules& rules_;
  std::vector<std::pair<const query*, std::string>> prepared_;  // and their names
  std::list<std::string> prepared_for_user_;                    // their names, which stay where they are
  std::vector<std::string> planner_of_user_;
  bool is_stale_ = false;
  bool silent_ = false;
};

}  // namespace timing_wheel::durable::postgres
