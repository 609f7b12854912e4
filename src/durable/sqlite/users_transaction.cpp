#include "durable/sqlite/clock.hpp"
#include "durable/sqlite/schema.hpp"
#include "durable/sqlite/sql.hpp"
#include "durable/store/instant.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// Calls in a transaction that is the user's. The functions prepare their statements for each call: those that we kept
// would hinder the user's sqlite3_close. A user who wants to keep them says so, with a session.

namespace timing_wheel::durable {

namespace {

using sqlite::execution;
using sqlite::statement;

// The due time as the statements want it: an instant, and 0; or the machine's clock plus the delay, and the step to
// which the sum is rounded up.
struct due_by_sql {
  std::int64_t step;
  std::int64_t count;
};

due_by_sql by_sql(due_time due, std::chrono::microseconds machine) {
  if (due.is_delay()) {
    return {due.step().count(), microseconds_of(saturating_add(instant(machine), due.delay()))};
  }
  return {0, microseconds_of(due.at({}))};
}

class users_connection {
 public:
  explicit users_connection(sqlite3* connection) : connection_(connection) {}

  [[nodiscard]] scheduled schedule(const request& asked);
  [[nodiscard]] cancel_answer cancel(std::string_view kind, std::string_view key);
  [[nodiscard]] reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 private:
  [[nodiscard]] std::optional<instant> write(statement& by, const request& asked);
  [[nodiscard]] std::optional<instant> due_of(std::string_view kind, std::string_view key);
  [[nodiscard]] bool set_clock();
  void require_known_tables();

  sqlite3* connection_;
  // Prepared when they are first run.
  statement insert_{connection_, sqlite::sql::users_insert};
  statement replace_{connection_, sqlite::sql::users_replace};
  statement find_due_{connection_, sqlite::sql::find_due};
  statement cancel_{connection_, sqlite::sql::users_cancel};
  statement reschedule_{connection_, sqlite::sql::users_reschedule};
  statement read_clock_{connection_, sqlite::sql::read_clock};
};

std::optional<instant> users_connection::write(statement& by, const request& asked) {
  const sqlite::time_source time = sqlite::time_of(connection_);
  const due_by_sql due = by_sql(asked.due_in_window(), time.passed);
  execution run = by.run();
  run.bind_text(time.boot).bind(time.passed.count()).bind(due.step).bind(due.count);
  run.bind_text(asked.kind).bind_blob(asked.key).bind_blob(asked.payload);
  std::optional<instant> stands;
  while (run.step()) {
    stands = instant(std::chrono::microseconds(run.integer(0)));
  }
  return stands;
}

std::optional<instant> users_connection::due_of(std::string_view kind, std::string_view key) {
  execution run = find_due_.run();
  if (!run.bind_text(kind).bind_blob(key).step()) {
    return std::nullopt;
  }
  return instant(std::chrono::microseconds(run.integer(0)));
}

// \returns whether the clock had not been set since the machine's start, and is now.
bool users_connection::set_clock() {
  const sqlite::time_source time = sqlite::time_of(connection_);
  std::int64_t revision = 0;
  {
    execution run = read_clock_.run();
    const bool has_version = run.step();
    sqlite::check_version(connection_, has_version ? run.integer(3) : 0);
    if (run.bytes(1) == time.boot) {
      return false;
    }
    revision = run.integer(0);
  }
  const sqlite::clock_row row = time.boot == sqlite::virtual_boot ? sqlite::clock_row{revision + 1, time.boot, {}}
                                                                  : sqlite::row_of_wall_clock(revision + 1);
  statement set(connection_, sqlite::sql::set_clock);
  set.run().bind(row.revision).bind_text(row.boot).bind(row.offset.count()).finish();
  return true;
}

// What writes does nothing in tables of another version.
void users_connection::require_known_tables() {
  execution run = read_clock_.run();
  sqlite::check_version(connection_, run.step() ? run.integer(3) : 0);
}

// Without a transaction of the user each statement is one: a check may go between two of them, and then it is written
// after all.
scheduled users_connection::schedule(const request& asked) {
  constexpr int most_tries = 100;
  for (int tries = 0; tries < most_tries; ++tries) {
    if (const auto due = write(insert_, asked)) {
      return {true, false, *due};
    }
    if (set_clock()) {
      continue;
    }
    if (asked.replace) {
      if (const auto due = write(replace_, asked)) {
        return {false, true, *due};
      }
    }
    if (const auto due = due_of(asked.kind, asked.key)) {
      return {false, false, *due};
    }
  }
  sqlite::fail_as_ignored(connection_);
}

cancel_answer users_connection::cancel(std::string_view kind, std::string_view key) {
  execution run = cancel_.run();
  if (run.bind_text(kind).bind_blob(key).step()) {
    const int attempts = run.count(0);
    run.finish();
    return {cancel_result::cancelled, attempts};
  }
  require_known_tables();
  return {due_of(kind, key) ? cancel_result::running : cancel_result::finished};
}

reschedule_result users_connection::reschedule(std::string_view kind, std::string_view key, due_time due) {
  do {
    const sqlite::time_source time = sqlite::time_of(connection_);
    const due_by_sql asked = by_sql(due, time.passed);
    execution run = reschedule_.run();
    run.bind_text(time.boot).bind(time.passed.count()).bind(asked.step).bind(asked.count);
    run.bind_text(kind).bind_blob(key);
    if (run.finish() == 1) {
      return reschedule_result::moved;
    }
    if (!due_of(kind, key)) {
      require_known_tables();
      return reschedule_result::finished;
    }
  } while (set_clock());
  return reschedule_result::running;
}

}  // namespace

scheduled schedule(sqlite3* connection, const request& asked, const request_limits& limits) {
  validate(asked, limits);
  return users_connection(connection).schedule(asked);
}

cancel_answer cancel(sqlite3* connection, std::string_view kind, std::string_view key) {
  return users_connection(connection).cancel(kind, key);
}

reschedule_result reschedule(sqlite3* connection, std::string_view kind, std::string_view key, due_time due) {
  return users_connection(connection).reschedule(kind, key, due);
}

class sqlite_session::implementation {
 public:
  implementation(sqlite3* connection, const request_limits& allowed) : calls(connection), limits(allowed) {}

  users_connection calls;
  const request_limits limits;
};

sqlite_session::sqlite_session(sqlite3* connection, const request_limits& limits)
    : implementation_(std::make_unique<implementation>(connection, limits)) {}

sqlite_session::sqlite_session(sqlite_session&& other) noexcept = default;
sqlite_session& sqlite_session::operator=(sqlite_session&& other) noexcept = default;
sqlite_session::~sqlite_session() = default;

scheduled sqlite_session::schedule(const request& asked) {
  validate(asked, implementation_->limits);
  return implementation_->calls.schedule(asked);
}

cancel_answer sqlite_session::cancel(std::string_view kind, std::string_view key) {
  return implementation_->calls.cancel(kind, key);
}

reschedule_result sqlite_session::reschedule(std::string_view kind, std::string_view key, due_time due) {
  return implementation_->calls.reschedule(kind, key, due);
}

}  // namespace timing_wheel::durable
