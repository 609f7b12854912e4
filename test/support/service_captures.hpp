#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace timing_wheel::test {

/// Counts the captured objects that are alive. It must outlive its tokens.
///
/// A token counts from when it is made until the object that it was last moved into is destroyed; so it is one capture,
/// however often the callable is moved.
class live_captures {
 public:
  class token {
   public:
    explicit token(live_captures& counter) noexcept : counter_(&counter) { ++counter.alive_; }
    token(token&& other) noexcept : counter_(std::exchange(other.counter_, nullptr)) {}
    token& operator=(token&&) = delete;
    ~token() {
      if (counter_ != nullptr) {
        --counter_->alive_;
      }
    }

   private:
    live_captures* counter_;
  };

  [[nodiscard]] token make() noexcept { return token(*this); }
  [[nodiscard]] std::int64_t alive() const noexcept { return alive_.load(); }

 private:
  std::atomic<std::int64_t> alive_{0};
};

/// Captured, it calls `action` when what captured it is destroyed.
template <class Action>
class on_destruction {
 public:
  explicit on_destruction(Action action) noexcept : action_(std::move(action)) {}
  on_destruction(on_destruction&& other) noexcept
      : action_(std::move(other.action_)), armed_(std::exchange(other.armed_, false)) {}
  on_destruction& operator=(on_destruction&&) = delete;
  ~on_destruction() {
    if (armed_) {
      action_();
    }
  }

 private:
  Action action_;
  bool armed_ = true;
};

}  // namespace timing_wheel::test
