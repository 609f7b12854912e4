#include <algorithm>
#include <optional>
#include <utility>

#include "durable/postgres/connection.hpp"
#include "durable/postgres/schema.hpp"
#include "durable/postgres/sql.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

// Calls in a transaction that is the user's. Nothing is prepared, and nothing of the connection is changed.

namespace timing_wheel::durable {

namespace {

using postgres::parameters;
using postgres::query;
using postgres::result;

// The due time as the statements want it: an instant, or a delay.
struct due_by_sql {
  explicit due_by_sql(due_time due)
      : absolute(due.at(instant()) == due.at(instant(std::chrono::microseconds(1)))),
        count(due.at(instant()).time_since_epoch().count()) {
    count = absolute ? count : std::min(count, postgres::longest_delay);
  }
  [[nodiscard]] const query& choose(const query& at, const query& after) const { return absolute ? at : after; }

  bool absolute;
  std::int64_t count;
};

// The connection whose tables this thread has looked at last. One look for each is enough: a version never goes back,
// and a newer library does not change the tables under older ones that run.
struct looked_at {
  const PGconn* connection = nullptr;
  int backend = 0;
  std::string prefix;

  friend bool operator==(const looked_at&, const looked_at&) = default;
};

class users_connection {
 public:
  users_connection(PGconn* connection, const postgres_target& target);

  [[nodiscard]] scheduled schedule(const request& asked) const;
  [[nodiscard]] cancel_result cancel(std::string_view kind, std::string_view key) const;
  [[nodiscard]] reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) const;

 private:
  [[nodiscard]] result run(const query& which, const parameters& values) const;
  [[nodiscard]] std::optional<instant> write(const query& which, const due_by_sql& due, const request& asked) const;
  [[nodiscard]] std::optional<instant> due_of(std::string_view kind, std::string_view key) const;
  void check_version() const;

  PGconn* connection_;
  std::string_view schema_;
  std::string prefix_;
};

users_connection::users_connection(PGconn* connection, const postgres_target& target)
    : connection_(connection), schema_(target.schema), prefix_(postgres::quoted(target.schema)) {
  if (connection == nullptr) {
    postgres::fail("using a connection", "08003", "there is none");
  }
#ifdef LIBPQ_HAS_PIPELINING
  if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
    postgres::fail("using a connection", "55000", "it is in pipeline mode; leave that for this call");
  }
#endif
  if (PQtransactionStatus(connection) == PQTRANS_ACTIVE) {
    postgres::fail("using a connection", "55000", "it is busy with another statement; read its results first");
  }
  check_version();
}

result users_connection::run(const query& which, const parameters& values) const {
  result answer(PQexecParams(connection_, postgres::text_of(which.sql, prefix_).c_str(), values.count(), nullptr,
                             values.values(), values.lengths(), values.formats(), 1));
  const ExecStatusType status = PQresultStatus(answer.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    postgres::fail(answer, connection_, which.doing);
  }
  return answer;
}

void users_connection::check_version() const {
  static thread_local looked_at last;
  looked_at here{connection_, PQbackendPID(connection_), prefix_};
  if (last == here) {
    return;
  }
  const result shown = run(postgres::sql::read_clock, {});
  postgres::check_version(shown.integer(0, 1), schema_);
  last = std::move(here);
}

std::optional<instant> users_connection::write(const query& which, const due_by_sql& due, const request& asked) const {
  parameters values;
  values.bind(due.count).bind(std::string_view(asked.kind)).bind(std::string_view(asked.key));
  const result rows = run(which, values.bind(std::string_view(asked.payload)));
  return rows.rows() == 0 ? std::nullopt : std::optional(instant(std::chrono::microseconds(rows.integer(0, 0))));
}

std::optional<instant> users_connection::due_of(std::string_view kind, std::string_view key) const {
  const result rows = run(postgres::sql::users_stands, parameters().bind(kind).bind(key));
  return rows.rows() == 0 ? std::nullopt : std::optional(instant(std::chrono::microseconds(rows.integer(0, 0))));
}

// A check may go between two statements, and then this one is written after all.
scheduled users_connection::schedule(const request& asked) const {
  constexpr int most_turns = 100;
  const due_by_sql due(asked.due);
  for (int turn = 0; turn < most_turns; ++turn) {
    if (const auto made =
            write(due.choose(postgres::sql::users_insert_at, postgres::sql::users_insert_after), due, asked)) {
      return {true, false, *made};
    }
    if (asked.replace) {
      if (const auto changed =
              write(due.choose(postgres::sql::users_replace_at, postgres::sql::users_replace_after), due, asked)) {
        return {false, true, *changed};
      }
    }
    if (const auto stands = due_of(asked.kind, asked.key)) {
      return {false, false, *stands};
    }
  }
  postgres::fail("scheduling", "40001", "other transactions write and delete the same key all the time");
}

cancel_result users_connection::cancel(std::string_view kind, std::string_view key) const {
  if (run(postgres::sql::users_cancel, parameters().bind(kind).bind(key)).changed() == 1) {
    return cancel_result::cancelled;
  }
  return due_of(kind, key) ? cancel_result::running : cancel_result::finished;
}

reschedule_result users_connection::reschedule(std::string_view kind, std::string_view key, due_time due) const {
  const due_by_sql asked(due);
  const query& which = asked.choose(postgres::sql::users_reschedule_at, postgres::sql::users_reschedule_after);
  if (run(which, parameters().bind(asked.count).bind(kind).bind(key)).changed() == 1) {
    return reschedule_result::moved;
  }
  return due_of(kind, key) ? reschedule_result::running : reschedule_result::finished;
}

}  // namespace

scheduled schedule(pg_conn* connection, const request& asked, const postgres_target& target) {
  validate(asked, target.limits);
  return users_connection(connection, target).schedule(asked);
}

cancel_result cancel(pg_conn* connection, std::string_view kind, std::string_view key, const postgres_target& target) {
  return users_connection(connection, target).cancel(kind, key);
}

reschedule_result reschedule(pg_conn* connection, std::string_view kind, std::string_view key, due_time due,
                             const postgres_target& target) {
  return users_connection(connection, target).reschedule(kind, key, due);
}

}  // namespace timing_wheel::durable
