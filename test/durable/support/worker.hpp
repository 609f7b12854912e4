#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace timing_wheel::durable::test {

/// A variable of a process's environment.
using variable = std::pair<std::string, std::string>;

/// A process on a file (sqlite_worker.cpp), and what it told.
class worker {
 public:
  worker(const std::string& file, const char* command, const std::string& name, const std::string& fail_point = {},
         const std::vector<variable>& environment = {})
      : told_(file + "." + command + "." + name), process_(fork()) {
    if (process_ == 0) {
      setenv("TIMING_WHEEL_FAIL_POINT", fail_point.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
      for (const auto& [key, value] : environment) {
        setenv(key.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
      }
      const int told = open(told_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      if (told >= 0 && dup2(told, STDOUT_FILENO) >= 0) {
        alarm(120);
        execl(TIMING_WHEEL_SQLITE_WORKER, "sqlite_worker", file.c_str(), command, name.c_str(), nullptr);
      }
      _exit(3);
    }
  }

  /// How it ended: 0, or the signal that killed it, below zero.
  int wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// Waits until it has stopped itself.
  [[nodiscard]] bool stops() const {
    int status = 0;
    return waitpid(process_, &status, WUNTRACED) == process_ && WIFSTOPPED(status);
  }
  void go_on() const { kill(process_, SIGCONT); }

  /// Ends one that runs until it is killed.
  void end() {
    kill(process_, SIGKILL);
    wait();
  }

  [[nodiscard]] std::vector<std::string> told() const {
    std::ifstream lines(told_);
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) {
      all.push_back(line);
    }
    return all;
  }

 private:
  std::string told_;
  pid_t process_;
};

}  // namespace timing_wheel::durable::test
