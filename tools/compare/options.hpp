#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/duration.hpp"
#include "common/program.hpp"

namespace timing_wheel::compare {

using common::format_duration;
using common::usage_error;
using std::chrono::nanoseconds;

/// More timers than this are refused.
inline constexpr std::uint64_t max_timers = 1'000'000'000;

/// Longer delays are refused, so that sums of an arrival and a delay always fit.
inline constexpr nanoseconds longest_delay = std::chrono::hours(24 * 365 * 100);

/// How long the timers run, or when they are cancelled.
struct duration_spec {
  enum class kind { constant, uniform, exponential, bimodal, list, csv };

  kind shape = kind::constant;
  nanoseconds first{};            ///< The constant, the lower end, the mean, or the first of two.
  nanoseconds second{};           ///< The upper end, or the second of two.
  double share_of_first = 0;      ///< Of two, in [0, 1].
  std::vector<nanoseconds> list;  ///< Not empty for a list.
  std::string file;               ///< Of a `csv`.
  std::string text;               ///< As given.
};

/// When the timers come.
struct arrival_spec {
  enum class kind { burst, even, poisson };

  kind shape = kind::burst;
  nanoseconds over{};  ///< `even`: all of them within this time, at equal distances.
  double per_second = 0;
  std::string text = "burst";
};

/// Which of them are cancelled: a share, picked at random, each at a time after its arrival.
struct cancel_spec {
  double share = 0;                   ///< In [0, 1].
  std::optional<duration_spec> when;  ///< None: uniformly within the timer's delay.
  std::string text = "0";
};

struct workload_spec {
  std::optional<std::uint64_t> timers;  ///< None: as many as a list or a file has, else a million.
  duration_spec delays;
  std::optional<arrival_spec> arrivals;  ///< None: a burst, unless a file of orders tells.
  std::optional<cancel_spec> cancel;
  nanoseconds window{};  ///< Of each timer.
  std::uint64_t seed = 1;
};

struct engine_spec {
  /// `shipped` is the hierarchy with the library's own tick and sizes; those after it are in families.hpp.
  enum class kind { hierarchical, hashed, heap, flat, shipped, noncascading, sorted, threads, session };

  kind type = kind::hierarchical;
  nanoseconds tick = std::chrono::milliseconds(1);
  std::uint32_t size = 512;  ///< Slots of each wheel, or of the hashed one.
  std::uint32_t levels = 8;  ///< Of a noncascading wheel.
  std::string text = {};     ///< As given.
  nanoseconds window{};      ///< Of each timer, if the engine knows windows.
};

struct options {
  std::string help;  ///< Not empty: print it and do nothing else.
  workload_spec workload;
  std::vector<engine_spec> engines;  ///< In the order given; never empty.
  std::optional<std::string> json;
  std::optional<std::string> report;
  bool trace = false;
  bool timed = false;
  bool quiet = false;
};

/// \throws usage_error naming the value and the forms that are accepted.
[[nodiscard]] options parse_options(int argc, const char* const* argv);

/// The parts below throw `usage_error`, with the name of the option in front.
[[nodiscard]] duration_spec parse_delays(const std::string& text);
[[nodiscard]] arrival_spec parse_arrivals(const std::string& text);
[[nodiscard]] cancel_spec parse_cancel(const std::string& text);
[[nodiscard]] engine_spec parse_engine(const std::string& text);

}  // namespace timing_wheel::compare
