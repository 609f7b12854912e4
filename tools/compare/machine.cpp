#include "compare/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace timing_wheel::compare {
namespace {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

machine this_machine() {
  machine found;
  found.processor = processor_name();
  found.cores = std::thread::hardware_concurrency();
  found.memory_bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (utsname name{}; ::uname(&name) == 0) {
    found.system = std::string(name.sysname) + " " + name.release + " " + name.machine;
  }
#if defined(__clang__)
  found.compiler = "clang " __clang_version__;
#else
  found.compiler = "g++ " __VERSION__;
#endif
#if defined(__OPTIMIZE__)
  found.optimised = true;
#endif
  return found;
}

}  // namespace timing_wheel::compare
