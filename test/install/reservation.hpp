#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace timing_wheel {
class timer;
}

/// Holds goods until they are paid for, or for half an hour. It takes any timer; who includes this needs none.
class reservation {
 public:
  explicit reservation(timing_wheel::timer& timer, std::chrono::nanoseconds patience = std::chrono::minutes(30));
  ~reservation();
  reservation(const reservation&) = delete;
  reservation& operator=(const reservation&) = delete;

  /// \returns whether it was in time.
  bool pay();
  [[nodiscard]] bool given_back() const { return *given_back_; }

 private:
  timing_wheel::timer& timer_;
  std::shared_ptr<std::atomic<bool>> given_back_ = std::make_shared<std::atomic<bool>>(false);
  std::uint64_t check_;  // the key of its timer
};
