#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "engine/system_page.hpp"
#include "support/allocation.hpp"
#include "support/build.hpp"
#include "timing_wheel/detail/engine/flat_array.hpp"
#include "timing_wheel/detail/engine/page_source.hpp"

namespace timing_wheel::test {
namespace {

using detail::flat_array;
using detail::growing_memory;
using detail::page_source;
using detail::sparse_memory;

TEST(GrowingMemory, KeepsItsContentAndIsZeroBehindIt) {
  for (const bool huge_pages : {true, false}) {
    flat_array<std::uint32_t> numbers(huge_pages);
    std::size_t filled = 0;
    for (const std::size_t last : {std::size_t{0}, std::size_t{300}, std::size_t{16'000}, std::size_t{17'000},
                                   std::size_t{600'000}, std::size_t{2'000'000}}) {
      numbers.cover(last);
      ASSERT_GT(numbers.size(), last);
      for (std::size_t i = 0; i < filled; ++i) {
        ASSERT_EQ(numbers[i], i + 1) << "with room for " << last;
      }
      for (std::size_t i = filled; i < numbers.size(); ++i) {
        ASSERT_EQ(numbers[i], 0U) << "with room for " << last;
        numbers[i] = static_cast<std::uint32_t>(i + 1);
      }
      filled = numbers.size();
    }
  }
}

TEST(GrowingMemory, TakesAnEighthMoreThanIsAskedForAtMostWhereItIsMapped) {
  flat_array<std::uint32_t> numbers(true);
  for (std::size_t i = 0; i < 1'000'000; ++i) {
    numbers.cover(i);
  }
  EXPECT_LE(numbers.bytes(), can_map ? 4'000'000U + 500'000U + detail::system_page() : 6'000'000U);
}

TEST(GrowingMemory, IsOfOperatorNewAloneWithoutHugePages) {
  const std::size_t before = allocations.live_bytes;
  growing_memory memory(false);
  memory.grow(5'000'000);
  EXPECT_NEAR(static_cast<double>(allocations.live_bytes - before), static_cast<double>(memory.size()), 5'000);
}

TEST(GrowingMemory, ThatFindsNoneKeepsWhatItHas) {
  growing_memory memory(false);
  memory.grow(1'000);
  std::memset(memory.data(), 7, memory.size());
  const std::size_t size = memory.size();
  ASSERT_FALSE(succeeds_with(0, [&] { memory.grow(10'000); }));
  EXPECT_EQ(memory.size(), size);
  EXPECT_EQ(static_cast<const char*>(memory.data())[size - 1], 7);
}

TEST(SparseMemory, IsZeroAndMovesAndIsOfOperatorNewWhereItIsSmallOrMayNotBeMapped) {
  for (const bool may_map : {true, false}) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{16'384}, std::size_t{100'000}}) {
      const bool mapped = may_map && can_map && size >= 16'384;
      const std::uint64_t allocated = count_allocations([&] {
        sparse_memory first(size, may_map);
        auto* const begin = static_cast<unsigned char*>(first.data());
        ASSERT_TRUE(std::all_of(begin, begin + size, [](unsigned char byte) { return byte == 0; })) << size;
        begin[size - 1] = 7;
        const sparse_memory second(std::move(first));
        ASSERT_EQ(second.data(), begin);
        ASSERT_EQ(begin[size - 1], 7);
      });
      EXPECT_EQ(allocated, mapped ? 0U : 1U) << size;
    }
  }
}

/// Fills what it is given, and says whether all of it has kept what was written.
class filler {
 public:
  void fill(void* begin, std::size_t bytes) {
    std::memset(begin, static_cast<int>(given_.size() % 251), bytes);
    given_.push_back({static_cast<const unsigned char*>(begin), bytes});
  }
  [[nodiscard]] bool all_kept() const {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      for (std::size_t b = 0; b < given_[i].bytes; ++b) {
        if (given_[i].begin[b] != i % 251) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  struct piece {
    const unsigned char* begin;
    std::size_t bytes;
  };
  std::vector<piece> given_;
};

TEST(GrowingMemory, ThatShrinksIsZeroBehindItsEndWhenItGrowsAgain) {
  for (const bool huge_pages : {true, false}) {
    for (const std::size_t kept : {std::size_t{0}, std::size_t{10}, std::size_t{5'000}, std::size_t{400'000}}) {
      flat_array<std::uint32_t> numbers(huge_pages);
      numbers.cover(500'000);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<std::uint32_t>(i + 1);
      }
      for (std::size_t i = kept; i < numbers.size(); ++i) {
        numbers[i] = 0;
      }
      while (numbers.shrink_towards(kept, 20'000)) {
      }
      ASSERT_GE(numbers.size(), kept);
      ASSERT_EQ(numbers.bytes(), numbers.size() * 4);
      numbers.cover(600'000);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(numbers[i], i < kept ? i + 1 : 0U) << kept;
      }
    }
  }
}

TEST(GrowingMemory, GivesBackWholePagesBehindItsEnd) {
  if (!can_map) {
    GTEST_SKIP() << "this system has no such mapping";
  }
  flat_array<std::uint32_t> numbers(true);
  numbers.cover(1'000'000);
  const std::size_t before = numbers.bytes();
  ASSERT_TRUE(numbers.shrink_towards(100'000, 16'384));
  EXPECT_NEAR(static_cast<double>(before - numbers.bytes()), 65'536, static_cast<double>(detail::system_page()))
      << "a step at a time";
  while (numbers.shrink_towards(100'000, 16'384)) {
  }
  EXPECT_LT(numbers.bytes(), 400'000U + detail::system_page());
}

TEST(PageSource, GivesEachPieceOnceAndAligned) {
  for (const bool huge_pages : {true, false}) {
    page_source source(huge_pages);
    filler pieces;
    std::size_t given = 0;
    for (std::size_t i = 0; given < 3 * page_source::ordinary; ++i) {
      const std::size_t bytes = i % 3 == 0 ? 65'536 : i % 3 == 1 ? 33'001 : 24;
      void* const piece = source.allocate(bytes);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(piece) % page_source::alignment, 0U);
      pieces.fill(piece, bytes);
      given += bytes;
    }
    EXPECT_TRUE(pieces.all_kept());
    EXPECT_GE(source.bytes(), given);
    EXPECT_LE(source.bytes(), given + given / 6);
  }
}

TEST(PageSource, TakesNoMoreThanIsAskedForAtFirst) {
  page_source source;
  for (std::size_t given = 65'536; given <= page_source::ordinary; given += 65'536) {
    static_cast<void>(source.allocate(65'536));
    ASSERT_EQ(source.bytes(), given);
  }
}

TEST(PageSource, MapsRegionsAfterThat) {
  if (!can_map) {
    GTEST_SKIP() << "this system has no such mapping";
  }
  page_source source;
  for (std::size_t given = 0; given < page_source::ordinary; given += 65'536) {
    static_cast<void>(source.allocate(65'536));
  }
  std::set<std::uintptr_t> regions;
  for (int i = 0; i < 64; ++i) {
    regions.insert(reinterpret_cast<std::uintptr_t>(source.allocate(65'536)) / page_source::region_size);
  }
#if defined(TIMING_WHEEL_HAS_MAPPINGS)  // which huge pages need
  EXPECT_EQ(regions.size(), 2U) << "each at a multiple of its size";
#endif
  EXPECT_EQ(source.bytes(), page_source::ordinary + 2 * page_source::region_size);
}

TEST(PageSource, GivesBackWhatIsReleased) {
  for (const bool huge_pages : {true, false}) {
    const std::size_t before = allocations.live_bytes;
    page_source source(huge_pages);
    std::vector<void*> pieces;
    for (std::size_t given = 0; given < 2 * page_source::ordinary; given += 65'536) {
      pieces.push_back(source.allocate(65'536));
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      source.release(pieces[i * 7 % pieces.size()], 65'536);
    }
    EXPECT_EQ(source.bytes(), 0U);
    EXPECT_FALSE(source.discard_some());
    EXPECT_LE(allocations.live_bytes, before + 65'536) << "but for what it knows of them";
  }
}

TEST(PageSource, DiscardsWhatIsReleasedInARegionThatIsInUse) {
  if (!can_map) {
    GTEST_SKIP() << "this system has no such mapping";
  }
  page_source source;
  std::vector<char*> pieces;
  for (std::size_t given = 0; given < page_source::ordinary + 2 * page_source::region_size; given += 65'536) {
    pieces.push_back(static_cast<char*>(source.allocate(65'536)));
    std::memset(pieces.back(), 7, 65'536);
  }
  const std::size_t full = source.bytes();
  for (std::size_t i = pieces.size() - 64; i < pieces.size(); i += 2) {
    source.release(pieces[i], 65'536);
  }
  EXPECT_EQ(source.bytes(), full) << "not yet";
  EXPECT_TRUE(source.discard_some());
  EXPECT_TRUE(source.discard_some());
  EXPECT_FALSE(source.discard_some());
  EXPECT_EQ(source.bytes(), full - std::size_t{32} * 65'536);
  for (std::size_t i = pieces.size() - 63; i < pieces.size(); i += 2) {
    ASSERT_EQ(pieces[i][0], 7);
    ASSERT_EQ(pieces[i][65'535], 7) << "what is in use is as it was";
  }
  std::set<char*> again;
  for (int i = 0; i < 32; ++i) {
    again.insert(static_cast<char*>(source.allocate(65'536)));
  }
  EXPECT_EQ(again.size(), 32U);
  for (std::size_t i = pieces.size() - 64; i < pieces.size(); i += 2) {
    EXPECT_EQ(again.count(pieces[i]), 1U) << "what was released is used again";
  }
  EXPECT_EQ(source.bytes(), full);
}

TEST(PageSource, IsOfOperatorNewAloneWithoutHugePages) {
  page_source source(false);
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(count_allocations([&] { static_cast<void>(source.allocate(65'536)); }), 1U);
  }
  EXPECT_EQ(source.bytes(), 100U * 65'536);
}

TEST(PageSource, ThatFindsNoneCanBeAskedAgain) {
  page_source source(false);
  bool succeeded = false;
  for (std::uint64_t left = 0; !succeeded; ++left) {
    succeeded = succeeds_with(left, [&] { static_cast<void>(source.allocate(1'000)); });
    EXPECT_TRUE(left > 0 || !succeeded);
  }
  EXPECT_EQ(source.bytes(), 1'024U);
}

}  // namespace
}  // namespace timing_wheel::test
