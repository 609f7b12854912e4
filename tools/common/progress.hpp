#pragma once

#include <chrono>
#include <string>

namespace common {

/// Tells on standard error how far a long job is: on a terminal in one line that is rewritten every 0.2 s, elsewhere in
/// a line every 2 s. A job that is shorter leaves no trace.
///
/// Thread safety: as a plain object.
class progress {
 public:
  explicit progress(bool quiet);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// Whether it is time for another line. Reads the clock, unless quiet.
  [[nodiscard]] bool due() const;

  /// Shows the text, if it is time for that.
  void show(const std::string& text);
  /// The same, with a share in [0, 1] in percent.
  void show(const std::string& text, double share);

  /// Removes the line from a terminal, before something else is printed.
  void clear();

 private:
  bool quiet_;
  bool on_terminal_;
  bool line_shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace common
