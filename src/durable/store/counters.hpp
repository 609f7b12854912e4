#pragma once

#include <atomic>
#include <cstdint>

#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// What a store counts: see `store_counts`. Thread safety: any thread.
struct counters {
  std::atomic<std::uint64_t> statements{0};
  std::atomic<std::uint64_t> rows_read{0};
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> round_trips{0};

  [[nodiscard]] store_counts read() const noexcept {
    return {statements.load(std::memory_order_relaxed), rows_read.load(std::memory_order_relaxed),
            commits.load(std::memory_order_relaxed), round_trips.load(std::memory_order_relaxed)};
  }
};

}  // namespace timing_wheel::durable
