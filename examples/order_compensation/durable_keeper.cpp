#include "durable_keeper.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "common/program.hpp"
#include "durable_shop.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

/// How often a worker is looked at that should not have ended.
constexpr auto look = 20ms;
/// A worker that does not live as long, and three more like it, will not come to work.
constexpr auto short_life = 1s;
constexpr unsigned most_short_lives = 3;

[[noreturn]] void fail(int error, const char* what) { throw std::system_error(error, std::generic_category(), what); }

/// What a new process is to be like. It has a process group of its own, so a Ctrl-C of the terminal is for us alone.
class spawn_settings {
 public:
  explicit spawn_settings(int input) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  spawn_settings(const spawn_settings&) = delete;
  spawn_settings& operator=(const spawn_settings&) = delete;
  ~spawn_settings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  [[nodiscard]] pid_t spawn(const char* program, char* const* arguments) const {
    pid_t pid = -1;
    if (const int error = posix_spawn(&pid, program, &actions_, &attributes_, arguments, environ); error != 0) {
      fail(error, "starting a worker");
    }
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

worker_process::worker_process(const std::string& file, std::int64_t number, std::chrono::nanoseconds delay) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    fail(errno, "making a pipe for a worker");
  }
  input_ = pipe[1];
  std::array<std::string, 9> words{"worker",   "--durable",
                                   "--store",  "sqlite:" + file,
                                   "--worker", std::to_string(number),
                                   "--delay",  std::to_string(delay.count()) + "ns"};
  std::array<char*, words.size()> arguments{};
  std::transform(words.begin(), words.end() - 1, arguments.begin(), [](std::string& word) { return word.data(); });
  try {
    pid_ = spawn_settings(pipe[0]).spawn("/proc/self/exe", arguments.data());
  } catch (...) {
    ::close(pipe[0]);
    ::close(pipe[1]);
    throw;
  }
  ::close(pipe[0]);
}

worker_process::~worker_process() {
  kill();
  ::close(input_);
}

void worker_process::wait(int flags) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = status_ ? 0 : ::waitpid(pid_, &status, flags);
  } while (ended < 0 && errno == EINTR);
  if (ended == pid_) {
    status_ = status;
  }
}

bool worker_process::has_ended() {
  wait(WNOHANG);
  return status_.has_value();
}

bool worker_process::kill() {
  if (has_ended()) {
    return false;
  }
  ::kill(pid_, SIGKILL);
  wait(0);
  return status_ && WIFSIGNALED(*status_) && WTERMSIG(*status_) == SIGKILL;
}

bool worker_process::finish() {
  ::close(std::exchange(input_, -1));
  wait(0);
  return status_ && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0;
}

keeper::keeper(options chosen, durable::store& clock)
    : options_(std::move(chosen)),
      clock_(clock),
      killing_(options_.between_kills.has_value()),
      database_(options_.file),
      random_(options_.seed),
      next_kill_(steady::now() + random_life()),
      thread_([this](const std::stop_token& stop) { keep(stop); }) {}

void keeper::finish() {
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void keeper::rethrow_failure() const {
  if (failed_.load(std::memory_order_acquire)) {
    std::rethrow_exception(failure_);
  }
}

void keeper::keep(const std::stop_token& stop) {
  try {
    do {
      keep_one(stop);
    } while (!stop.stop_requested());
  } catch (...) {
    failure_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

/// One worker, from its start to its end.
void keeper::keep_one(const std::stop_token& stop) {
  const std::int64_t number = new_number();
  const steady::time_point born = steady::now();
  worker_process worker(options_.file, number, options_.delay);
  while (wait(stop, std::min(next_kill_, steady::now() + look))) {
    if (worker.has_ended()) {
      note_crash(born);
      return;
    }
    if (steady::now() < next_kill_) {
      continue;
    }
    next_kill_ = steady::now() + random_life();
    const std::int64_t now = clock_.now().time_since_epoch().count();
    if (killing_ && worker.kill()) {
      note_death(number, now);
      return;
    }
  }
  crashes_ += worker.finish() ? 0U : 1U;
}

/// \returns false if there is a stop.
bool keeper::wait(const std::stop_token& stop, steady::time_point until) {
  std::unique_lock lock(mutex_);
  never_.wait_until(lock, stop, until, [] { return false; });
  return !stop.stop_requested();
}

void keeper::note_death(std::int64_t worker, std::int64_t killed) {
  ++kills_;
  short_lives_ = 0;
  write_transaction open(database_);
  statement(database_.get(), "UPDATE worker SET killed=?2 WHERE number=?1").with(worker, killed).run();
  durable::schedule(database_.get(),
                    {.kind = probe_kind, .key = "worker-" + std::to_string(worker), .payload = {}, .due = {}});
  open.commit();
}

void keeper::note_crash(steady::time_point born) {
  ++crashes_;
  short_lives_ = steady::now() - born < short_life ? short_lives_ + 1 : 0;
  if (short_lives_ > most_short_lives) {
    throw common::failure("a worker ends as soon as it is started");
  }
}

std::int64_t keeper::new_number() {
  write_transaction open(database_);
  statement(database_.get(), "INSERT INTO worker(run) VALUES(?1)").with(options_.run).run();
  const std::int64_t number = sqlite3_last_insert_rowid(database_.get());
  open.commit();
  return number;
}

keeper::steady::duration keeper::random_life() {
  const auto between = options_.between_kills.value_or(24h);
  const double part = 2 * static_cast<double>(random_() >> 11) * 0x1p-53;
  return std::chrono::duration_cast<steady::duration>(std::chrono::duration<double, std::nano>(between) * part);
}

}  // namespace order_compensation
