// A system whose pages are larger. `sysconf`, `mmap` and the like of this program stand before those of the system.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "timing_wheel/detail/engine/flat_array.hpp"
#include "timing_wheel/detail/engine/page_source.hpp"

namespace {

std::size_t page = 4096;

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

bool begins_a_page(const void* begin) {
  const bool good = reinterpret_cast<std::uintptr_t>(begin) % page == 0;
  errno = good ? errno : EINVAL;
  return good;
}

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names of the system are reserved
extern "C" {

long sysconf(int name) noexcept {
  return name == _SC_PAGESIZE ? static_cast<long>(page) : next<decltype(sysconf)>("sysconf")(name);
}

int munmap(void* begin, std::size_t bytes) noexcept {
  return begins_a_page(begin) ? next<decltype(munmap)>("munmap")(begin, whole_pages(bytes)) : -1;
}

void* mmap(void* where, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  const std::size_t size = whole_pages(bytes);
  void* const made = next<decltype(mmap)>("mmap")(where, size + page, protection, flags, file, offset);
  if (made == MAP_FAILED) {
    return made;
  }
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(made) % page) % page;
  char* const begin = static_cast<char*>(made) + before;
  const auto unmap = next<decltype(munmap)>("munmap");
  static_cast<void>(before == 0 || unmap(made, before) == 0);
  unmap(begin + size, page - before);
  return begin;
}

void* mremap(void* old, std::size_t old_bytes, std::size_t bytes, int /*flags*/, ...) noexcept {
  if (!begins_a_page(old)) {
    return MAP_FAILED;
  }
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memcpy(made, old, whole_pages(std::min(old_bytes, bytes)));
  munmap(old, old_bytes);
  return made;
}

int madvise(void* begin, std::size_t bytes, int advice) noexcept {
  return begins_a_page(begin) ? next<decltype(madvise)>("madvise")(begin, whole_pages(bytes), advice) : -1;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace timing_wheel::test {
namespace {

class SystemPage : public testing::TestWithParam<std::size_t> {  // NOLINT(readability-identifier-naming): a suite
 public:
  SystemPage() { page = GetParam(); }
  ~SystemPage() override { page = 4096; }
};

INSTANTIATE_TEST_SUITE_P(Of, SystemPage, testing::Values(4096, 16'384, 65'536), testing::PrintToStringParamName());

TEST_P(SystemPage, AnArrayThatShrinksIsZeroBehindItsEndWhenItGrowsAgain) {
  detail::flat_array<unsigned char> bytes(true);
  bytes.cover(2'000'000);
  std::fill_n(&bytes[0], bytes.size(), 7);
  while (bytes.shrink_towards(1'001'000, 100'000)) {
  }
  const std::size_t kept = bytes.size();
  EXPECT_LT(kept, 1'001'000 + page) << "what it has given back has gone";
  bytes.cover(3'000'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(bytes[i], i < kept ? 7 : 0) << i;
  }
}

TEST_P(SystemPage, ARegionDiscardsNothingThatIsInUse) {
  constexpr std::size_t size = 200'000;
  detail::page_source source;
  std::vector<unsigned char*> pieces;
  while (pieces.size() * size < detail::page_source::ordinary + 2 * detail::page_source::region_size) {
    pieces.push_back(static_cast<unsigned char*>(source.allocate(size)));
    std::memset(pieces.back(), 7, size);
  }
  for (std::size_t i = 0; i < pieces.size(); i += 2) {
    source.release(pieces[i], size);
  }
  const std::size_t before = source.bytes();
  while (source.discard_some()) {
  }
  EXPECT_LT(source.bytes(), before) << "it does discard";
  for (std::size_t i = 1; i < pieces.size(); i += 2) {
    ASSERT_TRUE(std::all_of(pieces[i], pieces[i] + size, [](unsigned char byte) { return byte == 7; })) << i;
  }
}

}  // namespace
}  // namespace timing_wheel::test
