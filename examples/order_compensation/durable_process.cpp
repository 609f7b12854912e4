#include "durable_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace order_compensation {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// What a new process is to be like.
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

  [[nodiscard]] pid_t spawn(char* const* arguments) const {
    pid_t pid = -1;
    if (const int error = posix_spawn(&pid, arguments[0], &actions_, &attributes_, arguments, environ); error != 0) {
      fail(error, std::string("starting ") + arguments[0]);
    }
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

child_process::child_process(std::vector<std::string> words, const std::string& told) {
  constexpr std::size_t most_told = 4096;  // which an empty pipe always takes at once
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    fail(errno, "making a pipe for another process");
  }
  input_ = pipe[1];
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  try {
    if (told.size() > most_told ||
        (!told.empty() && ::write(pipe[1], told.data(), told.size()) != static_cast<ssize_t>(told.size()))) {
      fail(told.size() > most_told ? EMSGSIZE : errno, "telling another process where it has to work");
    }
    pid_ = spawn_settings(pipe[0]).spawn(arguments.data());
  } catch (...) {
    ::close(pipe[0]);
    ::close(pipe[1]);
    throw;
  }
  ::close(pipe[0]);
}

child_process::~child_process() {
  kill();
  ::close(input_);
}

void child_process::wait(int flags) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = status_ ? 0 : ::waitpid(pid_, &status, flags);
  } while (ended < 0 && errno == EINTR);
  if (ended == pid_) {
    status_ = status;
  }
}

bool child_process::has_ended() {
  wait(WNOHANG);
  return status_.has_value();
}

bool child_process::kill() {
  if (has_ended()) {
    return false;
  }
  ::kill(pid_, SIGKILL);
  wait(0);
  return status_ && WIFSIGNALED(*status_) && WTERMSIG(*status_) == SIGKILL;
}

bool child_process::finish() {
  if (input_ >= 0) {
    ::close(std::exchange(input_, -1));
  }
  wait(0);
  return status_ && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0;
}

}  // namespace order_compensation
