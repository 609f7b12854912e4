#include "durable/postgres/users_call.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "durable/postgres/schema.hpp"

namespace timing_wheel::durable {

namespace postgres {

namespace {

// How often a statement is repeated whose row others have changed.
constexpr int most_attempts = 100;
constexpr const char* changes_all_the_time = "other transactions write and delete the same key all the time";

}  // namespace

result run_once(PGconn* connection, const std::string& prefix, const query& which, const parameters& values) {
  return result(PQexecParams(connection, text_of(which.sql, prefix).c_str(), values.count(), nullptr, values.values(),
                             values.lengths(), values.formats(), 1));
}

void check_usable(PGconn* connection) {
  if (connection == nullptr) {
    fail("using a connection", "08003", "there is none");
  }
#ifdef LIBPQ_HAS_PIPELINING
  if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
    fail("using a connection", "55000", "it is in pipeline mode; leave that for this call");
  }
#endif
  if (PQtransactionStatus(connection) == PQTRANS_ACTIVE) {
    fail("using a connection", "55000", "it is busy with another statement; read its results first");
  }
}

// The server would take the bytes of a kind for other characters. Key and payload are sent as bytes, and stay so. With
// SQL_ASCII the server converts nothing.
void users_call::check_encoding(std::string_view kind) const {
  if (std::all_of(kind.begin(), kind.end(), [](char each) { return static_cast<unsigned char>(each) < 0x80; })) {
    return;
  }
  const std::string encoding = pg_encoding_to_char(PQclientEncoding(connection_));
  const char* told = PQparameterStatus(connection_, "server_encoding");
  const std::string_view kept_in = told == nullptr ? "" : told;
  if (encoding != "UTF8" && !(encoding == "SQL_ASCII" && (kept_in == "UTF8" || kept_in == encoding))) {
    fail("using a connection", "55000",
         "its client_encoding is " + encoding + ", which changes the kind \"" + std::string(kind) +
             "\"; set it to UTF8");
  }
}

void check_answer(const result& answer, const PGconn* connection, const query& which) {
  const ExecStatusType status = PQresultStatus(answer.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    fail(answer, connection, which.doing);
  }
}

void users_call::execute(const char* text, const query& part_of) const {
  check_answer(result(PQexec(connection_, text)), connection_, part_of);
}

// For a row that must be pending. If it is not, the server keeps its lock until the part of the transaction is undone
// that has asked for it: nodes would wait for the end of the user's transaction.
result users_call::change(const query& which, const parameters& values) {
  if (PQtransactionStatus(connection_) != PQTRANS_INTRANS) {
    return run(which, values);
  }
  execute(sql::users_savepoint, which);
  result answer = run(which, values);
  execute(answer.changed() == 0 ? sql::users_undo : sql::users_release, which);
  return answer;
}

std::optional<instant> users_call::write(const query& which, const due_by_sql& due, const request& asked,
                                         bool inserts) {
  parameters values;
  values.bind(due.count).bind(std::string_view(asked.kind)).bind(std::string_view(asked.key));
  values.bind(std::string_view(asked.payload));
  if (due.is_delay) {
    values.bind(due.step);
  }
  const result rows = inserts ? run(which, values) : change(which, values);
  return rows.rows() == 0 ? std::nullopt : std::optional(instant(std::chrono::microseconds(rows.integer(0, 0))));
}

std::optional<users_call::standing> users_call::look_at(std::string_view kind, std::string_view key) {
  const result rows = run(sql::users_stands, parameters().bind(kind).bind(key));
  if (rows.rows() == 0) {
    return std::nullopt;
  }
  return standing{instant(std::chrono::microseconds(rows.integer(0, 0))), rows.integer(0, 1) != 0};
}

// A check may go between two statements, and then this one is written after all; or come, and then it is replaced.
scheduled users_call::schedule(const request& asked) {
  check_encoding(asked.kind);
  const due_by_sql due(asked.due_in_window());
  for (int tries = 0; tries < most_attempts; ++tries) {
    if (const auto made = write(due.choose(sql::users_insert_at, sql::users_insert_after), due, asked, true)) {
      return {true, false, *made};
    }
    if (asked.replace) {
      if (const auto changed = write(due.choose(sql::users_replace_at, sql::users_replace_after), due, asked, false)) {
        return {false, true, *changed};
      }
    }
    if (const auto stands = look_at(asked.kind, asked.key); stands && !(asked.replace && stands->pending)) {
      return {false, false, stands->due};
    }
  }
  fail("scheduling", "40001", changes_all_the_time);
}

// A statement that had to wait does not see the row that was written meanwhile, and the look at what stands does: if
// that is pending, it is tried again. A kind that the server cannot read would undo the user's transaction; of one that
// is empty or too long there is no check.
template <class Result, class Change>
Result users_call::change_pending(const char* doing, std::string_view kind, std::string_view key, Result done,
                                  const Change& attempt) {
  if (!kind.empty()) {
    validate_kind(std::string(kind), {.kind = kind.size()});
  }
  check_encoding(kind);
  for (int tries = 0; tries < most_attempts; ++tries) {
    if (attempt().changed() == 1) {
      return done;
    }
    const auto stands = look_at(kind, key);
    if (!stands || !stands->pending) {
      return stands ? Result::running : Result::finished;
    }
  }
  fail(doing, "40001", changes_all_the_time);
}

cancel_answer users_call::cancel(std::string_view kind, std::string_view key) {
  cancel_answer answer;
  answer.result = change_pending("cancelling", kind, key, cancel_result::cancelled, [&] {
    result gone = change(sql::users_cancel, parameters().bind(kind).bind(key));
    answer.attempts = gone.rows() == 0 ? 0 : static_cast<int>(gone.integer(0, 0));
    return gone;
  });
  return answer;
}

reschedule_result users_call::reschedule(std::string_view kind, std::string_view key, due_time due) {
  const due_by_sql asked(due);
  const query& which = asked.choose(sql::users_reschedule_at, sql::users_reschedule_after);
  return change_pending("rescheduling", kind, key, reschedule_result::moved, [&] {
    parameters values;
    values.bind(asked.count).bind(kind).bind(key);
    if (asked.is_delay) {
      values.bind(asked.step);
    }
    return change(which, values);
  });
}

}  // namespace postgres

namespace {

// The connection whose tables this thread has looked at last. One look for each is enough: a version never goes back,
// and a newer library does not change the tables under older ones that run.
struct looked_at {
  const PGconn* connection = nullptr;
  int backend = 0;
  std::string prefix;

  friend bool operator==(const looked_at&, const looked_at&) = default;
};

/// For one call: nothing is prepared.
class single_call final : public postgres::users_call {
 public:
  single_call(PGconn* connection, const postgres_target& target)
      : users_call(connection), prefix_(postgres::prefix_of(target.schema)) {
    postgres::check_usable(connection);
    check_version(target.schema);
  }

 private:
  postgres::result run(const postgres::query& which, const postgres::parameters& values) override {
    postgres::result answer = postgres::run_once(connection(), prefix_, which, values);
    postgres::check_answer(answer, connection(), which);
    return answer;
  }
  void check_version(std::string_view schema);

  std::string prefix_;
};

void single_call::check_version(std::string_view schema) {
  static thread_local looked_at last;
  looked_at here{connection(), PQbackendPID(connection()), prefix_};
  if (last == here) {
    return;
  }
  const postgres::result shown = run(postgres::sql::read_clock, {});
  postgres::check_version(shown.integer(0, 1), schema);
  last = std::move(here);
}

}  // namespace

scheduled schedule(pg_conn* connection, const request& asked, const postgres_target& target) {
  validate(asked, target.limits);
  return single_call(connection, target).schedule(asked);
}

cancel_answer cancel(pg_conn* connection, std::string_view kind, std::string_view key, const postgres_target& target) {
  return single_call(connection, target).cancel(kind, key);
}

reschedule_result reschedule(pg_conn* connection, std::string_view kind, std::string_view key, due_time due,
                             const postgres_target& target) {
  return single_call(connection, target).reschedule(kind, key, due);
}

}  // namespace timing_wheel::durable
