#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "durable/support/child_process.hpp"
#include "durable/support/site.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::rig {

/// Seconds, as people write them.
[[nodiscard]] inline std::chrono::nanoseconds from_seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

inline constexpr const char* probe_kind = "probe";  ///< Of checks that are due when a node is killed.

/// The name of a node whose process has that number.
[[nodiscard]] inline std::string name_of_node(std::int64_t process) { return "worker-" + std::to_string(process); }

/// The number behind the first '-' of a key: of "order-17", and of "worker-17-3". \throws std::runtime_error.
[[nodiscard]] std::int64_t number_in(const std::string& key);

struct keeper_options {
  std::int64_t nodes = 1;              ///< How many are at work.
  std::optional<double> kill;          ///< Seconds between kills of nodes on average; none: no kill.
  bool kill_server = false;            ///< The server is killed too, a fifth as often.
  std::uint64_t seed = 1;              ///< When, and which.
  std::int64_t first_process = 0;      ///< A process of a node has a number above it, and its node in the remainder.
  std::vector<std::string> arguments;  ///< Of the program, this one: "--worker", the number, and these.
};

/// Keeps nodes at work, each a process that runs checks, and kills them at random moments, if asked to; and the server.
///
/// At each kill it writes probes, checks that are due at once. So there is something to take over, and the time of the
/// last of them says when all of it was.
///
/// Example: of two nodes the processes 101 and 202 are started. 202 is killed, and 302 is started in its place.
///
/// Thread safety: as a plain object.
class keeper {
 public:
  static constexpr std::int64_t most_nodes = 100;

  /// Microseconds of the clock of the checks.
  struct kill {
    std::int64_t process = 0;  ///< 0: the server.
    std::int64_t at = 0;       ///< Just before it.
    std::int64_t again = 0;  ///< When others had run what was due then; of the server, when the first check ran; or 0.
  };

  /// Starts the nodes. \param where must outlive this.
  keeper(site& where, keeper_options how);

  /// Starts those anew that have ended, and kills what is to be killed now. Called again and again.
  /// \throws std::runtime_error if nodes do not come to work.
  void look();
  /// No kill from now on. Waits until the server has started again.
  void stop_killing();
  /// Lets the nodes end, and waits for them.
  void finish();

  [[nodiscard]] std::size_t kills() const noexcept { return kills_.size(); }
  [[nodiscard]] std::size_t kills_of(std::int64_t node) const;
  [[nodiscard]] std::size_t server_kills() const noexcept { return server_kills_.size(); }
  /// Processes that ended although nobody killed them.
  [[nodiscard]] std::uint64_t crashes() const noexcept { return crashes_; }
  /// Kills of nodes, as the ledger tells their ends. \{
  [[nodiscard]] std::vector<kill> recoveries(database& in) const;
  [[nodiscard]] std::vector<kill> server_recoveries(database& in) const;
  /// \}
  /// How many shares of the table others have taken over from nodes that were killed.
  [[nodiscard]] std::int64_t takeovers(database& in) const;

 private:
  using steady = std::chrono::steady_clock;
  struct life {
    std::int64_t number = 0;
    steady::time_point born;
    std::unique_ptr<child_process> process;
  };

  [[nodiscard]] life start(std::int64_t node);
  void note_crash(steady::time_point born);
  void kill_one();
  void note_death(std::int64_t process);
  void look_at_server();
  [[nodiscard]] steady::time_point random_moment(double times);

  site& site_;
  const keeper_options options_;
  patient_connection database_;
  std::mt19937_64 random_;
  steady::time_point next_kill_;
  steady::time_point next_server_kill_;
  bool killing_;
  std::int64_t births_ = 0;
  std::vector<life> nodes_;
  std::vector<kill> kills_;
  std::vector<kill> server_kills_;
  std::vector<std::int64_t> lost_shares_;  // kinds, share and epoch, one behind the other
  std::int64_t probes_ = 0;
  std::uint64_t crashes_ = 0;
  unsigned short_lives_ = 0;  // in a row
  std::future<void> server_;  // last: it is killed, and starts again, while the nodes go on
};

/// The program of the process `number` of such a node: runs probes, and what `add_handlers` adds, until its parent ends
/// its input, or dies.
/// \throws timer_error if the site cannot be used for a minute.
void be_a_node(std::int64_t number, const site& where, durable::scheduler_options how,
               const std::function<void(durable::scheduler&)>& add_handlers);

/// Where a node works is told by its input, up to a zero byte: there may be a password in it, and everybody can read
/// arguments.
[[nodiscard]] std::unique_ptr<site> told_site();

}  // namespace timing_wheel::rig
