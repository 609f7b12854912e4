#include <sqlite3.h>

#include <filesystem>
#include <optional>
#include <stdexcept>

#include "durable/costs/counted_store.hpp"
#include "durable/support/fake_clocks.hpp"
#include "durable/support/scratch_folder.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace timing_wheel::durable::test {

namespace {

void run(sqlite3* on, const std::string& sql) {
  if (sqlite3_exec(on, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(on));
  }
}

class counted_sqlite final : public counted_store {
 public:
  counted_sqlite() {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(count_on));
    store_ = std::make_unique<sqlite_store>(folder_.file());
    store_->migrate();
    sqlite3_open(folder_.file().c_str(), &user_);
    for (const char* sql : {"PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=16000",
                            "CREATE TABLE orders(id INTEGER PRIMARY KEY, state INTEGER)"}) {
      run(user_, sql);
    }
    session_.emplace(user_);
  }
  counted_sqlite(const counted_sqlite&) = delete;
  counted_sqlite& operator=(const counted_sqlite&) = delete;
  ~counted_sqlite() override {
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(count_on));
    session_.reset();
    sqlite3_close(user_);
  }

  store& where() override { return *store_; }
  // The log is not begun anew before it has 16 000 pages, which is more than any of these operations writes.
  cost so_far() override {
    const auto log = std::filesystem::file_size(folder_.file() + "-wal");
    const store_counts counts = store_->counts();
    return {statements,
            static_cast<double>(counts.rows_read),
            users_commits + static_cast<double>(counts.commits),
            static_cast<double>(log),
            steps,
            0};
  }
  void pass(std::chrono::milliseconds time) override { fake_clocks::pass(time); }
  void order(const request& asked) override {
    run(user_, "BEGIN IMMEDIATE");
    run(user_, "INSERT INTO orders(id,state) VALUES(" + std::to_string(++orders_) + ",0)");
    session_->schedule(asked);
    run(user_, "COMMIT");
  }
  void update_order(transaction& open, std::int64_t number) override {
    run(sqlite_connection(open), "INSERT INTO orders(id,state) VALUES(" + std::to_string(number) + ",1)");
  }

 private:
  static inline double statements = 0;
  static inline double users_commits = 0;  // a store has a hook of its own
  static inline double steps = 0;

  static int count_statement(unsigned /*event*/, void* /*context*/, void* statement, void* /*time*/) {
    ++statements;
    steps += sqlite3_stmt_status(static_cast<sqlite3_stmt*>(statement), SQLITE_STMTSTATUS_VM_STEP, 1);
    return 0;
  }
  static int count_commit(void* /*context*/) {
    ++users_commits;
    return 0;
  }
  static int count_on(sqlite3* opened, char** /*error*/, const void* /*api*/) {
    sqlite3_trace_v2(opened, SQLITE_TRACE_PROFILE, count_statement, nullptr);
    sqlite3_commit_hook(opened, count_commit, nullptr);
    return SQLITE_OK;
  }

  fake_clocks clocks_;
  timing_wheel::test::scratch_folder folder_;
  std::unique_ptr<sqlite_store> store_;
  sqlite3* user_ = nullptr;
  std::optional<sqlite_session> session_;
  std::int64_t orders_ = 0;
};

}  // namespace

const counted_kind counted_in_sqlite = {
    "sqlite", [] { return std::string(sqlite3_libversion()); },
    []() -> std::unique_ptr<counted_store> { return std::make_unique<counted_sqlite>(); }, false};

}  // namespace timing_wheel::durable::test
