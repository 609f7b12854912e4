#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace timing_wheel::bench {

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

/// Seconds of processor time per access.
struct probe_figures {
  double p1 = 0;
  double p2 = 0;
};

/// The probes with `lines` lines, measured when the first benchmark of a family asks; the others of the family share
/// them.
[[nodiscard]] probe_figures probes_for(std::string_view family, std::size_t lines);

}  // namespace timing_wheel::bench
