#include "durable/support/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <system_error>
#include <utility>

namespace timing_wheel::rig {
namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

pid_t spawn(int input, std::vector<std::string>& words) {
  std::vector<char*> arguments;
  std::transform(words.begin(), words.end(), std::back_inserter(arguments),
                 [](std::string& word) { return word.data(); });
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    fail(error, "starting " + words.front());
  }
  return pid;
}

}  // namespace

child_process::child_process(std::vector<std::string> words, const std::string& told) {
  constexpr std::size_t most_told = 4096;  // which an empty pipe always takes at once
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    fail(errno, "making a pipe for another process");
  }
  input_ = pipe[1];
  try {
    if (told.size() > most_told || ::write(input_, told.data(), told.size()) != static_cast<ssize_t>(told.size())) {
      fail(told.size() > most_told ? EMSGSIZE : errno, "telling another process where it has to work");
    }
    pid_ = spawn(pipe[0], words);
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

std::optional<int> child_process::status(int flags) {
  int told = 0;
  pid_t which = 0;
  do {
    which = end_ ? 0 : ::waitpid(pid_, &told, flags);
  } while (which < 0 && errno == EINTR);
  if (which != pid_) {
    return end_;
  }
  if (!WIFSTOPPED(told)) {
    end_ = told;
  }
  return told;
}

bool child_process::has_ended() { return status(WNOHANG).has_value(); }

void child_process::send(int signal) const {
  if (!end_) {
    ::kill(pid_, signal);
  }
}

bool child_process::kill() {
  if (has_ended()) {
    return false;
  }
  send(SIGKILL);
  const std::optional<int> end = status();
  return end && WIFSIGNALED(*end) && WTERMSIG(*end) == SIGKILL;
}

bool child_process::finish() {
  if (input_ >= 0) {
    ::close(std::exchange(input_, -1));
  }
  const std::optional<int> end = status();
  return end && WIFEXITED(*end) && WEXITSTATUS(*end) == 0;
}

}  // namespace timing_wheel::rig
