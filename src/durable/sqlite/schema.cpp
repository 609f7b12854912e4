#include "durable/sqlite/schema.hpp"

#include <array>
#include <string>
#include <vector>

#include "durable/store/plausible.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::sqlite {

namespace {

// The constraints are for those who write by SQL: a key as TEXT would be another one than the same bytes as BLOB.
//
// The payload comes last: SQLite reads a row from its front, and a long payload lies in pages of its own.
// The index begins with the kind, so that a node steps over no row of kinds that it has no handler for, or whose part
// of its memory is full. That costs 8 bytes of 575 per check (kinds of 5 bytes).
//
// A deadline that is seconds, milliseconds or nanoseconds since 1970 is refused, too: read as microseconds, it would be
// long past, or never come. But not where time begins in 1970: virtual time, or that of a machine whose clock was not
// set. Tables of 0.1.0 have no such constraint.
//
// Version 1 has to stay as it is; what a later one adds comes as statements of its own.
#define TIMING_WHEEL_CHECK_TABLE(of_due)                                                \
  "CREATE TABLE timing_wheel_check("                                                    \
  "id INTEGER PRIMARY KEY AUTOINCREMENT CHECK(id>0),"                                   \
  "due INTEGER NOT NULL CHECK(typeof(due)='integer')" of_due                            \
  ","                                                                                   \
  "lease INTEGER CHECK(lease IS NULL OR typeof(lease)='integer'),"                      \
  "fence INTEGER NOT NULL DEFAULT 0 CHECK(typeof(fence)='integer' AND fence>=0),"       \
  "attempt INTEGER NOT NULL DEFAULT 0 CHECK(typeof(attempt)='integer' AND attempt>=0)," \
  "kind TEXT NOT NULL CHECK(typeof(kind)='text' AND length(kind)>0),"                   \
  "key BLOB NOT NULL CHECK(typeof(key)='blob' AND length(key)>0),"                      \
  "payload BLOB NOT NULL CHECK(typeof(payload)='blob'),"                                \
  "UNIQUE(kind,key))"
constexpr const char* check_table =
    TIMING_WHEEL_CHECK_TABLE(" CONSTRAINT due_is_in_microseconds CHECK(" TIMING_WHEEL_PLAUSIBLE ")");
constexpr const char* check_table_from_1970 = TIMING_WHEEL_CHECK_TABLE("");
#undef TIMING_WHEEL_CHECK_TABLE

constexpr std::array version_1 = {
    "CREATE INDEX timing_wheel_check_due ON timing_wheel_check(kind,due)",

    "CREATE TABLE timing_wheel_dead("
    "id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "kind TEXT NOT NULL,"
    "key BLOB NOT NULL,"
    "due INTEGER NOT NULL,"
    "fence INTEGER NOT NULL,"
    "attempt INTEGER NOT NULL,"
    "died INTEGER NOT NULL,"
    "error TEXT NOT NULL,"
    "payload BLOB NOT NULL)",

    "CREATE TABLE timing_wheel_clock("
    "id INTEGER PRIMARY KEY CHECK(id=1),"
    "revision INTEGER NOT NULL,"
    "boot TEXT NOT NULL,"
    "offset INTEGER NOT NULL CHECK(typeof(offset)='integer'))",

    "CREATE TABLE timing_wheel_schema("
    "id INTEGER PRIMARY KEY CHECK(id=1),"
    "version INTEGER NOT NULL)",

    "INSERT INTO timing_wheel_schema(id,version) VALUES(1,1)",
};

// The fence of a row is the number that its last run saw, drawn from a counter that begins above all that version 1
// ever gave: there, it was `id*65536` and the column.
constexpr std::array version_2 = {
    "CREATE TABLE timing_wheel_fence("
    "id INTEGER PRIMARY KEY CHECK(id=1),"
    "last INTEGER NOT NULL CHECK(typeof(last)='integer'))",

    "INSERT INTO timing_wheel_fence(id,last) "
    "SELECT 1,(coalesce(max(seq),0)+1)*65536 FROM sqlite_sequence WHERE name='timing_wheel_check'",

    "UPDATE timing_wheel_check SET fence=id*65536+fence",

    "UPDATE timing_wheel_schema SET version=2",
};

// 0 if there are none.
std::int64_t version_of(database& in) {
  if (in.ask({"looking for the tables",
              "SELECT count(*) FROM sqlite_master WHERE type='table' AND name='timing_wheel_schema'"}) == "0") {
    return 0;
  }
  statement read(in.get(), {"reading the version", "SELECT version FROM timing_wheel_schema WHERE id=1"});
  execution reading = read.run();
  return reading.step() ? reading.integer(0) : 0;
}

}  // namespace

void check_version(sqlite3* connection, std::int64_t version) {
  if (version != schema_version) {
    const bool newer = version > schema_version;
    const char* file = sqlite3_db_filename(connection, "main");
    throw timer_error(make_error_code(newer ? errc::newer_schema : errc::no_schema),
                      std::string(file == nullptr ? "" : file) + " has tables of version " + std::to_string(version) +
                          "; this library knows version " + std::to_string(schema_version) +
                          (newer ? "" : ": call migrate()"));
  }
}

migration_plan planned(database& in, bool from_1970) {
  const std::int64_t version = version_of(in);
  if (version > schema_version) {
    check_version(in.get(), version);
  }
  migration_plan plan{.from = version == 0 ? std::string() : std::to_string(version) + ".0",
                      .to = std::to_string(schema_version) + ".0",
                      .statements = {},
                      .additive = version == 0 || version == schema_version};
  if (version < 1) {
    plan.statements.emplace_back(from_1970 ? check_table_from_1970 : check_table);
    plan.statements.insert(plan.statements.end(), version_1.begin(), version_1.end());
  }
  if (version < 2) {
    plan.statements.insert(plan.statements.end(), version_2.begin(), version_2.end());
  }
  return plan;
}

void make_tables(database& in, bool from_1970) {
  for (const std::string& each : planned(in, from_1970).statements) {
    in.execute({"making the tables", each.c_str()});
  }
}

}  // namespace timing_wheel::durable::sqlite
