#include <libpq-fe.h>

#include <charconv>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "durable/support/private_postgres.hpp"
#include "durable/support/site.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::rig {
namespace {

using timing_wheel::test::private_postgres;
using server_connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;
using result = std::unique_ptr<PGresult, decltype(&PQclear)>;

/// Whether it is worth while to try again: the connection or the server went away, or others were in the way.
bool passes(std::string_view state) {
  const auto begins = [&](const char* with) { return state.starts_with(with); };
  return begins("08") || begins("57P") || begins("40") || begins("53") || begins("25006");
}

class postgres_database final : public database {
 public:
  /// On a connection that others close.
  explicit postgres_database(PGconn* opened) : opened_(opened) {}
  /// On one of its own.
  explicit postgres_database(server_connection own) : owner_(std::move(own)), opened_(owner_.get()) {}

  using database::run;
  std::vector<std::int64_t> run(const std::string& sql) override {
    const result got(PQexec(opened_, sql.c_str()), PQclear);
    check(got.get());
    std::vector<std::int64_t> all;
    for (int row = 0; row < PQntuples(got.get()); ++row) {
      for (int column = 0; column < PQnfields(got.get()); ++column) {
        const char* const text = PQgetvalue(got.get(), row, column);
        std::from_chars(text, text + PQgetlength(got.get(), row, column), all.emplace_back());
      }
    }
    return all;
  }
  void begin() override { run("BEGIN"); }
  void roll_back() noexcept override {
    if (PQtransactionStatus(opened_) != PQTRANS_IDLE) {
      PQclear(PQexec(opened_, "ROLLBACK"));
    }
  }

  durable::scheduled schedule(const durable::request& asked) override {
    return translated([&] { return durable::schedule(opened_, asked); });
  }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    return translated([&]() -> cancel_result { return durable::cancel(opened_, kind, key); });
  }
  [[nodiscard]] std::int64_t now() override {
    return ask("SELECT (extract(epoch FROM clock_timestamp())*1000000)::bigint");
  }

 private:
  void check(const PGresult* got) const {
    if (PQresultStatus(got) == PGRES_COMMAND_OK || PQresultStatus(got) == PGRES_TUPLES_OK) {
      return;
    }
    const char* const state = got == nullptr ? nullptr : PQresultErrorField(got, PG_DIAG_SQLSTATE);
    if (PQstatus(opened_) != CONNECTION_OK || state == nullptr || passes(state)) {
      throw try_again(PQerrorMessage(opened_));
    }
    throw std::runtime_error(PQerrorMessage(opened_));
  }

  template <class Work>
  std::invoke_result_t<Work> translated(Work work) const {
    try {
      return work();
    } catch (const timer_error& error) {
      const std::string words = error.code().message();  // "SQLSTATE 40001"
      if (PQstatus(opened_) != CONNECTION_OK || (error.code().category() == durable::postgres_category() &&
                                                 passes(std::string_view(words).substr(words.find(' ') + 1)))) {
        throw try_again(error.what());
      }
      throw;
    }
  }

  server_connection owner_{nullptr, PQfinish};
  PGconn* opened_;
};

/// A connection string for people: without what must not be told.
std::string without_password(const std::string& conninfo) {
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> all(PQconninfoParse(conninfo.c_str(), nullptr),
                                                                         PQconninfoFree);
  std::string told;
  for (const PQconninfoOption* each = all.get(); each != nullptr && each->keyword != nullptr; ++each) {
    if (each->val != nullptr && std::string_view(each->dispchar).find('*') == std::string_view::npos) {
      told.append(told.empty() ? "" : " ").append(each->keyword).append("=").append(each->val);
    }
  }
  return told;
}

class site_on_server : public site {
 public:
  explicit site_on_server(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  void prepare() override { open_store({})->migrate(); }
  [[nodiscard]] std::unique_ptr<durable::store> open_store(std::chrono::milliseconds lease) const override {
    durable::postgres_options options;
    if (lease.count() != 0) {
      options.transaction_timeout = lease;
    }
    return std::make_unique<durable::postgres_store>(conninfo_, options);
  }
  [[nodiscard]] std::unique_ptr<database> connect() const override {
    server_connection opened(PQconnectdb(conninfo_.c_str()), PQfinish);
    if (PQstatus(opened.get()) != CONNECTION_OK) {
      throw try_again(PQerrorMessage(opened.get()));
    }
    PQsetNoticeProcessor(
        opened.get(), [](void*, const char*) {}, nullptr);
    return std::make_unique<postgres_database>(std::move(opened));
  }
  [[nodiscard]] std::unique_ptr<database> within(durable::transaction& open) const override {
    return std::make_unique<postgres_database>(durable::postgres_connection(open));
  }
  [[nodiscard]] bool on_server() const noexcept override { return true; }
  void end_holds(database& on) const override { on.run("UPDATE timing_wheel.node SET until=0"); }
  [[nodiscard]] std::string table(const std::string& name) const override { return "timing_wheel.\"" + name + "\""; }
  [[nodiscard]] std::string bytes_of(const std::string& text) const override {
    return "convert_to(" + text + ",'UTF8')";
  }
  [[nodiscard]] std::string tables() const override {
    return "(SELECT tablename AS name FROM pg_tables WHERE schemaname=current_schema()) AS named WHERE true";
  }
  [[nodiscard]] std::string argument() const override { return "postgres:" + conninfo_; }
  [[nodiscard]] std::string name() const override { return "postgres:" + without_password(conninfo_); }
  [[nodiscard]] std::string file(const std::string& what) const override { return what; }

 private:
  const std::string conninfo_;
};

class site_on_private_server final : public site_on_server {
 public:
  explicit site_on_private_server(std::unique_ptr<private_postgres> server)
      : site_on_server(server->conninfo()), server_(std::move(server)) {}

  [[nodiscard]] std::string file(const std::string& what) const override { return server_->folder() / what; }
  /// By another name: what a server leaves behind under its own is cleared away.
  std::string keep() override {
    const std::filesystem::path kept =
        server_->folder().parent_path() / ("kept." + server_->folder().filename().string());
    server_->stop();
    std::filesystem::rename(server_->folder(), kept);
    return kept;
  }
  void kill_server() override {
    server_->kill();
    server_->start();
  }

 private:
  std::unique_ptr<private_postgres> server_;
};

}  // namespace

std::unique_ptr<site> postgres_site(const std::string& conninfo) { return std::make_unique<site_on_server>(conninfo); }

std::unique_ptr<site> private_site() {
  return std::make_unique<site_on_private_server>(std::make_unique<private_postgres>());
}

}  // namespace timing_wheel::rig
