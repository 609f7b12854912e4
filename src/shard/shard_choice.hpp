#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace timing_wheel::detail {

/// Which shard a thread schedules on. The threads of a service are dealt to its shards in turn, and each remembers its
/// place, in a few services at a time. That is only a habit: a thread that has forgotten its place gets another one.
/// With several pollers each of them begins with a shard of its own.
///
/// Room for one service instead of eight would save ten instructions of a schedule, with several shards; a thread that
/// uses two services in turn would pay 6 ns more for a schedule and its cancel (docs/benchmarks.md, "What paid").
///
/// Thread safety: any thread.
class shard_choice {
 public:
  [[nodiscard]] std::size_t index(std::size_t shards) noexcept {
    place& mine = place_of_thread();
    if (mine.service != this || mine.born != born_ || mine.index >= shards) [[unlikely]] {
      deal(mine, shards);
    }
    return mine.index;
  }

  /// Gives the calling thread a place.
  void assign(std::size_t index) noexcept { place_of_thread() = {this, born_, index}; }

 private:
  struct place {
    const shard_choice* service = nullptr;
    std::chrono::steady_clock::time_point born;  // tells it from a service at the same address before
    std::size_t index = 0;                       // of its shard
  };

  [[nodiscard]] place& place_of_thread() const noexcept {
    thread_local std::array<place, 8> places;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    return places[(address / 64 ^ address / 4096) % places.size()];
  }

  [[gnu::noinline, gnu::cold]] void deal(place& mine, std::size_t shards) noexcept {
    mine = {this, born_, next_.fetch_add(1, std::memory_order_relaxed) % shards};
  }

  const std::chrono::steady_clock::time_point born_ = std::chrono::steady_clock::now();
  std::atomic<unsigned> next_{0};  // relaxed: it only hands out numbers
};

}  // namespace timing_wheel::detail
