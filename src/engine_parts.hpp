#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "timing_wheel/bucket.hpp"
#include "timing_wheel/engine.hpp"

/// \file
/// What the engines do alike.

namespace timing_wheel::detail {

inline constexpr std::uint32_t smallest_wheel = 2;
inline constexpr std::uint32_t largest_wheel = 1U << 24U;

/// \throws std::invalid_argument naming the value and the range.
inline void check_wheel_size(std::uint32_t size) {
  if (size < smallest_wheel || size > largest_wheel) {
    throw std::invalid_argument("wheel size " + std::to_string(size) + " is not in [" + std::to_string(smallest_wheel) +
                                ", " + std::to_string(largest_wheel) + "]");
  }
}

/// The sizes level by level, at least one. \throws std::invalid_argument as `check_wheel_size`.
inline std::vector<std::uint32_t> checked_sizes(const engine_options& options) {
  std::vector<std::uint32_t> sizes = options.wheel_sizes;
  if (sizes.empty()) {
    sizes.push_back(options.wheel_size);
  }
  for (const std::uint32_t size : sizes) {
    check_wheel_size(size);
  }
  return sizes;
}

/// \throws std::invalid_argument naming the value and the range.
inline tick checked_start(const engine_options& options) {
  if (options.start == never) {
    throw std::invalid_argument("start " + std::to_string(options.start) + " is not in [0, " +
                                std::to_string(never - 1) + "]");
  }
  return options.start;
}

// Entries ahead of the one being handled whose places are fetched: far enough to hide a miss of the second-level cache.
inline constexpr std::size_t prefetch_distance = 8;

/// Calls `take(entry)` for each entry of `run`, which lies at the front of `b`. Those that were taken leave the bucket and count
/// against the budget, also when `take` throws for one of them.
template <class Taker>
void hand_over(bucket_store& store, bucket& b, std::span<const entry> run, std::size_t& budget, Taker&& take) {
  struct progress {
    ~progress() {
      b.drop_front(store, done);
      budget -= done;
    }
    bucket& b;
    bucket_store& store;
    std::size_t& budget;
    std::uint32_t done = 0;
  } handled{b, store, budget};

  for (; handled.done < run.size(); ++handled.done) {
    if (handled.done + prefetch_distance < run.size()) {
      store.prefetch(run[handled.done + prefetch_distance].which);
    }
    take(run[handled.done]);
  }
}

/// Calls `work`. What it has put into `due` is not kept back: when it finds no memory, that ends it as a budget would, and the
/// caller meets the failure when it calls again. With nothing due to show, it throws std::bad_alloc.
template <class Work>
void show_what_is_due(const std::vector<slot>& due, Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    if (due.empty()) {
      throw;
    }
  }
}

}  // namespace timing_wheel::detail
