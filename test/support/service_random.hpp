#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace timing_wheel::test {

/// A reproducible source of choices.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}

  /// A number in [0, end). \pre `end` is positive.
  [[nodiscard]] std::uint64_t below(std::uint64_t end) { return engine_() % end; }

  [[nodiscard]] bool one_in(std::uint64_t n) { return below(n) == 0; }

  /// In [from, to).
  [[nodiscard]] std::chrono::nanoseconds between(std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
    return from + std::chrono::nanoseconds(below(static_cast<std::uint64_t>((to - from).count())));
  }

  /// Any order of magnitude below 2^bits is as likely as any other.
  [[nodiscard]] std::int64_t magnitude(unsigned bits) {
    return static_cast<std::int64_t>(below(std::uint64_t{1} << below(bits + 1)));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace timing_wheel::test
