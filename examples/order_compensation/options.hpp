#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "timing_wheel/timing_wheel.hpp"

namespace order_compensation {

/// More orders than this are refused: they are numbered with 32 bits.
inline constexpr std::uint64_t max_orders = 1'000'000'000;

struct options {
  std::string help;                   ///< Not empty: print it and do nothing else.
  std::optional<std::string> orders;  ///< The file to replay; none: live.
  std::optional<std::string> json;
  std::chrono::nanoseconds delay{};  ///< From an order to its check; not negative.
  std::uint64_t repeat = 1;          ///< At least 1.
  std::uint64_t checks = 1'000'000;  ///< At most `max_orders`.
  std::uint64_t seed = 1;            ///< Which orders are approved, and when; and when processes are killed.
  bool quiet = false;
  timing_wheel::timer_options timer;

  // What only `--durable` knows.
  bool durable = false;
  std::optional<std::string> store;  ///< "sqlite:FILE", "postgres:CONNINFO" or "postgres"; none: a file of its own.
  std::optional<double> kill;        ///< Seconds between kills on average; none: no kill.
  bool kill_server = false;          ///< The server is killed, too.
  std::int64_t nodes = 1;            ///< Processes that run checks.
  double seconds = 30;               ///< How long orders are placed.
  double per_second = 500;           ///< Orders.
};

/// \throws common::usage_error.
[[nodiscard]] options parse_options(int argc, const char* const* argv);

}  // namespace order_compensation
