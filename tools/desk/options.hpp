#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The command line: docs/desk.md describes it for operators.

namespace timing_wheel::desk {

struct desk;
enum class exit_status : std::uint8_t;

/// What was typed.
struct options {
  std::string command;                        ///< Such as "status".
  exit_status (*run)(const desk&) = nullptr;  ///< What that does.
  std::string store;                          ///< "sqlite:FILE", or a connection string of PostgreSQL.
  bool store_is_usual = false;                ///< TIMING_WHEEL_STORE names it, so nobody has typed it.
  std::vector<std::string> words;             ///< What follows the store: a kind and a key, or the ids of dead checks.

  bool as_json = false;
  bool as_metrics = false;
  bool watch = false;
  bool dry_run = false;
  bool yes = false;
  bool all = false;
  bool groups = false;  ///< Of `list --state dead`: how many by kind and error.
  std::optional<std::string> kind;
  std::optional<std::string> key_prefix;
  std::optional<std::string> state;
  std::optional<std::string> due_before;
  std::optional<std::string> due_after;
  std::optional<std::string> error;
  std::optional<std::string> pattern;  ///< Of an error: see without_ids.
  std::optional<std::string> due;      ///< Of `reschedule`: the new deadline.
  std::string schema;                  ///< Of PostgreSQL; empty: the usual one.
  std::size_t limit = 50;
  std::optional<std::string> after;  ///< Of `list`: the cursor of the last line of the page before.
  double every = 1;                  ///< Of `status --watch`: seconds.
  bool earliest = false;             ///< Of `list`: the earliest deadline first, or the first that died.
  std::size_t counted = 100'000;     ///< Of `status`: how many rows it looks at for each figure, at most.
  bool keep_existing = false;        ///< Of `import`: what is there already stays.
  bool plan = false;                 ///< Of `migrate`: changes nothing.
  bool create = false;               ///< Of `migrate`: makes the tables, if there are none.
  bool end = false;                  ///< Of `drain`: the node claims again.
  std::optional<double> wait;  ///< Of `drain`: seconds until the node has to be empty; none: it may take any time.

  std::string listen = "127.0.0.1:8080";  ///< Of `serve`, as the next ones.
  std::vector<std::string> hosts;         ///< Names by which clients call it, beside its address.
  std::string token_file;                 ///< Empty: there are no tokens, so nothing can be changed.
  std::string deliver;                    ///< The file of the webhooks; empty: there are none.
  std::string node;                       ///< The name of the node that delivers; empty: one of its own.
  double lease = 30;                      ///< Of its checks: seconds.
  bool read_only = false;
  bool redact = false;
  double time_limit = 10;   ///< Seconds for a client to send a request, or to take an answer.
  bool is_request = false;  ///< It came over HTTP, so each value is what it is.
  std::string by;           ///< Who changes something; empty: the user of the operating system.

  std::string help;  ///< Not empty: print that, and do nothing.
};

/// \throws failure (usage) with one line.
[[nodiscard]] options parse_options(int argc, const char* const* argv);

}  // namespace timing_wheel::desk
