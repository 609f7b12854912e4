#include "shared/fork_watch.hpp"

#include <cstddef>
#include <new>

#include "system/on_linux.hpp"

#if defined(TIMING_WHEEL_HAS_MAPPINGS)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace timing_wheel::detail {

#if defined(TIMING_WHEEL_HAS_MAPPINGS) && defined(MADV_WIPEONFORK)

namespace {

std::size_t page_size() noexcept { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

fork_watch::fork_watch(bool watching) noexcept {
  if (!watching) {
    return;
  }
  void* const page = mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return;
  }
  if (madvise(page, page_size(), MADV_WIPEONFORK) != 0) {
    munmap(page, page_size());
    return;
  }
  here_ = ::new (page) word(1);
}

fork_watch::~fork_watch() {
  if (here_ != &unwatched_) {
    munmap(here_, page_size());
  }
}

#else

fork_watch::fork_watch(bool /*watching*/) noexcept {}
fork_watch::~fork_watch() = default;

#endif

}  // namespace timing_wheel::detail
