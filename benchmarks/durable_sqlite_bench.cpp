#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <stdexcept>

#include "durable_store_bench.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// Durable checks on SQLite. TIMING_WHEEL_BENCH_FOLDER says on which disk (else that of temporary files).

namespace {

using namespace timing_wheel::bench;  // NOLINT(google-build-using-namespace)

/// A user's own connection.
class connection {
 public:
  explicit connection(const std::string& file) {
    sqlite3_open(file.c_str(), &connection_);
    run("PRAGMA wal_autocheckpoint=16000");
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() { sqlite3_close_v2(connection_); }

  [[nodiscard]] sqlite3* get() const { return connection_; }
  void run(const std::string& sql) const {
    char* words = nullptr;
    if (sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, &words) != SQLITE_OK) {
      throw std::runtime_error(words);
    }
  }

 private:
  sqlite3* connection_ = nullptr;
};

/// A statement with a number, if it has a place for one.
class statement {
 public:
  statement(sqlite3* where, const char* sql) { sqlite3_prepare_v2(where, sql, -1, &prepared_, nullptr); }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;
  ~statement() { sqlite3_finalize(prepared_); }

  void run(std::int64_t number = 0) const {
    sqlite3_bind_int64(prepared_, 1, number);
    if (sqlite3_step(prepared_) != SQLITE_DONE) {
      throw std::runtime_error(sqlite3_errmsg(sqlite3_db_handle(prepared_)));
    }
    sqlite3_reset(prepared_);
  }

 private:
  sqlite3_stmt* prepared_ = nullptr;
};

/// A file with our tables in a folder that is gone afterwards.
class store_file {
 public:
  class client;
  /// There is no server.
  struct work {
    static void begin() {}
    static void end() {}
    static void report(const benchmark::State& /*state*/, double /*checks*/, const std::string& /*prefix*/) {}
  };

  store_file() {
    std::string name = (parent() / "timing_wheel_bench.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    open();
    store_->migrate();
  }
  store_file(const store_file&) = delete;
  store_file& operator=(const store_file&) = delete;
  ~store_file() {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  sqlite_store& operator*() { return *store_; }
  sqlite_store* operator->() { return store_.get(); }
  [[nodiscard]] std::string name() const { return (folder_ / "checks.db").string(); }
  void close() { store_.reset(); }
  void open() { store_ = std::make_unique<sqlite_store>(name()); }

  /// All due in a day, with keys in order.
  void fill_with_far(std::int64_t rows) {
    constexpr std::int64_t part = 500'000;
    const std::string due = std::to_string((store_->now() + 24h).time_since_epoch().count());
    const connection user(name());
    user.run("PRAGMA synchronous=OFF; PRAGMA cache_size=-64000");
    for (std::int64_t from = 0; from < rows; from += part) {
      if (from + part >= rows) {  // with the last of it, all goes to the disk: what is measured then waits for none
        user.run("PRAGMA synchronous=FULL");
      }
      user.run("INSERT INTO timing_wheel_check(due,kind,key,payload) WITH RECURSIVE g(n) AS (SELECT " +
               std::to_string(from) + " UNION ALL SELECT n+1 FROM g WHERE n<" +
               std::to_string(std::min(rows, from + part) - 1) + ") SELECT " + due + ",'" + kinds[0] +
               "',CAST(printf('%018x',n) AS BLOB),CAST('" + std::string(48, 'p') + "' AS BLOB) FROM g");
    }
  }

  void make_orders() const {
    connection(name()).run(
        "CREATE TABLE orders(id INTEGER PRIMARY KEY, state INTEGER, note TEXT); WITH RECURSIVE n(i) AS (SELECT 0 UNION "
        "ALL SELECT i+1 FROM n WHERE i<99999) INSERT INTO orders SELECT i,0,'' FROM n");
  }
  static void update_orders(store_transaction& open, const std::vector<claimed>& got) {
    const statement update(sqlite_connection(open), "UPDATE orders SET state=state+1 WHERE id=?");
    for (const claimed& each : got) {
      update.run(each.id % 100'000);
    }
  }

  /// Of the file; the counter MB_of_log has what the log was.
  double megabytes(benchmark::UserCounters& counters) const {
    const auto size = [&](const char* end) {
      std::error_code none;
      const auto bytes = std::filesystem::file_size(name() + end, none);
      return none ? 0 : static_cast<double>(bytes) / 1e6;
    };
    counters["MB_of_log"] = std::max(counters["MB_of_log"].value, size("-wal"));
    connection(name()).run("PRAGMA wal_checkpoint(TRUNCATE)");
    return size("");
  }
  void vacuum() const { connection(name()).run("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)"); }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<sqlite_store> store_;
};

class store_file::client {
 public:
  static constexpr std::array ways = {by::nobody, by::session, by::function};

  explicit client(const store_file& file) : user_(file.name()) { user_.run("PRAGMA synchronous=FULL"); }

  void transact(by whom, std::int64_t first, std::int64_t orders) {
    begin_.run();
    for (std::int64_t number = first; number < first + orders; ++number) {
      insert_.run(number);
      const request asked = request_of(number, 1h, orders == 1);
      if (whom == by::session) {
        session_.schedule(asked);
      } else if (whom == by::function) {
        timing_wheel::durable::schedule(user_.get(), asked);
      }
    }
    commit_.run();
  }

 private:
  connection user_;
  statement begin_{user_.get(), "BEGIN IMMEDIATE"};
  statement commit_{user_.get(), "COMMIT"};
  statement insert_{user_.get(), "INSERT INTO orders VALUES(?,0,'waiting for payment')"};
  sqlite_session session_{user_.get()};
};

/// The kernel's copy of the file, which a start after a crash of the machine does not have.
void forget_pages(const std::string& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  fdatasync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

// Opens the file, of which nothing is in memory, and makes a scheduler that has looked ahead.
void start(benchmark::State& state) {
  auto& file = filled<store_file>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    file.close();
    forget_pages(file.name());
    state.ResumeTiming();
    file.open();
    scheduler checks(*file);
    serve(checks, kinds[0], handled::leased);
    checks.start();
    while (checks.stats().store.statements < 2) {
      std::this_thread::sleep_for(100us);
    }
  }
}

[[maybe_unused]] const bool registered = [] {
  // So many turns, since what is there is written anew each time that the number of turns is tried.
  add("schedule", schedule<store_file>)
      ->ArgNames({"rows", "random", "connections"})
      ->ArgsProduct({{0, 100'000, 1'000'000}, {0, 1}, {1}})
      ->Iterations(is_small() ? 1 : 10);
  add("schedule_alone", schedule_alone<store_file>)->ArgName("threads")->Arg(1)->Arg(8)->Arg(64)->Arg(256);
  add("users_transaction", users_transaction<store_file>)
      ->ArgNames({"clients", "orders"})
      ->ArgsProduct({{1}, {1, 500}})
      ->Iterations(1);
  add("growth", growth<store_file>)->ArgName("lives")->Arg(4'320'000)->Iterations(1);
  register_all<store_file>(
      [](std::int64_t rows) { add("start", start)->ArgName("rows")->Arg(rows)->Unit(benchmark::kMillisecond); });
  return true;
}();

}  // namespace

BENCHMARK_MAIN();
