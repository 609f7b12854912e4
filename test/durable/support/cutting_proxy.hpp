#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace timing_wheel::test {

/// Stands between clients and a PostgreSQL server, on a port of 127.0.0.1 and a thread of its own, and does what
/// networks do. It reads what clients send: simple queries, and prepared ones by the text that they were prepared with.
///
/// Thread safety: every member may be called from any thread.
class cutting_proxy {
 public:
  /// Whether a statement is the one. It is called on the proxy's thread.
  using matcher = std::function<bool(std::string_view statement)>;

  /// What is done at a statement.
  enum class fault : std::uint8_t {
    cut_before,  ///< The server never gets it: both connections end.
    cut_after,   ///< The server has done it, and says so: the answer is thrown away, and both connections end.
  };

  /// \param server path of its socket.
  explicit cutting_proxy(std::string server);
  cutting_proxy(const cutting_proxy&) = delete;
  cutting_proxy& operator=(const cutting_proxy&) = delete;
  ~cutting_proxy();

  /// For clients. They must not ask for TLS by force.
  [[nodiscard]] std::string conninfo() const;
  [[nodiscard]] int port() const { return port_; }

  /// At the `nth` statement from now on that is the one, once.
  void plan(fault what, matcher which, int nth = 1);
  /// Faults that have happened.
  [[nodiscard]] int faults() const { return faults_; }
  /// Statements that the server was sent.
  [[nodiscard]] std::vector<std::string> statements() const;

 private:
  class link;
  struct rule {
    fault what;
    matcher which;
    int nth;
  };

  void run();
  void take_connection();
  void wake() const;
  /// \returns what is to be done at it.
  std::optional<fault> look_at(std::string_view statement);

  const std::string server_;
  int listener_ = -1;
  int wake_in_ = -1;
  int wake_out_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> faults_{0};
  mutable std::mutex mutex_;
  std::optional<rule> rule_;             // under the mutex
  std::vector<std::string> statements_;  // under the mutex
  std::vector<std::unique_ptr<link>> links_;
  std::thread thread_;  // last: it uses the others
};

/// A statement that begins with this word, whatever its case.
[[nodiscard]] cutting_proxy::matcher begins_with(std::string word);
/// A statement that has this in it, whatever its case.
[[nodiscard]] cutting_proxy::matcher has(std::string words);

}  // namespace timing_wheel::test
