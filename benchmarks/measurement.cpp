#include "measurement.hpp"

#include <ctime>
#include <string>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace timing_wheel::bench {

double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
void return_freed_memory() { malloc_trim(0); }
#else
std::size_t heap_bytes() { return 0; }
void return_freed_memory() {}
#endif

void figures::report_handled(std::uint64_t handled) {
  using benchmark::Counter;
  const auto count = static_cast<double>(handled);
  state_.SetItemsProcessed(static_cast<std::int64_t>(handled));
  state_.counters["per_timer"] = Counter(count, Counter::kIsRate | Counter::kInvert);
  state_.counters["per_P1"] = seconds_ / count / probes_.p1;
  state_.counters["per_P2"] = seconds_ / count / probes_.p2;
}

void figures::report_bytes(std::size_t bytes) {
  if (bytes != 0) {
    state_.counters["bytes_per_timer"] = static_cast<double>(bytes) / timers();
  }
}

void figures::expect(const char* what, std::uint64_t value, std::uint64_t expected) {
  if (value != expected) {
    const std::string text =
        std::string(what) + ": " + std::to_string(value) + " instead of " + std::to_string(expected);
    const char* const shown = text.c_str();  // older versions of Google Benchmark take no std::string
    state_.SkipWithError(shown);
  }
}

}  // namespace timing_wheel::bench
