#pragma once

#include <cstdint>

/// \file
/// Scarce memory by the `operator new` of support/allocation.hpp, counted over all threads.

namespace timing_wheel::durable::test {

/// From now on the allocations are counted, and those from the `first` (1, 2, ...) on fail, `many` of them.
void make_scarce(std::uint64_t first, std::uint64_t many) noexcept;
/// No allocation fails any more. \returns how many were counted.
std::uint64_t make_plentiful() noexcept;

/// While it lives, what this thread allocates is neither counted nor refused: that is the test's own.
class unlimited {
 public:
  unlimited() noexcept;
  unlimited(const unlimited&) = delete;
  unlimited& operator=(const unlimited&) = delete;
  ~unlimited();
};

}  // namespace timing_wheel::durable::test
