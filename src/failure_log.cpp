#include "failure_log.hpp"

#include <chrono>
#include <cinttypes>
#include <cstdio>

namespace timing_wheel::detail {

namespace {

void print(const char* what, std::uint64_t tag) noexcept {
  std::fprintf(stderr, "timing_wheel: a callback threw (tag %" PRIu64 "): %s\n", tag, what);
}

}  // namespace

void failure_log::report(const std::exception_ptr& failure, std::uint64_t tag, time_point now) noexcept {
  auto until = silent_until_.load(std::memory_order_relaxed);
  const auto next = saturating_add(now, std::chrono::seconds(1)).time_since_epoch().count();
  if (now.time_since_epoch().count() < until ||
      !silent_until_.compare_exchange_strong(until, next, std::memory_order_relaxed)) {
    return;
  }
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    print(e.what(), tag);
  } catch (...) {
    print("not a std::exception", tag);
  }
}

}  // namespace timing_wheel::detail
