#pragma once

#include <cstdlib>
#include <fstream>
#include <memory>

#include "durable/support/private_postgres.hpp"
#include "durable_bench.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

namespace timing_wheel::bench {

using timing_wheel::test::private_postgres;
using timing_wheel::test::private_postgres_options;
using user_session = timing_wheel::test::sql_session;

/// A server of the program's own that syncs, on the disk to be measured, with tables that are made anew for each run.
/// Or one on this machine that is there for nothing else: TIMING_WHEEL_BENCH_SERVER, its connection string.
class bench_server {
 public:
  explicit bench_server(const char* shared_buffers) : server_(given() == nullptr ? make(shared_buffers) : nullptr) {}

  void clear() const {
    admin.execute("DROP SCHEMA IF EXISTS timing_wheel CASCADE");
    postgres_store(conninfo()).migrate();
    admin.execute("CHECKPOINT");
  }
  [[nodiscard]] std::string conninfo() const { return server_ ? server_->conninfo() : given(); }
  [[nodiscard]] double log_position() const {
    return std::stod(admin.ask("SELECT pg_current_wal_insert_lsn()-'0/0'::pg_lsn"));
  }
  /// In seconds, of the server's processes for clients but ours.
  [[nodiscard]] double processor_time() const {
    double nanoseconds = 0;
    for (const auto& row : admin.rows("SELECT pid FROM pg_stat_activity WHERE backend_type='client backend' AND "
                                      "pid<>pg_backend_pid()")) {
      double on_processor = 0;
      std::ifstream("/proc/" + row.at(0) + "/schedstat") >> on_processor;
      nanoseconds += on_processor;
    }
    return nanoseconds / 1e9;
  }

 private:
  static const char* given() { return std::getenv("TIMING_WHEEL_BENCH_SERVER"); }  // NOLINT(concurrency-mt-unsafe)
  static std::unique_ptr<private_postgres> make(const char* shared_buffers) {
    return std::make_unique<private_postgres>(private_postgres_options{.settings = {{"fsync", "on"},
                                                                                    {"synchronous_commit", "on"},
                                                                                    {"shared_buffers", shared_buffers},
                                                                                    {"max_wal_size", "8GB"},
                                                                                    {"checkpoint_timeout", "1h"},
                                                                                    {"autovacuum_naptime", "10s"}},
                                                                       .parent = parent()});
  }

  std::unique_ptr<private_postgres> server_;

 public:
  const user_session admin{conninfo()};
};

}  // namespace timing_wheel::bench
