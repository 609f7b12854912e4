#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/program.hpp"
#include "durable_place.hpp"
#include "durable_server.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#include "timing_wheel/error.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;

/// "order_compensation" tells our tables from others. One shop in a schema: that which the connection finds first.
constexpr shop_tables tables_of_server{
    .numbered = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    .mark = "CREATE TABLE order_compensation(version BIGINT NOT NULL); INSERT INTO order_compensation VALUES(3);"};
static_assert(shop_version == 3, "the statements spell it out");

constexpr const char* our_tables =
    "SELECT count(*) FROM pg_tables WHERE schemaname=current_schema() AND tablename='order_compensation'";
constexpr const char* tables_of_our_names =
    "SELECT count(*) FROM pg_tables WHERE schemaname=current_schema() "
    "AND tablename IN ('shop_run','worker','server_kill','lost_share','stock','orders','firing','probe')";

/// Whether it is worth while to try again: the connection or the server went away, or others were in the way.
bool passes(std::string_view state) {
  const auto begins = [&](const char* with) { return state.starts_with(with); };
  return begins("08") || begins("57P") || begins("40") || begins("53") || begins("25006");
}

std::string state_of(const std::error_code& code) {
  const std::string words = code.message();  // "SQLSTATE 40001"
  return words.substr(words.find(' ') + 1);
}

/// On a connection that others close.
class postgres_database : public database {
 public:
  explicit postgres_database(PGconn* opened) : opened_(opened) {}

  void execute(const std::string& sql) override { static_cast<void>(checked(PQexec(opened_, sql.c_str()))); }
  void begin() override { execute("BEGIN"); }
  void commit() override { execute("COMMIT"); }
  void roll_back() noexcept override {
    if (PQtransactionStatus(opened_) != PQTRANS_IDLE) {
      PQclear(PQexec(opened_, "ROLLBACK"));
    }
  }

  durable::scheduled schedule(const durable::request& asked) override {
    return translated([&] { return durable::schedule(opened_, asked); });
  }
  timing_wheel::cancel_result cancel(std::string_view kind, std::string_view key) override {
    return translated([&] { return durable::cancel(opened_, kind, key); });
  }
  std::int64_t now() override { return ask("SELECT (extract(epoch FROM clock_timestamp())*1000000)::bigint"); }
  [[nodiscard]] const char* check_table() const noexcept override { return "timing_wheel.\"check\""; }
  [[nodiscard]] const char* share_table() const noexcept override { return "timing_wheel.share"; }
  [[nodiscard]] std::string bytes_of(const std::string& text) const override {
    return "convert_to(" + text + ",'UTF8')";
  }

 protected:
  using result = std::unique_ptr<PGresult, decltype(&PQclear)>;

  [[nodiscard]] PGconn* get() const { return opened_; }

  [[nodiscard]] result checked(PGresult* got) const {
    result owner(got, PQclear);
    const ExecStatusType status = PQresultStatus(got);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
      return owner;
    }
    const char* const state = got == nullptr ? nullptr : PQresultErrorField(got, PG_DIAG_SQLSTATE);
    if (PQstatus(opened_) != CONNECTION_OK || state == nullptr || passes(state)) {
      throw try_again(PQerrorMessage(opened_));
    }
    throw common::failure(PQerrorMessage(opened_));
  }

 private:
  template <class Work>
  std::invoke_result_t<Work> translated(Work work) const {
    try {
      return work();
    } catch (const timing_wheel::timer_error& error) {
      if (PQstatus(opened_) != CONNECTION_OK ||
          (error.code().category() == durable::postgres_category() && passes(state_of(error.code())))) {
        throw try_again(error.what());
      }
      throw;
    }
  }

  virtual result execute_with(const char* sql, int count, const char* const* values) {
    return checked(PQexecParams(opened_, sql, count, whole_numbers().data(), values, nullptr, nullptr, 0));
  }

  std::vector<std::int64_t> run_with(const char* sql, std::span<const std::int64_t> values) override {
    std::vector<std::string> texts;
    std::transform(values.begin(), values.end(), std::back_inserter(texts),
                   [](std::int64_t value) { return std::to_string(value); });
    std::array<const char*, most_values> given{};
    std::transform(texts.begin(), texts.end(), given.begin(), [](const std::string& text) { return text.c_str(); });
    const result got = execute_with(sql, static_cast<int>(texts.size()), given.data());
    std::vector<std::int64_t> all;
    for (int row = 0; row < PQntuples(got.get()); ++row) {
      for (int column = 0; column < PQnfields(got.get()); ++column) {
        const char* const text = PQgetvalue(got.get(), row, column);
        std::from_chars(text, text + PQgetlength(got.get(), row, column), all.emplace_back());
      }
    }
    return all;
  }

 protected:
  static constexpr std::size_t most_values = 8;

  /// Each parameter is one, whatever a statement would take it for.
  static const std::array<Oid, most_values>& whole_numbers() {
    static constexpr Oid bigint = 20;
    static constexpr std::array<Oid, most_values> all{bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint};
    return all;
  }

 private:
  PGconn* opened_;
};

using session = std::unique_ptr<PGconn, decltype(&PQfinish)>;

/// On a connection of its own, with prepared statements.
class own_postgres_database final : public postgres_database {
 public:
  explicit own_postgres_database(session owner) : postgres_database(owner.get()), owner_(std::move(owner)) {}

 private:
  result execute_with(const char* sql, int count, const char* const* values) override {
    auto found = prepared_.find(sql);
    if (found == prepared_.end()) {
      const std::string name = "shop" + std::to_string(prepared_.size());
      static_cast<void>(checked(PQprepare(get(), name.c_str(), sql, count, whole_numbers().data())));
      found = prepared_.emplace(sql, name).first;
    }
    return checked(PQexecPrepared(get(), found->second.c_str(), count, values, nullptr, nullptr, 0));
  }

  session owner_;
  std::map<std::string, std::string, std::less<>> prepared_;
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

class place_on_server : public shop_place {
 public:
  explicit place_on_server(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  void prepare() override {
    try {
      const auto in = connect();
      check_tables(*in);
      open_store()->migrate();
      write_transaction open(*in);
      if (in->ask(our_tables) == 0) {
        make_tables(*in, tables_of_server);
      }
      open.commit();
    } catch (const common::failure& error) {
      throw common::usage_error("--store: cannot use " + name() + ": " + error.what());
    } catch (const timing_wheel::timer_error& error) {
      throw common::usage_error("--store: cannot use " + name() + ": " + error.what());
    }
  }

  [[nodiscard]] std::unique_ptr<durable::store> open_store() const override {
    return std::make_unique<durable::postgres_store>(conninfo_);
  }
  [[nodiscard]] std::unique_ptr<database> connect() const override {
    session opened(PQconnectdb(conninfo_.c_str()), PQfinish);
    if (PQstatus(opened.get()) != CONNECTION_OK) {
      throw try_again(PQerrorMessage(opened.get()));
    }
    PQsetNoticeProcessor(
        opened.get(), [](void*, const char*) {}, nullptr);
    return std::make_unique<own_postgres_database>(std::move(opened));
  }
  [[nodiscard]] std::unique_ptr<database> within(durable::transaction& open) const override {
    return std::make_unique<postgres_database>(durable::postgres_connection(open));
  }
  [[nodiscard]] std::string argument() const override { return "postgres:" + conninfo_; }
  [[nodiscard]] std::string name() const override { return "postgres:" + without_password(conninfo_); }

 private:
  static void check_tables(database& in) {
    if (in.ask(our_tables) == 0) {
      if (in.ask(tables_of_our_names) != 0) {
        throw common::failure("it has the tables of something else");
      }
    } else if (const std::int64_t version = in.ask("SELECT max(version) FROM order_compensation");
               version != shop_version) {
      throw common::failure("it is of version " + std::to_string(version) +
                            " of this program's tables, which knows version " + std::to_string(shop_version));
    }
  }

  const std::string conninfo_;
};

class place_on_private_server final : public place_on_server {
 public:
  explicit place_on_private_server(std::unique_ptr<private_server> server)
      : place_on_server(server->conninfo()), server_(std::move(server)) {}

  [[nodiscard]] bool own() const noexcept override { return true; }
  void keep() override { server_->keep(); }
  void kill_server() override { server_->kill_and_start(); }

 private:
  std::unique_ptr<private_server> server_;
};

}  // namespace

std::unique_ptr<shop_place> postgres_place(const std::string& conninfo) {
  return std::make_unique<place_on_server>(conninfo);
}

std::unique_ptr<shop_place> private_postgres_place() {
  return std::make_unique<place_on_private_server>(std::make_unique<private_server>());
}

}  // namespace order_compensation
