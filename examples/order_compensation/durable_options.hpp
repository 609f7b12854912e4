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
  double seconds = 30;                 ///< How long orders are placed.
  double per_second = 500;             ///< Orders.
  std::optional<std::int64_t> worker;  ///< This process is a worker, of that number.
};

/// The path in "sqlite:FILE". \throws usage_error if it is anything else.
[[nodiscard]] std::string file_of_store(const std::string& store);

/// A new file beside the program.
[[nodiscard]] std::string own_file();

}  // namespace order_compensation
