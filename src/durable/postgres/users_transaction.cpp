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

// The due time as the statements want it: whether it is an instant, and that, or a delay in microseconds.
struct due_by_sql {
  explicit due_by_sql(due_time due)
      : absolute(due.at(instant()) == due.at(instant(std::chrono::microseconds(1)))),
        count(due.at(instant()).time_since_epoch().count()) {}
  bool absolute;
  std::int64_t count;
};

class users_connection {
 public:
  users_connection(PGconn* connection, const postgres_target& target);

  [[nodiscard]] scheduled schedule(const request& asked) const;
  [[nodiscard]] cancel_result cancel(std::string_view kind, std::string_view key) const;
  [[nodiscard]] reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) const;

 private:
  [[nodiscard]] result run(const query& which, const parameters& values) const;
  [[nodiscard]] bool exists(std::string_view kind, std::string_view key) const;
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

bool users_connection::exists(std::string_view kind, std::string_view key) const {
  return run(postgres::sql::users_exists, parameters().bind(kind).bind(key)).rows() != 0;
}

void users_connection::check_version() const {
  const result shown = run(postgres::sql::read_clock, {});
  postgres::check_version(shown.rows() == 0 ? 0 : shown.integer(0, 1), schema_);
}

// What is in the way may be a row that the statement does not see, since it was written meanwhile: then once more.
scheduled users_connection::schedule(const request& asked) const {
  constexpr int most_turns = 100;
  const due_by_sql due(asked.due);
  parameters values;
  values.bind(due.absolute).bind(due.count).bind(std::string_view(asked.kind));
  values.bind(std::string_view(asked.key)).bind(std::string_view(asked.payload));
  for (int turn = 0; turn < most_turns; ++turn) {
    const result rows = run(asked.replace ? postgres::sql::users_replace : postgres::sql::users_insert, values);
    if (rows.rows() != 0) {
      const std::int64_t what = rows.integer(0, 0);
      return {what == 1, what == 2, instant(std::chrono::microseconds(rows.integer(0, 1)))};
    }
    check_version();
  }
  postgres::fail("scheduling", "40001", "other transactions write and delete the same key all the time");
}

cancel_result users_connection::cancel(std::string_view kind, std::string_view key) const {
  if (run(postgres::sql::users_cancel, parameters().bind(kind).bind(key)).changed() == 1) {
    return cancel_result::cancelled;
  }
  return exists(kind, key) ? cancel_result::running : cancel_result::finished;
}

reschedule_result users_connection::reschedule(std::string_view kind, std::string_view key, due_time due) const {
  const due_by_sql asked(due);
  parameters values;
  values.bind(asked.absolute).bind(asked.count).bind(kind).bind(key);
  if (run(postgres::sql::users_reschedule, values).changed() == 1) {
    return reschedule_result::moved;
  }
  return exists(kind, key) ? reschedule_result::running : reschedule_result::finished;
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
