#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "durable/postgres/connection.hpp"
#include "durable/postgres/schema.hpp"
#include "durable/postgres/sql.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

// Calls in a transaction that is the user's. No setting of the connection is changed. The functions prepare nothing; a
// session does, and that is all that stays.

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

result run_once(PGconn* connection, const std::string& prefix, const query& which, const parameters& values) {
  return result(PQexecParams(connection, postgres::text_of(which.sql, prefix).c_str(), values.count(), nullptr,
                             values.values(), values.lengths(), values.formats(), 1));
}

void check_usable(PGconn* connection) {
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

void check_answer(const result& answer, const PGconn* connection, const query& which) {
  const ExecStatusType status = PQresultStatus(answer.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    postgres::fail(answer, connection, which.doing);
  }
}

// How often a statement is repeated whose row others have changed.
constexpr int most_tries = 100;
constexpr const char* changes_all_the_time = "other transactions write and delete the same key all the time";

/// The calls, by statements that a derived class runs.
class users_connection {
 public:
  users_connection(const users_connection&) = delete;
  users_connection& operator=(const users_connection&) = delete;
  virtual ~users_connection() = default;

  [[nodiscard]] scheduled schedule(const request& asked);
  [[nodiscard]] cancel_answer cancel(std::string_view kind, std::string_view key);
  [[nodiscard]] reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 protected:
  explicit users_connection(PGconn* connection) noexcept : connection_(connection) {}
  // \throws timer_error with what the server says.
  [[nodiscard]] virtual result run(const query& which, const parameters& values) = 0;
  [[nodiscard]] PGconn* connection() const noexcept { return connection_; }

 private:
  [[nodiscard]] result change(const query& which, const parameters& values);
  void execute(const char* text, const query& part_of) const;
  [[nodiscard]] std::optional<instant> write(const query& which, const due_by_sql& due, const request& asked,
                                             bool inserts);
  struct standing {
    instant due;
    bool pending;  // by now: the statement before did not see it so
  };
  [[nodiscard]] std::optional<standing> look_at(std::string_view kind, std::string_view key);
  template <class Result, class Change>
  [[nodiscard]] Result change_pending(const char* doing, std::string_view kind, std::string_view key, Result done,
                                      const Change& attempt);

  PGconn* connection_;
};

/// For one call: nothing is prepared.
class single_call final : public users_connection {
 public:
  single_call(PGconn* connection, const postgres_target& target)
      : users_connection(connection), prefix_(postgres::prefix_of(target.schema)) {
    check_usable(connection);
    check_version(target.schema);
  }

 private:
  result run(const query& which, const parameters& values) override {
    result answer = run_once(connection(), prefix_, which, values);
    check_answer(answer, connection(), which);
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
  const result shown = run(postgres::sql::read_clock, {});
  postgres::check_version(shown.integer(0, 1), schema);
  last = std::move(here);
}

void users_connection::execute(const char* text, const query& part_of) const {
  check_answer(result(PQexec(connection_, text)), connection_, part_of);
}

// For a row that must be pending. If it is not, the server keeps its lock until the part of the transaction is undone
// that has asked for it: nodes would wait for the end of the user's transaction.
result users_connection::change(const query& which, const parameters& values) {
  if (PQtransactionStatus(connection_) != PQTRANS_INTRANS) {
    return run(which, values);
  }
  execute(postgres::sql::users_savepoint, which);
  result answer = run(which, values);
  execute(answer.changed() == 0 ? postgres::sql::users_undo : postgres::sql::users_release, which);
  return answer;
}

std::optional<instant> users_connection::write(const query& which, const due_by_sql& due, const request& asked,
                                               bool inserts) {
  parameters values;
  values.bind(due.count).bind(std::string_view(asked.kind)).bind(std::string_view(asked.key));
  values.bind(std::string_view(asked.payload));
  const result rows = inserts ? run(which, values) : change(which, values);
  return rows.rows() == 0 ? std::nullopt : std::optional(instant(std::chrono::microseconds(rows.integer(0, 0))));
}

std::optional<users_connection::standing> users_connection::look_at(std::string_view kind, std::string_view key) {
  const result rows = run(postgres::sql::users_stands, parameters().bind(kind).bind(key));
  if (rows.rows() == 0) {
    return std::nullopt;
  }
  return standing{instant(std::chrono::microseconds(rows.integer(0, 0))), rows.integer(0, 1) != 0};
}

// A check may go between two statements, and then this one is written after all; or come, and then it is replaced.
scheduled users_connection::schedule(const request& asked) {
  const due_by_sql due(asked.due);
  for (int tries = 0; tries < most_tries; ++tries) {
    if (const auto made =
            write(due.choose(postgres::sql::users_insert_at, postgres::sql::users_insert_after), due, asked, true)) {
      return {true, false, *made};
    }
    if (asked.replace) {
      if (const auto changed = write(due.choose(postgres::sql::users_replace_at, postgres::sql::users_replace_after),
                                     due, asked, false)) {
        return {false, true, *changed};
      }
    }
    if (const auto stands = look_at(asked.kind, asked.key); stands && !(asked.replace && stands->pending)) {
      return {false, false, stands->due};
    }
  }
  postgres::fail("scheduling", "40001", changes_all_the_time);
}

// A statement that had to wait does not see the row that was written meanwhile, and the look at what stands does: if
// that is pending, it is tried again.
template <class Result, class Change>
Result users_connection::change_pending(const char* doing, std::string_view kind, std::string_view key, Result done,
                                        const Change& attempt) {
  for (int tries = 0; tries < most_tries; ++tries) {
    if (attempt().changed() == 1) {
      return done;
    }
    const auto stands = look_at(kind, key);
    if (!stands || !stands->pending) {
      return stands ? Result::running : Result::finished;
    }
  }
  postgres::fail(doing, "40001", changes_all_the_time);
}

cancel_answer users_connection::cancel(std::string_view kind, std::string_view key) {
  cancel_answer answer;
  answer.result = change_pending("cancelling", kind, key, cancel_result::cancelled, [&] {
    result gone = change(postgres::sql::users_cancel, parameters().bind(kind).bind(key));
    answer.attempts = gone.rows() == 0 ? 0 : static_cast<int>(gone.integer(0, 0));
    return gone;
  });
  return answer;
}

reschedule_result users_connection::reschedule(std::string_view kind, std::string_view key, due_time due) {
  const due_by_sql asked(due);
  const query& which = asked.choose(postgres::sql::users_reschedule_at, postgres::sql::users_reschedule_after);
  return change_pending("rescheduling", kind, key, reschedule_result::moved,
                        [&] { return change(which, parameters().bind(asked.count).bind(kind).bind(key)); });
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

// ---- postgres_session

// The statements are prepared under names that no other session has: two of them may be on one connection.
//
// The server keeps the plan of a prepared statement. One from the days of an almost empty table reads the whole table,
// and we may not tell a user's planner what to do; so what searches is prepared anew each second, and planned for the
// table as it is then. An INSERT searches nothing.
class postgres_session::implementation final : public users_connection {
 public:
  implementation(PGconn* connection, const postgres_target& target)
      : users_connection(connection),
        schema_(target.schema),
        prefix_(postgres::prefix_of(target.schema)),
        limits_(target.limits) {
    if (connection == nullptr) {
      postgres::fail("using a connection", "08003", "there is none");
    }
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;
  ~implementation() override { forget(); }

  [[nodiscard]] const request_limits& limits() const { return limits_; }
  // To be called before each call. The user may have connected anew.
  void begin() {
    check_usable(connection());
    const int backend = PQbackendPID(connection());
    if (backend == backend_) {
      return;
    }
    prepared_.clear();
    const result shown = run_once(connection(), prefix_, postgres::sql::read_clock, {});
    check_answer(shown, connection(), postgres::sql::read_clock);
    postgres::check_version(shown.integer(0, 1), schema_);
    backend_ = backend;
  }

 private:
  using clock = std::chrono::steady_clock;
  struct prepared {
    const query* which;
    std::string name;
    clock::time_point since;
  };
  static constexpr std::chrono::seconds plan_lifetime{1};

  result run(const query& which, const parameters& values) override {
    result answer(PQexecPrepared(connection(), prepare(which).c_str(), values.count(), values.values(),
                                 values.lengths(), values.formats(), 1));
    check_answer(answer, connection(), which);
    return answer;
  }
  const std::string& prepare(const query& which);
  void forget() noexcept;

  std::string schema_;
  std::string prefix_;
  request_limits limits_;
  int backend_ = 0;
  std::vector<prepared> prepared_;
};

const std::string& postgres_session::implementation::prepare(const query& which) {
  static std::atomic<std::uint64_t> names = 0;
  const auto now = clock::now();
  const auto known =
      std::find_if(prepared_.begin(), prepared_.end(), [&](const prepared& each) { return each.which == &which; });
  const bool searches = &which != &postgres::sql::users_insert_at && &which != &postgres::sql::users_insert_after;
  if (known != prepared_.end()) {
    if (!searches || now - known->since < plan_lifetime) {
      return known->name;
    }
    const result gone(PQexec(connection(), ("DEALLOCATE " + known->name).c_str()));
    check_answer(gone, connection(), which);
    prepared_.erase(known);
  }
  std::string name = "timing_wheel_session_" + std::to_string(names.fetch_add(1, std::memory_order_relaxed));
  const result made(PQprepare(connection(), name.c_str(), postgres::text_of(which.sql, prefix_).c_str(), 0, nullptr));
  check_answer(made, connection(), which);
  return prepared_.emplace_back(prepared{&which, std::move(name), now}).name;
}

// Where that is possible at once: else they stay as long as the connection.
void postgres_session::implementation::forget() noexcept {
  try {
    check_usable(connection());
    if (prepared_.empty() || PQstatus(connection()) != CONNECTION_OK || PQbackendPID(connection()) != backend_ ||
        PQtransactionStatus(connection()) == PQTRANS_INERROR) {
      return;
    }
    std::string all;
    for (const prepared& each : prepared_) {
      all.append("DEALLOCATE ").append(each.name).append(";");
    }
    const result gone(PQexec(connection(), all.c_str()));
  } catch (...) {  // NOLINT(bugprone-empty-catch): busy
  }
}

postgres_session::postgres_session(pg_conn* connection, const postgres_target& target)
    : implementation_(std::make_unique<implementation>(connection, target)) {}
postgres_session::postgres_session(postgres_session&& other) noexcept = default;
postgres_session& postgres_session::operator=(postgres_session&& other) noexcept = default;
postgres_session::~postgres_session() = default;

scheduled postgres_session::schedule(const request& asked) {
  validate(asked, implementation_->limits());
  implementation_->begin();
  return implementation_->schedule(asked);
}

cancel_answer postgres_session::cancel(std::string_view kind, std::string_view key) {
  implementation_->begin();
  return implementation_->cancel(kind, key);
}

reschedule_result postgres_session::reschedule(std::string_view kind, std::string_view key, due_time due) {
  implementation_->begin();
  return implementation_->reschedule(kind, key, due);
}

}  // namespace timing_wheel::durable
