#include <sqlite3.h>

#include <filesystem>
#include <thread>
#include <utility>

#include "durable/support/site.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace timing_wheel::rig {
namespace {

using file_connection = std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)>;
using statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

/// SQLite's own handler waits longer and longer, up to 100 ms; beside a busy writer the lock is never free then.
int wait_for_lock(void* /*unused*/, int times) {
  constexpr std::chrono::milliseconds between_tries(1);
  constexpr int most_times = 30'000;
  std::this_thread::sleep_for(between_tries);
  return times < most_times ? 1 : 0;
}

class sqlite_database final : public database {
 public:
  /// On a connection that others close. \param clock the store whose clock `now` shows.
  sqlite_database(sqlite3* opened, durable::store* clock) : opened_(opened), clock_(clock) {}
  /// On one of its own.
  sqlite_database(file_connection own, durable::store* clock)
      : owner_(std::move(own)), opened_(owner_.get()), clock_(clock) {}

  using database::run;
  std::vector<std::int64_t> run(const std::string& sql) override {
    std::vector<std::int64_t> all;
    for (const char* rest = sql.c_str(); *rest != '\0';) {
      sqlite3_stmt* made = nullptr;
      check(sqlite3_prepare_v2(opened_, rest, -1, &made, &rest) == SQLITE_OK);
      const statement what(made, sqlite3_finalize);
      all.clear();
      int result = SQLITE_DONE;
      while (made != nullptr && (result = sqlite3_step(made)) == SQLITE_ROW) {
        for (int column = 0; column < sqlite3_column_count(made); ++column) {
          all.push_back(sqlite3_column_int64(made, column));
        }
      }
      check(result == SQLITE_DONE);
    }
    return all;
  }
  void begin() override { run("BEGIN IMMEDIATE"); }
  void roll_back() noexcept override { sqlite3_exec(opened_, "ROLLBACK", nullptr, nullptr, nullptr); }

  durable::scheduled schedule(const durable::request& asked) override { return durable::schedule(opened_, asked); }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    return durable::cancel(opened_, kind, key);
  }
  [[nodiscard]] std::int64_t now() override { return clock_->now().time_since_epoch().count(); }

 private:
  void check(bool good) const {
    if (!good) {
      const char* const file = sqlite3_db_filename(opened_, "main");
      throw std::runtime_error(std::string(file == nullptr ? "" : file) + ": " + sqlite3_errmsg(opened_));
    }
  }

  file_connection owner_{nullptr, sqlite3_close_v2};
  sqlite3* opened_;
  durable::store* clock_;
};

class site_in_file final : public site {
 public:
  explicit site_in_file(std::string file) : file_(std::move(file)) {}

  void prepare() override {
    clock_ = open_store({});
    clock_->migrate();
  }
  [[nodiscard]] std::unique_ptr<durable::store> open_store(std::chrono::milliseconds /*lease*/) const override {
    return std::make_unique<durable::sqlite_store>(file_);
  }
  [[nodiscard]] std::unique_ptr<database> connect() const override {
    sqlite3* opened = nullptr;
    constexpr int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int result = sqlite3_open_v2(file_.c_str(), &opened, how, nullptr);
    file_connection owner(opened, sqlite3_close_v2);
    if (result != SQLITE_OK) {
      throw std::runtime_error(file_ + ": " + (opened == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(opened)));
    }
    sqlite3_busy_handler(opened, wait_for_lock, nullptr);
    auto own = std::make_unique<sqlite_database>(std::move(owner), clock_.get());
    // As the store does: a checkpoint at each 1 000 pages, the default, writes pages of the index again and again.
    own->run("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16000");
    return own;
  }
  [[nodiscard]] std::unique_ptr<database> within(durable::transaction& open) const override {
    return std::make_unique<sqlite_database>(durable::sqlite_connection(open), clock_.get());
  }
  [[nodiscard]] std::string table(const std::string& name) const override { return "timing_wheel_" + name; }
  [[nodiscard]] std::string bytes_of(const std::string& text) const override { return "CAST(" + text + " AS BLOB)"; }
  [[nodiscard]] std::string tables() const override {
    return "sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
           "AND name NOT LIKE 'timing~_wheel~_%' ESCAPE '~'";
  }
  [[nodiscard]] std::string argument() const override { return "sqlite:" + file_; }
  [[nodiscard]] std::string file(const std::string& what) const override { return file_ + "." + what; }

  void remove() override {
    clock_.reset();
    std::error_code ignored;
    for (const char* end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(file_ + end, ignored);
    }
  }

 private:
  const std::string file_;
  std::unique_ptr<durable::store> clock_;
};

}  // namespace

std::unique_ptr<site> sqlite_site(const std::string& file) { return std::make_unique<site_in_file>(file); }

}  // namespace timing_wheel::rig
