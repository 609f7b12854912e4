#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>

#include "common/program.hpp"
#include "desk/commands.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"
#ifdef TIMING_WHEEL_DESK_POSTGRES
#include <libpq-fe.h>

#include "timing_wheel/durable/postgres_store.hpp"
#endif

namespace timing_wheel::desk {

namespace {

[[maybe_unused]] constexpr const char* free_some =
    "free space there, first of what is not the database's: nodes go on by themselves; see Something is wrong in "
    "docs/desk.md";

// The category's name is compared, so that this compiles without PostgreSQL.
bool is_refusal(const timer_error& error, std::string_view sqlstate) {
  return std::string_view(error.code().category().name()) == "postgres" && error.code().message().ends_with(sqlstate);
}

#ifdef TIMING_WHEEL_DESK_POSTGRES

using rows_pointer = std::unique_ptr<PGresult, decltype(&PQclear)>;

std::string cell(const rows_pointer& rows, int row, int column) { return PQgetvalue(rows.get(), row, column); }

std::string schema_of(const options& chosen) { return chosen.schema.empty() ? "timing_wheel" : chosen.schema; }

// Runs one that only reads, on the connection of a transaction. What the server refuses is left out.
rows_pointer ask(PGconn* on, const std::string& sql, const std::vector<std::string>& values) {
  std::vector<const char*> pointers;
  std::transform(values.begin(), values.end(), std::back_inserter(pointers),
                 [](const std::string& each) { return each.c_str(); });
  rows_pointer rows(
      PQexecParams(on, sql.c_str(), static_cast<int>(pointers.size()), nullptr, pointers.data(), nullptr, nullptr, 0),
      PQclear);
  if (PQresultStatus(rows.get()) != PGRES_TUPLES_OK) {
    throw failure(exit_status::no_store, PQresultErrorMessage(rows.get()));
  }
  return rows;
}

template <class Work>
void on_server(const desk& with, const Work& work) {
  with.store.transact([&](durable::store_transaction& open) { work(durable::postgres_connection(open)); });
}

// A standby refuses it, and then the answer is no; no row is locked there.
template <class Work>
bool on_server_if_it_writes(const desk& with, const Work& work) {
  try {
    on_server(with, work);
    return true;
  } catch (const timer_error& error) {
    if (!is_refusal(error, "25006") && !is_refusal(error, "0A000")) {  // a transaction that writes cannot begin there
      throw;
    }
    return false;
  }
}

// What is missing of the rights of a node. Older tables lack some of these.
constexpr const char* missing_rights =
    "SELECT string_agg(privilege||' on '||name,', ') FROM (VALUES('check','SELECT,INSERT,UPDATE,DELETE'),"
    "('dead','SELECT,INSERT,UPDATE,DELETE'),('node','SELECT,INSERT,UPDATE,DELETE'),('share','SELECT,INSERT,UPDATE'),"
    "('version','SELECT'),('addition','SELECT'),('paused_kind','SELECT'),('drained_node','SELECT,UPDATE'),"
    "('long_run','SELECT,INSERT,UPDATE,DELETE'),('failed_run','SELECT,INSERT,UPDATE,DELETE'),"
    "('run_count','SELECT,INSERT,UPDATE,DELETE'),"
    "('fence','USAGE'),('','USAGE')) need(name,privileges), "
    "unnest(string_to_array(privileges,',')) privilege WHERE (name NOT IN('addition','paused_kind','drained_node',"
    "'long_run','failed_run','run_count') OR to_regclass(quote_ident($1)||'.'||name) IS NOT NULL) AND NOT "
    "CASE name WHEN "
    "'' THEN has_schema_privilege($1,privilege) WHEN 'fence' THEN "
    "has_sequence_privilege(quote_ident($1)||'.fence',privilege) ELSE "
    "has_table_privilege(quote_ident($1)||'.'||quote_ident(name),privilege) END";

// Whether this role is for looking alone: no node's, and no operator's who changes something.
constexpr const char* only_looks =
    "SELECT has_table_privilege(quote_ident($1)||'.check','SELECT') AND NOT "
    "has_table_privilege(quote_ident($1)||'.check','INSERT,UPDATE,DELETE') AND NOT "
    "has_table_privilege(quote_ident($1)||'.dead','INSERT,UPDATE,DELETE')";

// What is missing of the rights of those who steer. Not all who look are to have them.
constexpr const char* missing_of_operators =
    "SELECT string_agg(privilege||' on '||name,', ') FROM (VALUES('audit','SELECT,INSERT'),"
    "('paused_kind','INSERT,DELETE'),('drained_node','INSERT,DELETE'),('check','INSERT,UPDATE,DELETE'),"
    "('dead','INSERT,DELETE')) need(name,privileges), unnest(string_to_array(privileges,',')) privilege "
    "WHERE NOT coalesce(has_table_privilege(to_regclass(quote_ident($1)||'.'||quote_ident(name)),privilege),true)";

// Functions that act with the rights of their owner, and that everybody may call: a backup that was restored without
// its privileges leaves them so.
constexpr const char* open_functions =
    "SELECT string_agg(proname,', ' ORDER BY proname) FROM pg_proc JOIN pg_namespace ON "
    "pg_namespace.oid=pronamespace AND nspname=$1 WHERE prosecdef AND has_function_privilege('public',pg_proc.oid,"
    "'EXECUTE')";

// Of the oldest transaction that keeps dead rows.
constexpr const char* old_snapshot =
    "SELECT pid::text,coalesce(usename,''),extract(epoch FROM now()-xact_start)::bigint::text,left(query,60) FROM "
    "pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid<>pg_backend_pid() AND xact_start<now()-interval '10 "
    "minutes' ORDER BY xact_start LIMIT 1";

constexpr const char* table_figures =
    "SELECT n_live_tup::text,n_dead_tup::text,pg_total_relation_size(relid)::text FROM pg_stat_user_tables "
    "WHERE schemaname=$1 AND relname='check'";

constexpr const char* settings =
    "SELECT current_setting('autovacuum'),(SELECT reset_val FROM pg_settings WHERE name='synchronous_commit'),"
    "current_setting('max_connections'),"
    "(SELECT count(datid) FROM pg_stat_activity)::text,(SELECT cache_size::text FROM pg_sequences WHERE schemaname=$1 "
    "AND "
    "sequencename='fence'),current_setting('fsync'),current_setting('track_counts'),"
    "(SELECT count(*) FROM pg_class c,pg_options_to_table(c.reloptions) WHERE c.oid=to_regclass(quote_ident($1)||"
    "'.check') AND option_name='autovacuum_enabled' AND NOT "
    "option_value::boolean)::text,pg_has_role('pg_read_all_stats','USAGE')";

void inspect_rights(PGconn* on, const std::string& schema, std::vector<finding>& found) {
  if (cell(ask(on, only_looks, {schema}), 0, 0) == "t") {
    found.push_back({false, "this role may only look; if you check with a node's role, you see what that one lacks"});
    return;
  }
  if (const rows_pointer rows = ask(on, missing_rights, {schema}); PQgetisnull(rows.get(), 0, 0) == 0) {
    found.push_back(
        {true, "this role lacks rights that a node needs: " + cell(rows, 0, 0), "see Rights in docs/postgres.md"});
  } else {
    found.push_back({false, "this role has the rights of a node"});
  }
  if (const rows_pointer rows = ask(on, missing_of_operators, {schema}); PQgetisnull(rows.get(), 0, 0) == 0) {
    found.push_back(
        {false, "this role may look, and cannot make all changes of this program: it lacks " + cell(rows, 0, 0)});
  }
}

void inspect_server(PGconn* on, const std::string& schema, std::vector<finding>& found) {
  inspect_rights(on, schema, found);
  if (const rows_pointer rows = ask(on, open_functions, {schema}); PQgetisnull(rows.get(), 0, 0) == 0) {
    found.push_back({true, "every role may call " + cell(rows, 0, 0) + ", and so change all checks",
                     "see Backup and move in docs/postgres.md"});
  }
  const rows_pointer now = ask(on, settings, {schema});
  const bool vacuums = cell(now, 0, 0) == "on" && cell(now, 0, 6) == "on";
  const bool vacuums_checks = vacuums && cell(now, 0, 7) == "0";
  found.push_back({!vacuums_checks,
                   vacuums_checks ? "autovacuum is on" : "autovacuum is off: the table grows without end",
                   !vacuums          ? "SET autovacuum and track_counts to on in postgresql.conf"
                   : !vacuums_checks ? "ALTER TABLE " + schema + ".check RESET (autovacuum_enabled)"
                                     : ""});
  if (cell(now, 0, 1) == "off") {
    found.push_back({true,
                     "synchronous_commit is off for this role: a crash of the server loses checks of your transactions",
                     "ALTER ROLE or ALTER DATABASE ... SET synchronous_commit = on, for the roles that schedule"});
  }
  if (cell(now, 0, 5) == "off") {
    found.push_back({true, "fsync is off: a crash of its machine loses checks, or the database",
                     "SET fsync to on in postgresql.conf"});
  }
  const long used = std::atol(cell(now, 0, 3).c_str());
  const long most = std::atol(cell(now, 0, 2).c_str());
  found.push_back({used * 5 > most * 4, cell(now, 0, 3) + " of " + cell(now, 0, 2) + " connections are used",
                   used * 5 > most * 4 ? "raise max_connections, or lower postgres_options::connections" : ""});
  if (cell(now, 0, 4) != "1") {
    found.push_back({true, "the sequence of fences has a cache, so fences do not rise",
                     "ALTER SEQUENCE " + schema + ".fence CACHE 1"});
  }
  if (const rows_pointer rows = ask(on, old_snapshot, {}); PQntuples(rows.get()) > 0) {
    found.push_back({true,
                     "process " + cell(rows, 0, 0) + " of " + one_line(cell(rows, 0, 1)) +
                         " has had a transaction open for " + cell(rows, 0, 2) +
                         " s, so vacuum removes no row that ended since: " + one_line(cell(rows, 0, 3)),
                     "end it: SELECT pg_terminate_backend(" + cell(rows, 0, 0) + ")"});
  } else if (cell(now, 0, 8) != "t") {
    found.push_back(
        {false, "whether another role has had a transaction open for long is not known: that needs pg_monitor"});
  }
  if (const rows_pointer rows = ask(on, table_figures, {schema}); PQntuples(rows.get()) > 0) {
    const long long live = std::atoll(cell(rows, 0, 0).c_str());
    const long long dead = std::atoll(cell(rows, 0, 1).c_str());
    const bool bloated = dead > 100'000 && dead > live;
    found.push_back({bloated,
                     cell(rows, 0, 1) + " dead row versions beside " + cell(rows, 0, 0) + " live ones, " +
                         cell(rows, 0, 2) + " bytes with indexes",
                     bloated ? "VACUUM " + schema + ".check; see Autovacuum in docs/postgres.md" : ""});
  }
}

// SQL does not tell how much of a disk is free. But the server writes what a query needs beyond its memory to a file
// beside the tables, and deletes the file: that needs no right, and leaves nothing.
void inspect_disk(PGconn* on, std::vector<finding>& found) {
  const auto run = [&](const char* sql) { return rows_pointer(PQexec(on, sql), PQclear); };
  run("SAVEPOINT before");
  const rows_pointer rows =
      run("SET LOCAL work_mem=64;SET LOCAL temp_tablespaces='';"
          "SELECT count(*) FROM unnest(array_fill(repeat('x',65536),ARRAY[256]))");
  if (PQresultStatus(rows.get()) == PGRES_TUPLES_OK) {
    found.push_back({false, "the server has written 16 MB beside the tables, and deleted them"});
  } else {
    const char* const words = PQresultErrorField(rows.get(), PG_DIAG_MESSAGE_PRIMARY);
    const char* const code = PQresultErrorField(rows.get(), PG_DIAG_SQLSTATE);
    // A temp_file_limit, a time-out, or a server that stops.
    const bool is_unknown =
        code == nullptr || std::string_view(code) == "53400" || std::string_view(code).starts_with("57");
    found.push_back({!is_unknown,
                     (is_unknown ? "whether the disk of the tables has room is not known: "
                                 : "the disk of the tables has no room for 16 MB, or refuses them: ") +
                         one_line(words == nullptr ? PQresultErrorMessage(rows.get()) : words, 300),
                     is_unknown ? "" : free_some});
  }
  run("ROLLBACK TO before");
}

#endif

#ifdef TIMING_WHEEL_DESK_SQLITE

// Writes a check and deletes it in one transaction: that needs the lock, and room in the file and its log.
void inspect_file(const desk& with, std::vector<finding>& found) {
  const std::string& file = with.where.where;
  std::error_code error;
  const auto size_of = [&](const std::string& name) {
    const std::uintmax_t size = std::filesystem::file_size(name, error);
    return error ? 0 : size;
  };
  constexpr std::uintmax_t longest_log = 67'108'864;  // as the store limits it, by journal_size_limit
  const std::uintmax_t log = std::min(size_of(file + "-wal"), longest_log);
  const std::uintmax_t free = std::filesystem::space(file, error).available;
  const bool is_short = !error && free < longest_log - log + size_of(file) / 10;
  if (::access(file.c_str(), W_OK) == 0) {
    try {
      const std::string key = operating_user() + std::to_string(::getpid());
      with.store.transact([&](durable::store_transaction& open) {
        if (open.schedule({.kind = "timing-wheel check", .key = key, .payload = std::string(65536, ' ')}).inserted) {
          open.cancel("timing-wheel check", key);
        }
      });
    } catch (const timer_error& refused) {
      found.push_back({true, "the file takes no write: " + one_line(refused.what(), 300),
                       is_short ? free_some : "fuser " + in_shell(file) + " names the programs that have it open"});
    }
  } else {
    found.push_back({false, "no write was tried: this user may only read " + one_line(file, 300), ""});
  }
  if (!error) {
    found.push_back({is_short,
                     common::grouped(free / 1'000'000) + " MB are free on the disk of " + one_line(file, 300) +
                         (is_short ? ": too little for its log, and for a tenth more checks" : ""),
                     is_short ? free_some : ""});
  }
}

#endif

void inspect_kinds(const desk& with, std::vector<finding>& found) {
  const std::vector<durable::drained_node> drained = with.store.drained_nodes();
  for (const durable::drained_node& of : drained) {
    found.push_back({true, one_line(of.node) + " is drained, and claims nothing",
                     command_line(with.chosen, "drain", {of.node}, "--end")});
  }
  const auto nodes = with.store.nodes();
  const instant now = with.store.now();
  for (const durable::kind_counts& of : with.store.count_kinds()) {
    const std::string kind = one_line(of.kind);
    if (kind_text(of.kind) != of.kind) {
      found.push_back({true, "the kind " + kind + " is not UTF-8, so no node can have a handler for its checks",
                       command_line(with.chosen, "cancel", {}, "", {{"kind", of.kind}}) +
                           " cancels them; SQL gives them another kind"});
      continue;
    }
    if (of.paused) {
      found.push_back({true, kind + " is paused", command_line(with.chosen, "resume", {of.kind})});
    } else if (of.waiting > 0 && live_handlers(of.kind, nodes, now) == std::size_t{0}) {
      const bool silent = silent_handlers(of.kind, nodes, now);
      found.push_back({true,
                       at_least(of, of.waiting, with.chosen.counted) + " checks of " + kind + " wait, and " +
                           (silent ? "the nodes that have a handler are silent" : "no live node has a handler"),
                       silent ? "timing-wheel why says whether a handler waits for a lock; else start nodes again"
                       : drained.empty() ? "start a node with a handler for it"
                                         : "start a node with a handler for it, or end the drain of one that has"});
    } else if (of.oldest_waiting && now - *of.oldest_waiting > std::chrono::seconds(60)) {
      found.push_back(
          {true, "a check of " + kind + " has waited for a minute or longer",
           command_line(with.chosen, "list", {}, "--state waiting --earliest", {{"kind", of.kind}}) + ", then why"});
    }
    if (of.dead > 0) {
      found.push_back({true, at_least(of, of.dead, with.chosen.counted) + " checks of " + kind + " are dead",
                       command_line(with.chosen, "list", {}, "--state dead --groups", {{"kind", of.kind}})});
    }
  }
}

}  // namespace

#ifdef TIMING_WHEEL_DESK_POSTGRES

namespace {

std::string quoted_schema(PGconn* on, const options& chosen) {
  const std::string schema = schema_of(chosen);
  char* const text = PQescapeIdentifier(on, schema.c_str(), schema.size());
  std::string copy = text;
  PQfreemem(text);
  return copy;
}

// Of those that hold a lock, or of those for which they wait, all that wait for nobody. `holders` selects their `pid`,
// by `value`; `@` stands for the table.
std::vector<blocker> roots_of(PGconn* on, const std::string& table, std::string holders, const std::string& value) {
  for (std::size_t at = 0; (at = holders.find('@', at)) != std::string::npos; at += table.size()) {
    holders.replace(at, 1, table);
  }
  const rows_pointer rows =
      ask(on,
          "WITH RECURSIVE chain(pid) AS (" + holders +
              " UNION SELECT unnest(pg_blocking_pids(pid)) FROM chain) "
              "SELECT activity.pid::text,coalesce(activity.state,'unknown'),"
              "coalesce(to_char(activity.xact_start AT TIME ZONE 'UTC','YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),'?'),"
              "coalesce(usename,'?'),concat_ws(', ',nullif(application_name,''),host(client_addr)),"
              "coalesce(left(query,200),''),application_name='timing_wheel' FROM chain JOIN pg_stat_activity AS "
              "activity USING(pid) WHERE cardinality(pg_blocking_pids(pid))=0 AND pid<>pg_backend_pid()",
          {value});
  std::vector<blocker> found;
  found.reserve(static_cast<std::size_t>(PQntuples(rows.get())));
  for (int row = 0; row < PQntuples(rows.get()); ++row) {
    found.push_back({std::atoi(cell(rows, row, 0).c_str()), cell(rows, row, 1), cell(rows, row, 2), cell(rows, row, 3),
                     cell(rows, row, 4), cell(rows, row, 5), cell(rows, row, 6) == "t"});
  }
  return found;
}

// A session that waits for a row holds a lock of another type, which names the table, too.
#define TIMING_WHEEL_TABLE_LOCKS                                            \
  "SELECT pid FROM pg_locks WHERE granted AND locktype='relation' AND "     \
  "database=(SELECT oid FROM pg_database WHERE datname=current_database())" \
  " AND mode IN ('ShareLock','ShareRowExclusiveLock','ExclusiveLock','AccessExclusiveLock') AND relation"
// Whoever changes the row, or has locked the whole table against a claim.
constexpr const char* holders_of_row =
    "SELECT held.pid FROM @ AS locked JOIN pg_locks AS held ON held.transactionid=locked.xmax AND held.granted "
    "WHERE locked.id=$1::bigint UNION " TIMING_WHEEL_TABLE_LOCKS "=(SELECT tableoid FROM @ WHERE id=$1::bigint)";
// The names are read without a lock of the tables.
constexpr const char* holders_of_tables =
    TIMING_WHEEL_TABLE_LOCKS " IN (SELECT oid FROM pg_class WHERE relnamespace=to_regnamespace(quote_ident($1)))";
#undef TIMING_WHEEL_TABLE_LOCKS
// Several that have locked the row together: then `xmax` is a number for all of them. The server refuses one that is
// no such number.
constexpr const char* holders_together =
    "SELECT held.pid FROM @ AS locked,pg_get_multixact_members(locked.xmax) AS of JOIN pg_locks AS held ON "
    "held.transactionid=of.xid AND held.granted WHERE locked.id=$1::bigint";

// Sessions of nodes that wait: nobody has touched this row, since its node waits with another one.
constexpr const char* nodes_that_wait =
    "SELECT pid FROM pg_stat_activity WHERE datname=current_database() AND application_name='timing_wheel' AND "
    "cardinality(pg_blocking_pids(pid))>0 AND $1::bigint IS NOT NULL";

}  // namespace

#endif

std::vector<blocker> blockers_of([[maybe_unused]] const desk& with, [[maybe_unused]] std::int64_t id) {
  std::vector<blocker> found;
#ifdef TIMING_WHEEL_DESK_POSTGRES
  if (with.where.type == "postgres") {
    const auto look = [&](const char* holders) {
      on_server_if_it_writes(with, [&](PGconn* on) {
        found = roots_of(on, quoted_schema(on, with.chosen) + ".check", holders, std::to_string(id));
      });
    };
    look(holders_of_row);
    if (found.empty()) {
      try {
        look(holders_together);
      } catch (const failure&) {  // NOLINT(bugprone-empty-catch): no such number, so nobody
      }
    }
    if (found.empty()) {
      look(nodes_that_wait);
    }
  }
#endif
  return found;
}

std::string with_lockers([[maybe_unused]] const desk& with, const timer_error& error) {
  std::string words = error.what();
#ifdef TIMING_WHEEL_DESK_POSTGRES
  // A statement, or its wait for a lock, took too long; outside of a transaction, this program gives up first.
  if (is_refusal(error, "57014") || is_refusal(error, "55P03") || error.code() == durable::errc::row_locked ||
      words.find("no answer within") != std::string::npos) {
    try {
      on_server_if_it_writes(with, [&](PGconn* on) {
        for (const blocker& each : roots_of(on, "", holders_of_tables, schema_of(with.chosen))) {
          words += ". A table is locked: " + words_of(each, with.chosen.redact) + ". " + end_of(each);
        }
      });
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then the error is all that is known
    }
  }
#endif
  return words;
}

std::vector<std::string> likely_holders([[maybe_unused]] const desk& with, [[maybe_unused]] const std::string& kind,
                                        [[maybe_unused]] std::int64_t id) {
  std::vector<std::string> found;
#ifdef TIMING_WHEEL_DESK_POSTGRES
  if (with.where.type == "postgres") {
    const std::vector<durable::node_info> nodes = with.store.nodes().value_or(std::vector<durable::node_info>());
    const auto may_have_it = [&](const std::string& name) {
      return std::any_of(nodes.begin(), nodes.end(),
                         [&](const durable::node_info& of) { return of.name == name && serves(of, kind); });
    };
    on_server_if_it_writes(with, [&](PGconn* on) {
      const rows_pointer rows = ask(on,
                                    "SELECT DISTINCT owner FROM " + quoted_schema(on, with.chosen) +
                                        ".share WHERE share=$1::bigint&63 AND owner IS NOT NULL ORDER BY owner",
                                    {std::to_string(id)});
      for (int row = 0; row < PQntuples(rows.get()); ++row) {
        if (std::string owner = cell(rows, row, 0); may_have_it(owner)) {
          found.push_back(std::move(owner));
        }
      }
    });
  }
#endif
  return found;
}

std::vector<finding> inspect(const desk& with) {
  std::vector<finding> found;
  const durable::migration_plan plan = with.store.plan_migration();
  if (plan.from.empty()) {
    throw failure(exit_status::no_store,
                  "there are no tables of durable checks; timing-wheel migrate --create makes them");
  }
  const bool current = plan.statements.empty();
  found.push_back(
      {!current, "the tables are of version " + plan.from + (current ? "" : ", and this program knows " + plan.to),
       current
           ? ""
           : command_line(with.chosen, "migrate", {}, "--plan") + ", then without --plan as the owner of the tables"});
  const auto difference = with.store.clock_difference();
  const bool apart = std::chrono::abs(difference) > std::chrono::seconds(2);
  found.push_back({apart,
                   "the clock here differs from the store's by " +
                       std::to_string(std::chrono::duration<double>(difference).count()) + " s",
                   apart ? "set the clock of this machine, or see The clock in docs/durable.md" : ""});
#ifdef TIMING_WHEEL_DESK_POSTGRES
  if (with.where.type == "postgres") {
    const std::size_t before = found.size();
    on_server_if_it_writes(with, [&](PGconn* on) {
      for (const blocker& each : roots_of(on, "", holders_of_tables, schema_of(with.chosen))) {
        found.push_back({true, "a table is locked, so nothing more is looked at: " + words_of(each, with.chosen.redact),
                         end_of(each)});
      }
    });
    if (found.size() != before) {
      return found;
    }
    const bool writes = on_server_if_it_writes(with, [&](PGconn* on) {
      inspect_server(on, schema_of(with.chosen), found);
      inspect_disk(on, found);
    });
    if (!writes) {
      found.push_back({false, "this is a standby: its primary knows about rights, settings, vacuum and the disk"});
    }
  }
#endif
#ifdef TIMING_WHEEL_DESK_SQLITE
  if (with.where.type == "sqlite") {
    inspect_file(with, found);
  }
#endif
  try {
    inspect_kinds(with, found);
  } catch (const timer_error& error) {
    if (!is_refusal(error, "42501")) {
      throw;
    }
    found.push_back(
        {true, "the checks cannot be looked at: " + one_line(error.what(), 300), "see Rights in docs/postgres.md"});
  }
  return found;
}

exit_status check(const desk& with) {
  const std::vector<finding> found = inspect(with);
  const bool wrong = std::any_of(found.begin(), found.end(), [](const finding& each) { return each.wrong; });
  if (with.chosen.as_json) {
    json all = json::array();
    for (const finding& each : found) {
      all.push_back({{"wrong", each.wrong}, {"what", each.what}, {"do", each.remedy}});
    }
    with.out << text_of(all) << '\n';
  } else {
    for (const finding& each : found) {
      with.out << (each.wrong ? "WRONG  " : "ok     ") << each.what << '\n';
      if (!each.remedy.empty()) {
        with.out << "       -> " << each.remedy << '\n';
      }
    }
  }
  return wrong ? exit_status::refused : exit_status::done;
}

}  // namespace timing_wheel::desk
