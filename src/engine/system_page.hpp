#pragma once

#include <cstddef>

#include "system/on_linux.hpp"

#if defined(TIMING_WHEEL_HAS_MAPPINGS)
#include <unistd.h>
#endif

namespace timing_wheel::detail {

/// What the system maps at once, in bytes: 4 KiB on x86, up to 64 KiB on others. It is asked each time, which is no
/// system call; the caller makes one next.
[[nodiscard]] inline std::size_t system_page() noexcept {
#if defined(TIMING_WHEEL_HAS_MAPPINGS)
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
#else
  return 4096;  // of Windows; of no meaning where nothing is mapped
#endif
}

}  // namespace timing_wheel::detail
