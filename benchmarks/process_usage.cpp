#include "process_usage.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace timing_wheel::bench {
namespace {

rusage usage_of(decltype(RUSAGE_SELF) whom) {
  rusage used{};
  ::getrusage(whom, &used);
  return used;
}

std::chrono::nanoseconds cpu_of(const rusage& used) {
  return std::chrono::seconds(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         std::chrono::microseconds(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

process_usage usage_now() {
  const rusage all = usage_of(RUSAGE_SELF);
  const rusage own = usage_of(RUSAGE_THREAD);
  return {cpu_of(all), cpu_of(all) - cpu_of(own), static_cast<std::uint64_t>(all.ru_nvcsw - own.ru_nvcsw)};
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
