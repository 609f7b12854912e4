// An order reserves stock, and a check gives the stock back unless the order is approved in time. Orders, stock and
// checks lie in one SQLite file, so each transaction changes them together. Link timing_wheel::durable and SQLite.

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <timing_wheel/durable/scheduler.hpp>
#include <timing_wheel/durable/sqlite_store.hpp>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

namespace {

// Runs one statement, whose ?1 is the order. Returns the first number of its first row.
std::int64_t sql(sqlite3* on, const std::string& text, const std::string& order = {}) {
  sqlite3_stmt* made = nullptr;
  int result = sqlite3_prepare_v2(on, text.c_str(), -1, &made, nullptr);
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> prepared(made, &sqlite3_finalize);
  if (result == SQLITE_OK) {
    if (sqlite3_bind_parameter_count(made) != 0) {
      sqlite3_bind_text(made, 1, order.c_str(), -1, SQLITE_STATIC);
    }
    result = sqlite3_step(made);
  }
  if (result != SQLITE_ROW && result != SQLITE_DONE) {
    throw std::runtime_error(text + ": " + sqlite3_errmsg(on));
  }
  return result == SQLITE_ROW ? sqlite3_column_int64(made, 0) : 0;
}

// The order, its reservation and its check exist together, or none of them does.
void place(sqlite3* shop, const std::string& order, int units, std::chrono::milliseconds limit) {
  sql(shop, "BEGIN IMMEDIATE");
  sql(shop, "INSERT INTO orders VALUES (?1, " + std::to_string(units) + ", 'reserved')", order);
  sql(shop, "UPDATE stock SET units = units - " + std::to_string(units));
  durable::schedule(shop, {.kind = "verify", .key = order, .due = limit});
  sql(shop, "COMMIT");
}

// An approval counts only if it cancels the check.
void approve(sqlite3* shop, const std::string& order) {
  sql(shop, "BEGIN IMMEDIATE");
  const bool in_time = durable::cancel(shop, "verify", order) == timing_wheel::cancel_result::cancelled;
  if (in_time) {
    sql(shop, "UPDATE orders SET state = 'confirmed' WHERE id = ?1", order);
  }
  sql(shop, "COMMIT");
  std::cout << order << (in_time ? " is approved\n" : " is approved too late\n");
}

// The handler of a check: what it writes commits together with the end of the check.
void give_back(durable::transaction& open, const durable::job& check) {
  sqlite3* const shop = durable::sqlite_connection(open);
  sql(shop, "UPDATE stock SET units = units + (SELECT units FROM orders WHERE id = ?1)", check.key());
  sql(shop, "UPDATE orders SET state = 'given back' WHERE id = ?1", check.key());
}

void print_ledger(sqlite3* shop) {
  const std::int64_t stock = sql(shop, "SELECT units FROM stock");
  const std::int64_t reserved = sql(shop, "SELECT sum(units) FROM orders WHERE state = 'reserved'");
  const std::int64_t confirmed = sql(shop, "SELECT sum(units) FROM orders WHERE state = 'confirmed'");
  std::cout << "ledger: " << stock << " in stock + " << reserved << " reserved + " << confirmed
            << " confirmed = " << stock + reserved + confirmed << '\n';
}

}  // namespace

int main() {
  const std::string file = "durable_orders.db";
  for (const char* const end : {"", "-wal", "-shm"}) {
    std::filesystem::remove(file + end);  // of an earlier run
  }
  durable::sqlite_store store(file);
  store.migrate();  // makes the tables of the checks

  sqlite3* opened = nullptr;
  sqlite3_open(file.c_str(), &opened);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> closed_at_the_end(opened, &sqlite3_close);
  sqlite3_busy_timeout(opened, 5000);
  sql(opened, "PRAGMA synchronous = FULL");
  sql(opened, "CREATE TABLE stock (units INTEGER)");
  sql(opened, "CREATE TABLE orders (id TEXT PRIMARY KEY, units INTEGER, state TEXT)");
  sql(opened, "INSERT INTO stock VALUES (10)");

  place(opened, "order-1", 3, 500ms);
  place(opened, "order-2", 2, 30min);
  approve(opened, "order-2");
  print_ledger(opened);

  // Until here no scheduler has run. This one could run in another process, and after a crash of this one.
  durable::scheduler checks(store);
  checks.on("verify", give_back);
  checks.start();
  while (sql(opened, "SELECT count(*) FROM orders WHERE state = 'reserved'") != 0) {
    std::this_thread::sleep_for(10ms);
  }
  approve(opened, "order-1");
  print_ledger(opened);
}
