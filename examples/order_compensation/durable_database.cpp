#include "durable_database.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "common/program.hpp"
#include "ledger.hpp"

namespace order_compensation {
namespace {

/// "shop": tells our files from others.
constexpr std::int64_t shop_id = 0x73686f70;
constexpr std::int64_t shop_version = 1;

/// `orders` says what was sold, `firing` what the checks did: each run of a check adds a row, so that one too many is
/// seen. `stock` is counted up and down beside them, and at the end the two must agree. `worker` has a row for each
/// process, `probe` one for each run of a check that was due when a worker was killed. Times are microseconds of the
/// clock of the checks.
constexpr const char* tables =
    "CREATE TABLE shop_run(id INTEGER PRIMARY KEY, begun INTEGER NOT NULL);"
    "CREATE TABLE worker(number INTEGER PRIMARY KEY, run INTEGER NOT NULL, killed INTEGER);"
    "CREATE TABLE stock(product INTEGER PRIMARY KEY, delivered INTEGER NOT NULL, on_hand INTEGER NOT NULL,"
    " reserved INTEGER NOT NULL, sold INTEGER NOT NULL);"
    "CREATE TABLE orders(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, product INTEGER NOT NULL,"
    " units INTEGER NOT NULL, due INTEGER NOT NULL, confirmed INTEGER);"
    "CREATE TABLE firing(order_id INTEGER NOT NULL, worker INTEGER NOT NULL, fired INTEGER NOT NULL);"
    "CREATE TABLE probe(killed INTEGER NOT NULL, worker INTEGER NOT NULL, fired INTEGER NOT NULL);"
    "PRAGMA application_id=1936224112;"
    "PRAGMA user_version=1;";
static_assert(shop_id == 1936224112 && shop_version == 1, "the statements spell it out");

constexpr std::int64_t delivered_of_each = 1'000'000'000;

[[noreturn]] void fail(sqlite3* on) {
  const char* const file = sqlite3_db_filename(on, "main");
  throw common::failure(std::string(file == nullptr ? "" : file) + ": " + sqlite3_errmsg(on));
}

void fill_stock(connection& in) {
  statement insert(in.get(), "INSERT INTO stock(product,delivered,on_hand,reserved,sold) VALUES(?1,?2,?2,0,0)");
  for (std::uint32_t product = 0; product < product_count; ++product) {
    insert.with(product, delivered_of_each).run();
  }
}

void check_tables(const std::string& file) {
  connection in(file);
  const std::int64_t id = ask(in, "PRAGMA application_id");
  const std::int64_t others = ask(in,
                                  "SELECT count(*) FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite~_%' "
                                  "ESCAPE '~' AND name NOT LIKE 'timing~_wheel~_%' ESCAPE '~'");
  if (id == 0 && others == 0) {
    return;
  }
  if (id != shop_id) {
    throw common::usage_error("it has the tables of something else");
  }
  if (const std::int64_t version = ask(in, "PRAGMA user_version"); version != shop_version) {
    throw common::usage_error("it is of version " + std::to_string(version) +
                              " of this program's tables, which knows version " + std::to_string(shop_version));
  }
}

/// SQLite's own handler waits longer and longer, up to 100 ms; beside a busy writer the lock is never free then.
int wait_for_lock(void* /*unused*/, int times) {
  constexpr std::chrono::milliseconds pause(1);
  constexpr int most_times = 30'000;
  std::this_thread::sleep_for(pause);
  return times < most_times ? 1 : 0;
}

}  // namespace

connection::connection(const std::string& file) {
  const int result = sqlite3_open_v2(file.c_str(), &opened_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (result != SQLITE_OK) {
    const std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)> closing(opened_, sqlite3_close_v2);
    throw common::failure(file + ": " + (opened_ == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(opened_)));
  }
  sqlite3_busy_handler(opened_, wait_for_lock, nullptr);
}

void connection::execute(const char* sql) {
  if (sqlite3_exec(opened_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    fail(opened_);
  }
}

statement::statement(sqlite3* on, const char* sql) {
  if (sqlite3_prepare_v3(on, sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared_, nullptr) != SQLITE_OK) {
    fail(on);
  }
}

void statement::bind(int place, std::int64_t value) {
  if (sqlite3_bind_int64(prepared_, place, value) != SQLITE_OK) {
    fail(sqlite3_db_handle(prepared_));
  }
}

bool statement::step() {
  const int result = sqlite3_step(prepared_);
  if (result != SQLITE_ROW && result != SQLITE_DONE) {
    fail(sqlite3_db_handle(prepared_));
  }
  return result == SQLITE_ROW;
}

void statement::run() {
  while (step()) {
  }
  sqlite3_reset(prepared_);
}

write_transaction::~write_transaction() {
  if (open_) {
    sqlite3_exec(on_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void write_transaction::commit() {
  on_.execute("COMMIT");
  open_ = false;
}

std::int64_t ask(connection& in, const char* sql) {
  statement query(in.get(), sql);
  return query.step() ? query.integer(0) : 0;
}

void check_store(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw common::usage_error("--store: " + file + " is a directory");
  }
  common::check_target("--store", file);
  if (!std::filesystem::exists(file, ignored)) {
    return;
  }
  try {
    check_tables(file);
  } catch (const common::usage_error& error) {
    throw common::usage_error("--store: cannot use " + file + ": " + error.what());
  } catch (const common::failure& error) {
    throw common::usage_error(std::string("--store: cannot use ") + error.what());
  }
}

void make_shop(connection& in) {
  write_transaction open(in);
  if (ask(in, "PRAGMA application_id") != shop_id) {
    in.execute(tables);
    fill_stock(in);
  }
  open.commit();
}

}  // namespace order_compensation
