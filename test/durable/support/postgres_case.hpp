#pragma once

#include "durable/support/private_postgres.hpp"
#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

// What tests of PostgreSQL's store share: a server for each program, and a schema for each test.

namespace timing_wheel::durable::test {

using timing_wheel::test::private_postgres;
using timing_wheel::test::sql_session;

/// The server of this program, started when it is first asked for.
inline private_postgres& server() {
  static private_postgres one({.settings = {{"max_prepared_transactions", "0"}}, .loopback = true});
  return one;
}

inline postgres_options options_in(std::string schema) {
  postgres_options options;
  options.schema = std::move(schema);
  options.connect_timeout = 2s;
  return options;
}

inline std::string new_schema() {
  static std::atomic<int> count = 0;
  return "s" + std::to_string(++count);
}

/// What releases have added, dropped from the schema that is searched: tables as 0.1.0 made them stay.
inline constexpr const char* drop_additions =
    "DROP FUNCTION schedule,cancel,reschedule,revive_dead,delete_dead,pause,resume,drain,end_drain;"
    "DROP VIEW overview,due,running,retrying,dead_check;"
    "DROP TABLE addition,paused_kind,audit,drained_node,long_run,failed_run,run_count;";

/// As the five characters of an error: empty if it is none of the server's.
inline std::string sqlstate(const caught& error) {
  return error.code.category() == postgres_category() ? error.code.message().substr(9) : std::string();
}

/// The first value that a statement within a transaction answers with, as text; empty if there is none.
inline std::string ask(transaction& open, const std::string& sql) {
  PGresult* const answer = PQexec(postgres_connection(open), sql.c_str());
  std::string value = PQntuples(answer) > 0 ? PQgetvalue(answer, 0, 0) : "";
  PQclear(answer);
  return value;
}

/// A schema with our tables, and a store on it.
class PostgresCase : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  PostgresCase() { store.migrate(); }

  [[nodiscard]] std::string table(const std::string& name) const { return schema + "." + name; }
  /// As behind a pooler, if not.
  [[nodiscard]] postgres_options prepared(bool prepare) const {
    postgres_options some = options;
    some.prepare = prepare;
    return some;
  }

  const std::string schema = new_schema();
  const postgres_options options = options_in(schema);
  const postgres_target target{.schema = schema};
  postgres_store store{server().conninfo(), options};
  sql_session user{server().conninfo()};
};

}  // namespace timing_wheel::durable::test
