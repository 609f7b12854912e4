#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "timing_wheel/tick.hpp"

namespace timing_wheel::bench {

/// Half an hour in ticks of one millisecond: the longest delay of every workload.
inline constexpr tick half_hour = 30 * 60 * 1000;

/// The same delays in every run, uniform in [1, half an hour].
class delays {
 public:
  explicit delays(std::uint64_t seed) : random_(seed) {}
  [[nodiscard]] tick next() { return 1 + below(half_hour); }
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random_()) * limit) >> 64U);
  }

 private:
  std::mt19937_64 random_;
};

/// What a timer costs its owner: one cache line, touched when it fires.
struct alignas(64) payload {
  std::uint64_t fired = 0;
};

/// The timers that an engine's slots stand for; firing one reads and writes its line, as a callback would.
class payloads {
 public:
  explicit payloads(std::size_t count) : lines_(count) {}

  template <class Slots>
  void fire(const Slots& due) {
    constexpr std::size_t ahead = 8;
    for (std::size_t i = 0; i < due.size(); ++i) {
      if (i + ahead < due.size()) {
        __builtin_prefetch(&lines_[due[i + ahead]], 1);
      }
      ++lines_[due[i]].fired;
    }
  }

 private:
  std::vector<payload> lines_;
};

}  // namespace timing_wheel::bench
