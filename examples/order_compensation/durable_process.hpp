#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace order_compensation {

/// Another process. It should end when its standard input does: so it does not outlive this process. It has a process
/// group of its own, so a Ctrl-C of the terminal is for us alone.
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

}  // namespace order_compensation
