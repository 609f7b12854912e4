#pragma once

#include <chrono>
#include <cstdint>

#include "core/slab.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

inline constexpr unsigned shard_bits = 64 - number_bits - generation_bits;

/// Turns shards and ids of one service into keys of 64 bits, and back. Each service does it in its own way, so that the
/// key of another service becomes a shard, a place and a generation at random, which hardly ever fit a timer.
///
/// The way is a permutation of 64 bits: twice a shift and a product, as in the finalizers of MurmurHash3 and
/// SplitMix64, with factors that belong to the service. 0 stays 0, and no timer has that key, because generations begin
/// with 1.
class key_code {
 public:
  /// \pre no two services that live at the same time give the same address; `born` tells those that do so one after the
  /// other.
  key_code(const void* address, std::chrono::steady_clock::time_point born) noexcept
      : first_(mixed(reinterpret_cast<std::uintptr_t>(address)) | 1U),
        second_(mixed(first_ ^ static_cast<std::uint64_t>(born.time_since_epoch().count())) | 1U) {}

  struct shard_and_id {
    std::uint32_t shard = 0;
    timer_id id;
  };

  [[nodiscard]] std::uint64_t key_of(std::uint32_t shard, timer_id id) const noexcept {
    const std::uint64_t plain = (std::uint64_t{id.generation} << shard_bits | shard) << number_bits | id.number;
    return folded(folded(folded(plain) * first_) * second_);
  }

  [[nodiscard]] shard_and_id decoded(std::uint64_t key) const noexcept {
    const std::uint64_t plain = folded(folded(folded(key) * inverse(second_)) * inverse(first_));
    return {static_cast<std::uint32_t>(plain >> number_bits & low(shard_bits)),
            {static_cast<std::uint32_t>(plain & low(number_bits)),
             static_cast<std::uint32_t>(plain >> (number_bits + shard_bits))}};
  }

 private:
  static constexpr std::uint64_t low(unsigned bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

  // The lower half changed by the upper one; done twice, it is undone.
  static constexpr std::uint64_t folded(std::uint64_t x) noexcept { return x ^ x >> 32U; }

  static constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
    x = folded(x + 0x9e3779b97f4a7c15U) * 0xd6e8feb86659fd93U;
    return folded(folded(x) * 0xd6e8feb86659fd93U);
  }

  // The factor that undoes an odd one, modulo 2^64: Newton's iteration doubles the correct bits, of which there are 3
  // at first.
  static constexpr std::uint64_t inverse(std::uint64_t odd) noexcept {
    std::uint64_t x = odd;
    for (int correct = 3; correct < 64; correct *= 2) {
      x *= 2 - odd * x;
    }
    return x;
  }

  std::uint64_t first_;
  std::uint64_t second_;
};

}  // namespace timing_wheel::detail
