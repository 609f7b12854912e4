#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <cstdint>

namespace timing_wheel::detail {

/// Knows whether this process is the one in which it was made, or a child that `fork` has made since.
///
/// On Linux (4.14 and newer) it is a page that the kernel shows empty to a child, so that the question costs one load,
/// and nothing is registered with the program. Elsewhere, and where there is no such page, it takes every process for
/// the first.
///
/// Thread safety: any thread. Memory order: relaxed; a thread of the child sees what `fork` has left it.
class fork_watch {
 public:
  /// `watching` false: it takes every process for the first.
  explicit fork_watch(bool watching) noexcept;
  ~fork_watch();
  fork_watch(const fork_watch&) = delete;
  fork_watch& operator=(const fork_watch&) = delete;

  /// Makes this process the one. It is watched as before. \pre no other thread asks.
  void begin_here() noexcept { here_->store(1, std::memory_order_relaxed); }

  [[nodiscard]] bool is_child() const noexcept { return here_->load(std::memory_order_relaxed) == 0; }

 private:
  using word = std::atomic<std::uint32_t>;

  word unwatched_{1};
  word* here_ = &unwatched_;  // 1 in the process where it was made; in a page of its own if that is watched
};

}  // namespace timing_wheel::detail
