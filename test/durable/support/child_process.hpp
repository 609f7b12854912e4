#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace timing_wheel::rig {

/// Another process. It has a process group of its own, so a Ctrl-C of the terminal is for us alone. One that should not
/// outlive this process ends when its standard input does.
///
/// Thread safety: as a plain object.
class child_process {
 public:
  /// \param words the path of the program, and its arguments: everybody on the machine can read them.
  /// \param told what it reads first: nobody else can. At most 4 096 bytes. \throws std::system_error if it cannot be
  /// started.
  explicit child_process(std::vector<std::string> words, const std::string& told = {});
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  /// Kills it, if it has not ended.
  ~child_process();

  /// As `waitpid` tells it with these flags; none if it has nothing to tell yet. Once it has ended, always that.
  std::optional<int> status(int flags = 0);
  [[nodiscard]] bool has_ended();
  void send(int signal) const;
  /// SIGKILL. \returns whether that ended it; else it had ended before.
  bool kill();
  /// Ends its standard input, and waits for its end. \returns whether it ended well.
  bool finish();

 private:
  pid_t pid_ = -1;
  int input_ = -1;  // the writing end of what it reads
  std::optional<int> end_;
};

}  // namespace timing_wheel::rig
