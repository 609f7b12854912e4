#pragma once

#include <gtest/gtest.h>

#include <string>

namespace timing_wheel::test {

/// Keeps what is written to standard error during its life off the terminal.
class captured_stderr {
 public:
  captured_stderr() { testing::internal::CaptureStderr(); }
  captured_stderr(const captured_stderr&) = delete;
  captured_stderr& operator=(const captured_stderr&) = delete;
  ~captured_stderr() {
    if (!taken_) {
      static_cast<void>(testing::internal::GetCapturedStderr());
    }
  }

  /// What was written until now; ends the capture.
  [[nodiscard]] std::string text() {
    taken_ = true;
    return testing::internal::GetCapturedStderr();
  }

 private:
  bool taken_ = false;
};

}  // namespace timing_wheel::test
