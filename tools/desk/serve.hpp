#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "desk/commands.hpp"

// What `serve` answers, apart from sockets.

namespace timing_wheel::desk {

/// What a client asks for, as it was sent.
struct http_request {
  /// If the target names a server (`http://HOST/PATH`), that is the host, whatever the field says, and the target the
  /// path.
  void take_host_of_target();

  std::string method;
  std::string target;  ///< Path and query.
  std::string host;
  std::string origin;
  std::string authorization;
  std::string body = {};
};

struct http_answer {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string allow = {};  ///< With 405: the methods that there are.
};

/// As RFC 9457 has them.
[[nodiscard]] http_answer problem(unsigned status, const std::string& detail);

/// A file of the page, which is compiled into the program.
struct console_file {
  const char* path;
  const char* type;
  std::span<const unsigned char> bytes;
};
extern const std::span<const console_file> console_files;

/// Who may see and change.
struct access_token {
  std::string name;
  std::string secret;
  instant until = instant::max();  ///< It is refused from then on, by the clock of this machine.
};
/// A line is `NAME TOKEN`, or `NAME TOKEN UNTIL`. \throws failure (usage) if a line is none, or there is none.
[[nodiscard]] std::vector<access_token> read_tokens(const std::string& file);

/// The longest wait of a check, of each kind, in each step of the last quarter of an hour.
/// Thread safety: any thread may call any member.
class wait_history {
 public:
  static constexpr std::chrono::seconds step{10};
  static constexpr std::size_t steps = 90;

  /// Sets the member `waits_s` of each of the kinds, as `status --json` has them: an array that ends with the current
  /// step; null for a step without a look.
  void add_and_tell(std::chrono::steady_clock::time_point now, json& kinds);

 private:
  struct point {
    std::int64_t number = 0;
    std::map<std::string, double> waits;  // seconds; without kinds of which nothing waits
  };
  std::mutex mutex_;
  std::deque<point> points_;  // guarded by mutex_
};

/// The answers of `serve`. Thread safety: any thread may call any member.
class http_api {
 public:
  /// Keeps a reference to `with`.
  http_api(const desk& with, std::vector<access_token> tokens) : with_(with), tokens_(std::move(tokens)) {}

  /// Looks at all but the body, so that nobody sends one in vain. `own` is the address that the client has called, with
  /// its port. \returns why the request is refused; none if it may go on.
  [[nodiscard]] std::optional<http_answer> refuse(const http_request& asked, const std::string& own) const;
  /// Waits for the store. Precondition: the request was not refused.
  [[nodiscard]] http_answer answer(const http_request& asked) const noexcept;
  /// All that the console shows by itself, as JSON in one line. Waits for the store. A look that is not whole takes a
  /// few milliseconds, however many checks there are: what it would have to count for longer is as the last whole one
  /// has it.
  [[nodiscard]] http_answer look(bool whole) const noexcept;

  /// Whether `answer` does not wait for the store.
  [[nodiscard]] static bool asks_no_store(const http_request& asked);
  /// Whether the request asks for what `look` returns, again and again.
  [[nodiscard]] static bool wants_events(const http_request& asked) { return asked.target == "/v1/events"; }

 private:
  [[nodiscard]] const access_token* token_of(const http_request& asked) const;
  [[nodiscard]] http_answer ask_store(const std::function<http_answer()>& work) const;

  const desk& with_;
  std::vector<access_token> tokens_;
  mutable wait_history history_;
  mutable std::mutex look_mutex_;
  mutable json whole_ = json::object();  // guarded by look_mutex_: the last whole look
  mutable std::mutex mutex_;
  mutable std::string unreachable_;                         // guarded by mutex_: why; empty while the store answers
  mutable std::chrono::steady_clock::time_point next_try_;  // guarded by mutex_
};

}  // namespace timing_wheel::desk
