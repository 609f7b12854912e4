#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "common/program.hpp"
#include "durable_place.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;
namespace fs = std::filesystem;

/// "shop": tells our files from others.
constexpr std::int64_t shop_id = 0x73686f70;

constexpr shop_tables tables{.key = "INTEGER PRIMARY KEY",
                             .mark = "PRAGMA application_id=1936224112; PRAGMA user_version=3"};
static_assert(shop_id == 1936224112 && shop_version == 3, "the statements spell it out");

[[noreturn]] void fail(sqlite3* on) {
  const char* const file = sqlite3_db_filename(on, "main");
  throw common::failure(std::string(file == nullptr ? "" : file) + ": " + sqlite3_errmsg(on));
}

/// SQLite's own handler waits longer and longer, up to 100 ms; beside a busy writer the lock is never free then.
int wait_for_lock(void* /*unused*/, int times) {
  constexpr std::chrono::milliseconds between_tries(1);
  constexpr int most_times = 30'000;
  std::this_thread::sleep_for(between_tries);
  return times < most_times ? 1 : 0;
}

/// On a connection that others close.
class sqlite_database : public database {
 public:
  sqlite_database(sqlite3* opened, durable::store* clock) : opened_(opened), clock_(clock) {}

  void execute(const std::string& sql) override {
    if (sqlite3_exec(opened_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      fail(opened_);
    }
  }
  void begin() override { execute("BEGIN IMMEDIATE"); }
  void commit() override { execute("COMMIT"); }
  void roll_back() noexcept override { sqlite3_exec(opened_, "ROLLBACK", nullptr, nullptr, nullptr); }

  durable::scheduled schedule(const durable::request& asked) override { return durable::schedule(opened_, asked); }
  timing_wheel::cancel_result cancel(std::string_view kind, std::string_view key) override {
    return durable::cancel(opened_, kind, key);
  }
  std::int64_t now() override { return clock_->now().time_since_epoch().count(); }
  [[nodiscard]] const char* check_table() const noexcept override { return "timing_wheel_check"; }
  [[nodiscard]] std::string bytes_of(const std::string& text) const override { return "CAST(" + text + " AS BLOB)"; }

 protected:
  void forget_statements() { prepared_.clear(); }

 private:
  using statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

  std::vector<std::int64_t> run_with(const char* sql, std::span<const std::int64_t> values) override {
    sqlite3_stmt* const what = prepared(sql);
    for (std::size_t place = 0; place < values.size(); ++place) {
      const std::string name = "$" + std::to_string(place + 1);
      if (sqlite3_bind_int64(what, sqlite3_bind_parameter_index(what, name.c_str()), values[place]) != SQLITE_OK) {
        fail(opened_);
      }
    }
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_reset)> resetting(what, sqlite3_reset);
    std::vector<std::int64_t> all;
    int result = sqlite3_step(what);
    for (; result == SQLITE_ROW; result = sqlite3_step(what)) {
      for (int column = 0; column < sqlite3_column_count(what); ++column) {
        all.push_back(sqlite3_column_int64(what, column));
      }
    }
    if (result != SQLITE_DONE) {
      fail(opened_);
    }
    return all;
  }

  sqlite3_stmt* prepared(const char* sql) {
    auto found = prepared_.find(sql);
    if (found == prepared_.end()) {
      sqlite3_stmt* made = nullptr;
      if (sqlite3_prepare_v3(opened_, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr) != SQLITE_OK) {
        fail(opened_);
      }
      found = prepared_.emplace(sql, statement(made, sqlite3_finalize)).first;
    }
    return found->second.get();
  }

  sqlite3* opened_;
  durable::store* clock_;
  std::map<std::string, statement, std::less<>> prepared_;
};

using connection = std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)>;

connection open_file(const std::string& file) {
  sqlite3* opened = nullptr;
  const int result = sqlite3_open_v2(file.c_str(), &opened,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  connection owner(opened, sqlite3_close_v2);
  if (result != SQLITE_OK) {
    throw common::failure(file + ": " + (opened == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(opened)));
  }
  sqlite3_busy_handler(opened, wait_for_lock, nullptr);
  return owner;
}

/// On a connection of its own. Waits up to half a minute for the lock of another.
class own_sqlite_database final : public sqlite_database {
 public:
  own_sqlite_database(connection owner, durable::store* clock)
      : sqlite_database(owner.get(), clock), owner_(std::move(owner)) {}
  ~own_sqlite_database() override { forget_statements(); }

 private:
  connection owner_;
};

class place_in_file final : public shop_place {
 public:
  explicit place_in_file(const std::string& file) : own_(file.empty()), file_(own_ ? own_file() : file), keep_(!own_) {
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);  // a count of memory that nobody asks for, under a lock
    if (own_) {
      remove();  // of an earlier process with our number, which was killed
    }
  }
  ~place_in_file() override {
    clock_.reset();
    if (!keep_) {
      remove();
    }
  }

  void prepare() override {
    check();
    clock_ = open_store();
    clock_->migrate();
    const auto in = connect();
    write_transaction open(*in);
    if (in->ask("PRAGMA application_id") != shop_id) {
      make_tables(*in, tables);
    }
    open.commit();
  }

  [[nodiscard]] std::unique_ptr<durable::store> open_store() const override {
    return std::make_unique<durable::sqlite_store>(file_);
  }
  [[nodiscard]] std::unique_ptr<database> connect() const override {
    auto opened = std::make_unique<own_sqlite_database>(open_file(file_), clock_.get());
    // As the store does: a checkpoint at each 1 000 pages, the default, writes pages of the index again and again.
    opened->execute("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16000");
    return opened;
  }
  [[nodiscard]] std::unique_ptr<database> within(durable::transaction& open) const override {
    return std::make_unique<sqlite_database>(durable::sqlite_connection(open), nullptr);
  }
  [[nodiscard]] std::string argument() const override { return "sqlite:" + file_; }
  [[nodiscard]] bool own() const noexcept override { return own_; }
  void keep() override { keep_ = true; }

 private:
  static std::string own_file() {
    const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
    return folder / ("durable-" + std::to_string(::getpid()) + ".db");
  }

  void remove() {
    std::error_code ignored;
    for (const char* part : {"", "-wal", "-shm"}) {
      fs::remove(file_ + part, ignored);
    }
  }

  /// Changes nothing. A file that is not there, or has no tables but those of checks, can be used, as one of a shop
  /// can.
  void check() const {
    std::error_code ignored;
    if (fs::is_directory(file_, ignored)) {
      throw common::usage_error("--store: " + file_ + " is a directory");
    }
    common::check_target("--store", file_);
    if (!fs::exists(file_, ignored)) {
      return;
    }
    try {
      check_tables();
    } catch (const common::usage_error& error) {
      throw common::usage_error("--store: cannot use " + file_ + ": " + error.what());
    } catch (const common::failure& error) {
      throw common::usage_error(std::string("--store: cannot use ") + error.what());
    }
  }

  void check_tables() const {
    own_sqlite_database in(open_file(file_), nullptr);
    const std::int64_t id = in.ask("PRAGMA application_id");
    const std::int64_t others = in.ask(
        "SELECT count(*) FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite~_%' "
        "ESCAPE '~' AND name NOT LIKE 'timing~_wheel~_%' ESCAPE '~'");
    if (id == 0 && others == 0) {
      return;
    }
    if (id != shop_id) {
      throw common::usage_error("it has the tables of something else");
    }
    if (const std::int64_t version = in.ask("PRAGMA user_version"); version != shop_version) {
      throw common::usage_error("it is of version " + std::to_string(version) +
                                " of this program's tables, which knows version " + std::to_string(shop_version));
    }
  }

  const bool own_;
  const std::string file_;
  bool keep_;
  std::unique_ptr<durable::store> clock_;
};

}  // namespace

std::unique_ptr<shop_place> sqlite_place(const std::string& file) { return std::make_unique<place_in_file>(file); }

}  // namespace order_compensation
