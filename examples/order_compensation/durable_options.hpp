#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace order_compensation {

/// What only `--durable` knows.
struct durable_options {
  bool chosen = false;
  std::optional<std::string> store;    ///< As it was given; none: a file of its own.
  std::optional<double> kill;          ///< Seconds between kills on average; none: no kill.
  bool kill_server = false;            ///< The server is killed, too.
  std::int64_t nodes = 1;              ///< Processes that run checks.
  double seconds = 30;                 ///< How long orders are placed.
  double per_second = 500;             ///< Orders.
  std::optional<std::int64_t> worker;  ///< This process is a worker, of that number.
};

/// What a `--store` names.
struct store_choice {
  enum class kind : std::uint8_t {
    sqlite,            ///< `where` is a file; empty: a new one.
    postgres,          ///< `where` is a connection string.
    private_postgres,  ///< A server of its own.
  };
  kind what = kind::sqlite;
  std::string where;
};

/// \throws usage_error if it is neither "sqlite:FILE" nor "postgres" nor "postgres:CONNINFO".
[[nodiscard]] store_choice read_store(const std::string& store);

}  // namespace order_compensation
