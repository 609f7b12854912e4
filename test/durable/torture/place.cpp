#include "durable/torture/place.hpp"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#ifdef TIMING_WHEEL_TORTURE_SQLITE
#include <sqlite3.h>

#include "timing_wheel/durable/sqlite_store.hpp"
#endif
#ifdef TIMING_WHEEL_TORTURE_POSTGRES
#include "durable/support/private_postgres.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#endif

namespace timing_wheel::durable::test {
namespace {

#ifdef TIMING_WHEEL_TORTURE_SQLITE

void execute_on(sqlite3* on, const std::string& sql) {
  if (sqlite3_exec(on, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(on));
  }
}

class sqlite_connection_of_its_own final : public database {
 public:
  explicit sqlite_connection_of_its_own(const std::string& file) {
    if (sqlite3_open(file.c_str(), &handle_) != SQLITE_OK) {
      throw std::runtime_error("cannot open " + file);
    }
    sqlite3_busy_timeout(handle_, 10'000);
    execute_on(handle_, "PRAGMA synchronous=FULL");
  }
  ~sqlite_connection_of_its_own() override { sqlite3_close(handle_); }

  void begin() override { execute("BEGIN IMMEDIATE"); }
  void execute(const std::string& sql) override { execute_on(handle_, sql); }
  [[nodiscard]] std::int64_t ask(const std::string& sql) override {
    std::int64_t answer = 0;
    const auto read = [](void* into, int, char** values, char**) {
      *static_cast<std::int64_t*>(into) = values[0] == nullptr ? 0 : std::atoll(values[0]);
      return 0;
    };
    if (sqlite3_exec(handle_, sql.c_str(), read, &answer, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_));
    }
    return answer;
  }
  void schedule(const request& asked) override { durable::schedule(handle_, asked); }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    return durable::cancel(handle_, kind, key);
  }

 private:
  sqlite3* handle_ = nullptr;
};

class place_in_file final : public place {
 public:
  explicit place_in_file(std::string file) : file_(std::move(file)) {}

  void prepare() override {
    for (const char* end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(file_ + end);
    }
  }
  [[nodiscard]] std::unique_ptr<store> open_store(std::chrono::milliseconds /*lease*/) const override {
    return std::make_unique<sqlite_store>(file_);
  }
  [[nodiscard]] std::unique_ptr<database> connect() const override {
    return std::make_unique<sqlite_connection_of_its_own>(file_);
  }
  void execute_in(transaction& open, const std::string& sql) const override {
    execute_on(sqlite_connection(open), sql);
  }
  [[nodiscard]] std::string table(const std::string& name) const override { return "timing_wheel_" + name; }
  [[nodiscard]] std::string file(const std::string& name) const override { return file_ + "." + name; }
  [[nodiscard]] std::string argument() const override { return file_; }

 private:
  const std::string file_;
};

#endif

#ifdef TIMING_WHEEL_TORTURE_POSTGRES

using timing_wheel::test::postgres_session;
using timing_wheel::test::private_postgres;

class postgres_connection_of_its_own final : public database {
 public:
  explicit postgres_connection_of_its_own(const std::string& conninfo) : session_(conninfo) {}

  void begin() override { execute("BEGIN"); }
  void execute(const std::string& sql) override { session_.execute(sql); }
  [[nodiscard]] std::int64_t ask(const std::string& sql) override { return session_.count(sql); }
  void schedule(const request& asked) override { durable::schedule(session_.get(), asked); }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    return durable::cancel(session_.get(), kind, key);
  }

 private:
  const postgres_session session_;
};

class place_on_server : public place {
 public:
  explicit place_on_server(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  void prepare() override {}
  [[nodiscard]] std::unique_ptr<store> open_store(std::chrono::milliseconds lease) const override {
    return std::make_unique<postgres_store>(conninfo_, postgres_options{.transaction_timeout = lease});
  }
  [[nodiscard]] std::unique_ptr<database> connect() const override {
    return std::make_unique<postgres_connection_of_its_own>(conninfo_);
  }
  void end_holds(database& on) const override { on.execute("UPDATE timing_wheel.node SET until=0"); }
  void execute_in(transaction& open, const std::string& sql) const override {
    PGconn* const on = postgres_connection(open);
    const std::unique_ptr<PGresult, decltype(&PQclear)> done(PQexec(on, sql.c_str()), &PQclear);
    if (PQresultStatus(done.get()) != PGRES_COMMAND_OK) {
      throw std::runtime_error(sql + ": " + PQerrorMessage(on));
    }
  }
  [[nodiscard]] std::string table(const std::string& name) const override { return "timing_wheel." + name; }
  [[nodiscard]] std::string file(const std::string& name) const override { return name; }
  [[nodiscard]] std::string argument() const override { return "postgres:" + conninfo_; }

 private:
  const std::string conninfo_;
};

class place_on_private_server final : public place_on_server {
 public:
  explicit place_on_private_server(std::unique_ptr<private_postgres> server)
      : place_on_server(server->conninfo()), server_(std::move(server)) {}

  [[nodiscard]] std::string file(const std::string& name) const override { return server_->folder() / name; }

 private:
  std::unique_ptr<private_postgres> server_;
};

#endif

}  // namespace

std::unique_ptr<place> place_of(const std::string& argument) {
  constexpr std::string_view server = "postgres:";
  if (argument.starts_with(server)) {
#ifdef TIMING_WHEEL_TORTURE_POSTGRES
    return std::make_unique<place_on_server>(argument.substr(server.size()));
#endif
  } else {
#ifdef TIMING_WHEEL_TORTURE_SQLITE
    return std::make_unique<place_in_file>(argument);
#endif
  }
  throw std::runtime_error("this program was built without a store for " + argument);
}

std::unique_ptr<place> private_place() {
#ifdef TIMING_WHEEL_TORTURE_POSTGRES
  return std::make_unique<place_on_private_server>(std::make_unique<private_postgres>());
#else
  throw std::runtime_error("this program was built without PostgreSQL");
#endif
}

}  // namespace timing_wheel::durable::test
