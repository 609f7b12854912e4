#pragma once

#include <cstdint>
#include <string>

namespace timing_wheel::compare {

struct machine {
  std::string processor;
  unsigned cores = 0;
  std::uint64_t memory_bytes = 0;
  std::string system;
  std::string compiler;
  bool optimised = false;
};

[[nodiscard]] machine this_machine();

}  // namespace timing_wheel::compare
