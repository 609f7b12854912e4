#include "process_usage.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace timing_wheel::bench {
namespace {

std::chrono::nanoseconds cpu_of(decltype(RUSAGE_SELF) whom) {
  rusage used{};
  ::getrusage(whom, &used);
  return std::chrono::seconds(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         std::chrono::microseconds(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

std::uint64_t voluntary_switches_of(const std::filesystem::path& thread) {
  std::ifstream status(thread / "status");
  for (std::string key; status >> key;) {
    if (key == "voluntary_ctxt_switches:") {
      std::uint64_t switches = 0;
      status >> switches;
      return switches;
    }
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

std::uint64_t voluntary_switches_of_others() {
  const std::string self = std::to_string(::gettid());
  std::uint64_t sum = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() != self) {
      sum += voluntary_switches_of(thread.path());
    }
  }
  return sum;
}

}  // namespace

process_usage usage_now() {
  const std::chrono::nanoseconds cpu = cpu_of(RUSAGE_SELF);
  return {cpu, cpu - cpu_of(RUSAGE_THREAD), voluntary_switches_of_others()};
}

std::size_t resident_bytes() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
  std::ifstream statm("/proc/self/statm");
  std::size_t all_pages = 0;
  std::size_t resident_pages = 0;
  statm >> all_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace timing_wheel::bench
