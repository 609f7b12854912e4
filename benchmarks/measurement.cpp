#include "measurement.hpp"

#include <string>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace timing_wheel::bench {

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

namespace {

std::uint64_t shuffled(std::uint64_t x) {
  x ^= x << 13U;
  x ^= x >> 7U;
  x ^= x << 17U;
  return x;
}

}  // namespace

probe_lines::probe_lines(std::size_t count) : lines_(count) {
  std::uint64_t hop = 1;
  for (line& l : lines_) {
    hop = shuffled(hop);
    l.hop = hop;
  }
}

probe_lines::line& probe_lines::at(std::uint64_t random) {
  __extension__ using wide = unsigned __int128;
  return lines_[static_cast<std::size_t>((static_cast<wide>(random) * lines_.size()) >> 64U)];
}

void probe_lines::touch_at_random(std::size_t times) {
  std::uint64_t random = random_;  // in a register
  for (std::size_t i = 0; i < times; ++i) {
    random = shuffled(random);
    at(random).touched += random;
  }
  random_ = random;
}

void probe_lines::follow_chain(std::size_t times) {
  std::uint64_t place = place_;
  for (std::size_t i = 0; i < times; ++i) {
    line& l = at(place);
    l.touched += place;
    place = (place + l.hop) * 0x9e3779b97f4a7c15;
  }
  place_ = place;
  benchmark::DoNotOptimize(place);
}

void figures::report_handled(std::uint64_t handled) {
  using benchmark::Counter;
  const auto count = static_cast<double>(handled);
  state_.SetItemsProcessed(static_cast<std::int64_t>(handled));
  state_.counters["per_timer"] = Counter(count, Counter::kIsRate | Counter::kInvert);
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
