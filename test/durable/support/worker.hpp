#pragma once

#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "durable/support/child_process.hpp"

namespace timing_wheel::durable::test {

/// A process on a file (sqlite_worker.cpp), and what it told.
class worker {
 public:
  /// \param environment NAME=VALUE, with blanks between.
  worker(const std::string& file, const char* command, const std::string& name, const std::string& environment = {},
         const std::string& program = TIMING_WHEEL_SQLITE_WORKER)
      : told_(file + "." + command + "." + name),
        process_(std::make_unique<rig::child_process>(
            std::vector<std::string>{"/bin/sh", "-c", "exec env " + environment + " " + program + R"( "$@" >"$0")",
                                     told_, file, command, name})) {}

  /// How it ended: 0, or the signal that killed it, below zero.
  int wait() {
    const int status = process_->status().value();
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// Waits until it has stopped itself.
  [[nodiscard]] bool stops() { return WIFSTOPPED(process_->status(WUNTRACED).value()); }
  void go_on() const { process_->send(SIGCONT); }

  /// Ends one that runs until it is killed.
  void end() { process_->kill(); }

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
  std::unique_ptr<rig::child_process> process_;
};

}  // namespace timing_wheel::durable::test
