#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace timing_wheel::fuzz {

/// Ends the program, so that the fuzzer keeps the input, unless `holds`.
inline void expect(bool holds, const char* claim) {
  if (!holds) {
    std::fprintf(stderr, "does not hold: %s\n", claim);
    std::abort();
  }
}

/// The bytes of the fuzzer, read as numbers from the front to the end; after that they are all zero.
class input {
 public:
  explicit input(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

  std::uint8_t byte() noexcept {
    if (bytes_.empty()) {
      return 0;
    }
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  /// One of the first `end` numbers. \pre `end` is in [1, 256].
  std::uint8_t below(unsigned end) noexcept { return static_cast<std::uint8_t>(byte() % end); }

  /// Any number; small ones, and those around powers of two, take two bytes at most.
  std::uint64_t number() noexcept {
    const std::uint8_t form = byte();
    if (form < 128) {
      return form;
    }
    const unsigned bit = form % 64U;
    if (form < 192) {
      return (std::uint64_t{1} << bit) + byte() - 128;
    }
    std::uint64_t all = 0;
    for (unsigned read = 0; read <= bit; read += 8) {
      all = all << 8U | byte();
    }
    return all & (UINT64_MAX >> (63 - bit));
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace timing_wheel::fuzz
