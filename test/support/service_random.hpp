#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>

namespace timing_wheel::test {

/// A reproducible source of choices: from a seed, without end; or from bytes, and 0 after them.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  explicit dice(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  /// A number in [0, end). \pre `end` is positive.
  [[nodiscard]] std::uint64_t below(std::uint64_t end) { return (engine_ ? (*engine_)() : from_bytes(end)) % end; }

  [[nodiscard]] bool one_in(std::uint64_t n) { return below(n) == 0; }

  /// In [from, to).
  [[nodiscard]] std::chrono::nanoseconds between(std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
    return from + std::chrono::nanoseconds(below(static_cast<std::uint64_t>((to - from).count())));
  }

  /// Any order of magnitude below 2^bits is as likely as any other.
  [[nodiscard]] std::int64_t magnitude(unsigned bits) {
    return static_cast<std::int64_t>(below(std::uint64_t{1} << below(bits + 1)));
  }

  /// Whether the bytes are used up.
  [[nodiscard]] bool exhausted() const noexcept { return !engine_ && bytes_.empty(); }

 private:
  // As few bytes as hold a number below `end`, so that a change of one byte changes one choice.
  std::uint64_t from_bytes(std::uint64_t end) {
    std::uint64_t value = 0;
    for (std::uint64_t left = end - 1; left != 0 && !bytes_.empty(); left >>= 8U) {
      value = value << 8U | bytes_.front();
      bytes_ = bytes_.subspan(1);
    }
    return value;
  }

  std::optional<std::mt19937_64> engine_;
  std::span<const std::uint8_t> bytes_;
};

}  // namespace timing_wheel::test
