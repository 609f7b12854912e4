// Each order reserves a unit of the stock, and a check gives it back unless the order is approved in time. Orders,
// stock and checks lie in one SQLite file, so each transaction changes them together. Link timing_wheel::durable and
// SQLite.

#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <timing_wheel/durable/scheduler.hpp>
#include <timing_wheel/durable/sqlite_store.hpp>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

// Runs one statement, whose ?1 is the order. Returns the first number of its first row.
static sqlite3_int64 sql(sqlite3* shop, const char* text, const std::string& order = {}) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(shop, text, -1, &statement, nullptr);
  sqlite3_bind_text(statement, 1, order.c_str(), -1, SQLITE_STATIC);  // changes nothing if there is no ?1
  const auto number = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  if (statement == nullptr || sqlite3_finalize(statement) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(shop));
  }
  return number;
}

// The order, its reservation and its check exist together, or none of them does.
static void place(sqlite3* shop, const std::string& order, std::chrono::milliseconds limit) {
  sql(shop, "BEGIN IMMEDIATE");
  sql(shop, "INSERT INTO orders VALUES (?1, 'reserved')", order);
  sql(shop, "UPDATE stock SET units = units - 1");
  durable::schedule(shop, {.kind = "verify", .key = order, .due = limit});
  sql(shop, "COMMIT");
}

// An approval counts only if it cancels the check. The ledger has ten units, before and after.
static void approve(sqlite3* shop, const std::string& order) {
  sql(shop, "BEGIN IMMEDIATE");
  const bool in_time = durable::cancel(shop, "verify", order) == timing_wheel::cancel_result::cancelled;
  if (in_time) {
    sql(shop, "UPDATE orders SET state = 'approved' WHERE id = ?1", order);
  }
  sql(shop, "COMMIT");
  const auto stock = sql(shop, "SELECT units FROM stock");
  const auto ordered = sql(shop, "SELECT count(*) FROM orders WHERE state <> 'given back'");
  std::cout << order << " is approved " << (in_time ? "in time" : "too late") << ". Ledger: " << stock << " in stock + "
            << ordered << " ordered = " << stock + ordered << '\n';
}

int main() {
  std::filesystem::remove_all("shop.files");  // of an earlier run
  std::filesystem::create_directory("shop.files");
  durable::sqlite_store store("shop.files/shop.db");
  store.migrate();  // makes the tables of the checks
  sqlite3* shop = nullptr;
  sqlite3_open("shop.files/shop.db", &shop);
  sqlite3_busy_timeout(shop, 5000);  // under load set more: "Your own connection" in docs/durable.md
  sql(shop, "PRAGMA synchronous = FULL");
  sql(shop, "CREATE TABLE stock AS SELECT 10 AS units");
  sql(shop, "CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT)");
  place(shop, "order-1", 500ms);
  place(shop, "order-2", 30min);
  approve(shop, "order-2");

  durable::scheduler checks(store);  // could run in another process, and after a crash of this one
  checks.on("verify", [](durable::transaction& open, const durable::job& check) {  // commits with the end of the check
    sql(durable::sqlite_connection(open), "UPDATE stock SET units = units + 1");
    sql(durable::sqlite_connection(open), "UPDATE orders SET state = 'given back' WHERE id = ?1", check.key());
  });
  checks.start();
  while (sql(shop, "SELECT count(*) FROM orders WHERE state = 'reserved'") != 0) {
    std::this_thread::sleep_for(10ms);
  }
  approve(shop, "order-1");
  sqlite3_close(shop);
}
