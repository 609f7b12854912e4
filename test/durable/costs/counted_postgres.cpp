#include <libpq-fe.h>

#include <stdexcept>

#include "durable/costs/counted_store.hpp"
#include "durable/support/made_clock.hpp"
#include "durable/support/private_postgres.hpp"
#include "timing_wheel/durable/forwarding_store.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

namespace timing_wheel::durable::test {

namespace {

using timing_wheel::test::private_postgres;
using timing_wheel::test::sql_session;

/// A server on which a figure does not depend on when something runs: nothing writes but us, a page is written to the
/// log as a whole never, and its clock stands still until it is told that time has passed.
struct still_server {
  const private_postgres server{{.settings = {{"autovacuum", "off"},
                                              {"full_page_writes", "off"},
                                              {"wal_level", "minimal"},
                                              {"max_wal_senders", "0"},
                                              {"checkpoint_timeout", "1d"},
                                              {"max_wal_size", "8GB"},
                                              {"synchronous_commit", "on"}}}};
  made_clock clock{server};
};

still_server& still() {
  static still_server one;
  return one;
}

/// By the clock that stands still.
class still_store final : public forwarding_store {
 public:
  explicit still_store(store& real) : forwarding_store(real) {}
  instant now() override { return still().clock.now(); }
};

class counted_postgres final : public counted_store {
 public:
  counted_postgres() {
    user_.execute("DROP SCHEMA IF EXISTS timing_wheel CASCADE; DROP TABLE IF EXISTS public.orders");
    store_.migrate();
    user_.execute(
        "CREATE TABLE public.orders(id bigint PRIMARY KEY,state integer) WITH (fillfactor=40);"
        "INSERT INTO public.orders SELECT n,0 FROM generate_series(1,2000) n");
  }

  store& where() override { return seen_; }
  cost so_far() override {
    flush();
    const store_counts counts = store_.counts();
    return {static_cast<double>(counts.statements - own_.statements + users_statements_),
            static_cast<double>(counts.rows_read - own_.rows_read),
            static_cast<double>(counts.commits - own_.commits + users_commits_),
            number("SELECT pg_current_wal_insert_lsn()-'0/0'::pg_lsn"),
            number("SELECT (SELECT coalesce(sum(seq_tup_read+idx_tup_fetch),0) FROM pg_stat_user_tables "
                   "WHERE schemaname='timing_wheel' AND relname<>'version')+"
                   "(SELECT coalesce(sum(idx_tup_read),0) FROM pg_stat_user_indexes WHERE schemaname='timing_wheel')"),
            static_cast<double>(counts.round_trips - own_.round_trips + users_statements_)};
  }
  void pass(std::chrono::milliseconds time) override { still().clock.pass(time); }
  void order(const request& asked) override {
    user_.execute("BEGIN");
    user_.execute("INSERT INTO public.orders(id,state) VALUES(" + std::to_string(++orders_) + ",0)");
    durable::schedule(user_.get(), asked);
    user_.execute("COMMIT");
    users_statements_ += 4;
    ++users_commits_;
  }
  void update_order(transaction& open, std::int64_t number) override {
    const std::string sql = "UPDATE public.orders SET state=1 WHERE id=" + std::to_string(number);
    PGresult* const answer = PQexec(postgres_connection(open), sql.c_str());
    const bool good = PQresultStatus(answer) == PGRES_COMMAND_OK;
    PQclear(answer);
    if (!good) {
      throw std::runtime_error(sql + ": " + PQerrorMessage(postgres_connection(open)));
    }
    ++users_statements_;
  }

 private:
  /// Connections tell what they have read when they please, unless they are asked to.
  void flush() {
    if (PQserverVersion(user_.get()) < 150000) {
      return;
    }
    const char* const ask = "SELECT pg_stat_force_next_flush()";
    const store_counts before = store_.counts();
    store_.transact(
        [&](store_transaction& open) { PQclear(PQexec(static_cast<PGconn*>(open.native_handle("postgres")), ask)); });
    const store_counts after = store_.counts();
    own_.statements += after.statements - before.statements;
    own_.rows_read += after.rows_read - before.rows_read;
    own_.commits += after.commits - before.commits;
    own_.round_trips += after.round_trips - before.round_trips;
    user_.execute(ask);
  }
  [[nodiscard]] double number(const std::string& sql) const { return std::stod(user_.ask(sql)); }

  sql_session user_{still().server.conninfo()};
  postgres_store store_{still().server.conninfo(), {.connections = 1}};
  still_store seen_{store_};
  store_counts own_{};
  std::uint64_t users_statements_ = 0;
  std::uint64_t users_commits_ = 0;
  std::int64_t orders_ = 2000;  // so many are there, for handlers to change
};

}  // namespace

const counted_kind counted_in_postgres = {
    "postgres",
    [] {
      const std::string words = still().server.ask("SHOW server_version");
      return words.substr(0, words.find(' '));
    },
    []() -> std::unique_ptr<counted_store> { return std::make_unique<counted_postgres>(); }, true};

}  // namespace timing_wheel::durable::test
