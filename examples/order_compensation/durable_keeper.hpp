#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include "durable_database.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace order_compensation {

/// This program again, as a worker on a file. It ends when its standard input does, so it does not outlive this
/// process.
///
/// Thread safety: as a plain object.
class worker_process {
 public:
  /// \throws std::system_error if it cannot be started.
  worker_process(const std::string& file, std::int64_t number, std::chrono::nanoseconds delay);
  worker_process(const worker_process&) = delete;
  worker_process& operator=(const worker_process&) = delete;
  /// Kills it, if it has not ended.
  ~worker_process();

  /// Whether it has ended by itself.
  [[nodiscard]] bool has_ended();
  /// SIGKILL. \returns whether that ended it; else it had ended before.
  bool kill();
  /// Lets it end what it is doing, and waits for it. \returns whether it ended well.
  bool finish();

 private:
  void wait(int flags);

  pid_t pid_ = -1;
  int input_ = -1;  // the writing end of what it reads
  std::optional<int> status_;
};

/// Keeps one worker at work, and kills it at random moments, if asked to.
///
/// At each kill, the row of the worker is marked with the time, and a probe is written: a check that is due at once. So
/// the next worker has something to do as soon as it works, and the time of its first check says when that was.
///
/// Thread safety: the members may be called by one thread, beside the one that this has.
class keeper {
 public:
  struct options {
    std::string file;
    std::int64_t run = 0;
    std::chrono::nanoseconds delay{};
    std::optional<std::chrono::nanoseconds> between_kills{};  ///< On average; uniform up to twice as much.
    std::uint64_t seed = 1;
  };

  /// Starts the first worker. \param clock of the checks; must outlive this.
  keeper(options chosen, timing_wheel::durable::store& clock);

  /// No kill from now on.
  void stop_killing() noexcept { killing_ = false; }
  /// Lets the worker end, and waits for it. Called again, it does nothing.
  void finish();

  [[nodiscard]] std::uint64_t kills() const noexcept { return kills_; }
  /// Workers that ended although nobody killed them.
  [[nodiscard]] std::uint64_t crashes() const noexcept { return crashes_; }
  /// \throws what has gone wrong on the other thread.
  void rethrow_failure() const;

 private:
  using steady = std::chrono::steady_clock;

  void keep(const std::stop_token& stop);
  void keep_one(const std::stop_token& stop);
  [[nodiscard]] bool wait(const std::stop_token& stop, steady::time_point until);
  void note_death(std::int64_t worker, std::int64_t killed);
  void note_crash(steady::time_point born);
  [[nodiscard]] std::int64_t new_number();
  [[nodiscard]] steady::duration random_life();

  const options options_;
  timing_wheel::durable::store& clock_;
  std::atomic<bool> killing_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> kills_{0};
  std::atomic<std::uint64_t> crashes_{0};

  // The keeper's thread only.
  connection database_;
  std::mt19937_64 random_;
  steady::time_point next_kill_;
  unsigned short_lives_ = 0;    // in a row
  std::exception_ptr failure_;  // published by failed_

  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace order_compensation
