#pragma once

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "timing_wheel/time.hpp"

namespace timing_wheel::bench {

/// Bytes that the process holds from `malloc`; 0 where the C library does not tell.
[[nodiscard]] std::size_t heap_bytes();

/// What the process has taken from the heap since this was made.
class heap_watch {
 public:
  [[nodiscard]] std::size_t grown() const { return heap_bytes() - before_; }

 private:
  std::size_t before_ = heap_bytes();
};

/// Gives back what `malloc` keeps for reuse, so that whoever comes next touches new pages.
void return_freed_memory();

/// What this machine's memory does at this moment with as many lines of 64 bytes as there are timers. Nanoseconds on a
/// noisy machine say little; how many of these accesses an operation costs says more.
class probe_lines {
 public:
  explicit probe_lines(std::size_t count);

  /// P1: reads and writes lines at random, each independent of those before: the throughput of the memory.
  void touch_at_random(std::size_t times);

  /// P2: the same, but each line tells which one comes next: the latency of the memory.
  void follow_chain(std::size_t times);

 private:
  struct line {
    std::uint64_t hop = 0;
    std::uint64_t touched = 0;
    std::array<std::uint64_t, 6> rest = {};
  };

  [[nodiscard]] line& at(std::uint64_t random);

  std::vector<line> lines_;
  std::uint64_t random_ = 0x9e3779b97f4a7c15;
  std::uint64_t place_ = 1;
};

/// Does `work` outside the time of the benchmark.
template <class Work>
void untimed(benchmark::State& state, const Work& work) {
  state.PauseTiming();
  work();
  state.ResumeTiming();
}

/// The counters that all workloads have.
class figures {
 public:
  explicit figures(benchmark::State& state) : state_(state) {}

  /// N, the number of timers.
  [[nodiscard]] timer_number timers() const { return static_cast<timer_number>(state_.range(0)); }

  /// `per_timer`, the time for each of `handled`.
  void report_handled(std::uint64_t handled);

  /// `bytes_per_timer`, with the 64 bytes of the timer itself and, for a peer, with the handle that it asks its user to
  /// keep.
  void report_bytes(std::size_t bytes);

  /// An error unless `value` is as expected: how many timers fired, for instance.
  void expect(const char* what, std::uint64_t value, std::uint64_t expected);

 private:
  benchmark::State& state_;
};

}  // namespace timing_wheel::bench
