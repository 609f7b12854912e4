#include "durable/faults/scarce.hpp"

#include <atomic>

#include "support/allocation.hpp"

namespace timing_wheel::durable::test {
namespace {

constinit std::atomic<bool> counting{false};
constinit std::atomic<std::uint64_t> count{0};
constinit std::uint64_t first_to_fail = 0;
constinit std::uint64_t first_not_to = 0;
constinit thread_local unsigned without_limit = 0;

bool counts_and_refuses() noexcept {
  if (without_limit != 0 || !counting.load(std::memory_order_acquire)) {
    return false;
  }
  const std::uint64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  return number >= first_to_fail && number < first_not_to;
}

}  // namespace

void make_scarce(std::uint64_t first, std::uint64_t many) noexcept {
  timing_wheel::test::is_refused = counts_and_refuses;
  count = 0;
  first_to_fail = first;
  first_not_to = first + many;
  counting.store(true, std::memory_order_release);
}

std::uint64_t make_plentiful() noexcept {
  counting.store(false, std::memory_order_release);
  return count;
}

unlimited::unlimited() noexcept { ++without_limit; }
unlimited::~unlimited() { --without_limit; }

}  // namespace timing_wheel::durable::test
