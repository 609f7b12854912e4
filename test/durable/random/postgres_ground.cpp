#include <libpq-fe.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "durable/random/program.hpp"
#include "durable/support/made_clock.hpp"
#include "durable/support/private_postgres.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

namespace timing_wheel::durable::test {

namespace {

using timing_wheel::test::private_postgres;
using session = timing_wheel::test::sql_session;

// The server's own way to wait for the end looks once in 100 ms.
void terminate(const session& by, int backend) {
  by.execute("SELECT pg_terminate_backend(" + std::to_string(backend) + ")");
  while (kill(backend, 0) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

class postgres_users_transaction final : public users_transaction {
 public:
  postgres_users_transaction(session& on, const session& other) : on_(on), other_(other) { on_.execute("BEGIN"); }
  ~postgres_users_transaction() override {
    if (was_cut_) {
      PQreset(on_.get());
      on_.execute("SET lock_timeout=1");
    } else if (PQtransactionStatus(on_.get()) != PQTRANS_IDLE) {
      on_.execute("ROLLBACK");
    }
  }
  scheduled schedule(const request& asked) override { return durable::schedule(on_.get(), asked); }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    return durable::cancel(on_.get(), kind, key);
  }
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) override {
    return durable::reschedule(on_.get(), kind, key, due);
  }
  void commit() override { on_.execute("COMMIT"); }
  void cut() override {
    was_cut_ = true;
    terminate(other_, on_.backend());
  }

 private:
  session& on_;
  const session& other_;
  bool was_cut_ = false;
};

// One schema, and a store for each process that uses it. Nobody goes on while one waits for a lock: who may not wait
// for long gives up soon.
class postgres_programs final : public ground {
 public:
  postgres_programs() {
    const postgres_options options{.statement_timeout = std::chrono::seconds(3)};
    for (std::size_t i = 0; i <= most_nodes; ++i) {
      stores_.push_back(std::make_unique<postgres_store>(server_.conninfo(), options));
      stores_.back()->migrate();
    }
    for (std::size_t i = 0; i < most_users; ++i) {
      users_.push_back(std::make_unique<session>(server_.conninfo()));
      users_.back()->execute("SET lock_timeout=1");
    }
  }
  void reset() override {
    constexpr int often = 50;  // so that dead rows do not pile up
    own_.execute(
        "DELETE FROM timing_wheel.check;DELETE FROM timing_wheel.dead;DELETE FROM timing_wheel.node;"
        "DELETE FROM timing_wheel.share;SELECT setval('timing_wheel.check_id_seq',1,false)");
    if (programs_++ % often == 0) {
      own_.execute("VACUUM timing_wheel.check");
      own_.execute("VACUUM timing_wheel.node");
      own_.execute("VACUUM timing_wheel.share");
    }
    clock_.reset();
  }
  void pass(std::chrono::microseconds time) override { clock_.pass(time); }
  instant now() override { return clock_.now(); }
  store& of(std::size_t node) override { return *stores_[node]; }
  std::unique_ptr<users_transaction> begin(std::size_t user) override {
    return std::make_unique<postgres_users_transaction>(*users_[user], own_);
  }
  [[nodiscard]] bool writes_beside() const override { return true; }
  [[nodiscard]] bool keeps_undone_fences() const override { return true; }
  [[nodiscard]] bool divides() const override { return true; }
  void cut(transaction& open) override { terminate(own_, PQbackendPID(postgres_connection(open))); }

 private:
  private_postgres server_{{.settings = {{"autovacuum", "off"}}}};
  made_clock clock_{server_};
  session own_{server_.conninfo()};
  unsigned programs_ = 0;
  std::vector<std::unique_ptr<postgres_store>> stores_;
  std::vector<std::unique_ptr<session>> users_;
};

}  // namespace

std::unique_ptr<ground> postgres_ground() { return std::make_unique<postgres_programs>(); }

}  // namespace timing_wheel::durable::test
