#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "durable_place.hpp"
#include "durable_process.hpp"

namespace order_compensation {

/// Writes down that workers begin, and that they and servers are killed. Each of these says the same again if the
/// answer to its commit was lost: nothing is there twice.
///
/// Thread safety: as a plain object.
class keeper_notes {
 public:
  /// \param place must outlive this. \param run the row of this run.
  keeper_notes(const shop_place& place, std::int64_t run) : database_(place), run_(run) {}

  [[nodiscard]] std::int64_t now();
  /// \returns the number of a new worker.
  [[nodiscard]] std::int64_t birth(std::uint64_t node);
  /// Writes that many probes, too.
  void death(std::int64_t worker, std::int64_t killed, int probes);
  void server_kill(std::int64_t killed);

 private:
  patient_connection database_;
  const std::int64_t run_;
  std::int64_t births_ = 0;
  std::int64_t server_kills_ = 0;
};

/// Keeps nodes at work, each a process that runs checks, and kills them at random moments, if asked to; and the server.
///
/// At each kill, the row of the worker is marked with the time, and probes are written: checks that are due at once. So
/// there is something to take over, and the time of the last of them says when all of it was.
///
/// Thread safety: the members may be called by one thread, beside the one that this has.
class keeper {
 public:
  struct options {
    std::int64_t run = 0;
    std::chrono::nanoseconds delay{};
    std::size_t nodes = 1;
    std::optional<std::chrono::nanoseconds> between_kills{};  ///< On average; uniform up to twice as much.
    bool kill_server = false;                                 ///< A fifth as often.
    std::uint64_t seed = 1;
  };

  /// Starts the first workers. \param place must outlive this.
  keeper(const options& chosen, shop_place& place);

  /// No kill from now on.
  void stop_killing() noexcept { killing_ = false; }
  /// Lets the workers end, and waits for them. Called again, it does nothing.
  void finish();

  [[nodiscard]] std::uint64_t kills() const noexcept { return kills_; }
  [[nodiscard]] std::uint64_t server_kills() const noexcept { return server_kills_; }
  /// Workers that ended although nobody killed them.
  [[nodiscard]] std::uint64_t crashes() const noexcept { return crashes_; }
  /// \throws what has gone wrong on the other thread.
  void rethrow_failure() const;

 private:
  using steady = std::chrono::steady_clock;

  /// One worker, from its start to its end.
  struct worker {
    std::int64_t number;
    steady::time_point born;
    std::unique_ptr<child_process> process;
  };

  void keep(const std::stop_token& stop);
  void look_at_all();
  void kill_one();
  void kill_server();
  [[nodiscard]] worker start(std::size_t node);
  [[nodiscard]] bool wait(const std::stop_token& stop, steady::time_point until);
  void note_death(std::int64_t number, std::int64_t killed);
  void note_crash(steady::time_point born);
  [[nodiscard]] steady::time_point random_moment(double times);

  const options options_;
  shop_place& place_;
  std::atomic<bool> killing_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> kills_{0};
  std::atomic<std::uint64_t> server_kills_{0};
  std::atomic<std::uint64_t> crashes_{0};

  // The keeper's thread only.
  keeper_notes notes_;
  std::vector<worker> nodes_;
  std::mt19937_64 random_;
  steady::time_point next_kill_;
  steady::time_point next_server_kill_;
  unsigned short_lives_ = 0;    // in a row
  std::exception_ptr failure_;  // published by failed_

  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace order_compensation
