#include "timing_wheel/task.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "support/allocation.hpp"

namespace timing_wheel::test {
namespace {

/// How often its copies of whatever generation were called and destroyed.
struct life {
  int calls = 0;
  int alive = 0;
  int destroyed_holding = 0;
};

/// A callable of `Size` bytes that tells about its life. Moved-from ones hold nothing.
template <std::size_t Size, bool ThrowsWhenMoved = false>
class witness {
 public:
  explicit witness(life& l) : life_(&l) {
    ++life_->alive;
    rest_.back() = last;
  }
  witness(witness&& other) noexcept(!ThrowsWhenMoved)
      : life_(std::exchange(other.life_, nullptr)), rest_(other.rest_) {}
  witness(const witness&) = delete;
  ~witness() {
    if (life_ != nullptr) {
      --life_->alive;
      ++life_->destroyed_holding;
    }
  }
  void operator()() { life_->calls += rest_.back() == last ? 1 : 0; }

 private:
  static constexpr std::byte last{71};
  life* life_;
  std::array<std::byte, Size - sizeof(life*)> rest_{};
};

template <class Witness>
void expect_one_life() {
  life l;
  {
    task first{Witness(l)};
    task second(std::move(first));
    task third;
    third = std::move(second);
    EXPECT_FALSE(first);   // NOLINT(bugprone-use-after-move): says what is left
    EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move)
    third();
    third();
    EXPECT_EQ(l.calls, 2);
    EXPECT_EQ(l.alive, 1);
  }
  EXPECT_EQ(l.alive, 0);
  EXPECT_EQ(l.destroyed_holding, 1);
}

template <class F>
std::uint64_t allocations_to_hold(F callable) {
  return count_allocations([&] { const task t(std::move(callable)); });
}

int calls_of_free_function = 0;
void free_function() { ++calls_of_free_function; }

TEST(Task, CallsWhatItWasMadeFrom) {
  calls_of_free_function = 0;
  EXPECT_FALSE(task());
  int calls = 0;
  task with_a_result([&calls] { return ++calls; });
  task by_reference(free_function);
  task by_pointer(&free_function);
  with_a_result();
  with_a_result();
  by_reference();
  by_pointer();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(calls_of_free_function, 2);
}

TEST(Task, NullPointerAndEmptyFunctionGiveAnEmptyTask) {
  void (*null)() = nullptr;
  EXPECT_FALSE(task(null));
  EXPECT_FALSE(task(std::function<void()>()));
  std::function<int()> empty;
  EXPECT_FALSE(task(empty));
}

TEST(Task, FullFunctionIsCalled) {
  int calls = 0;
  std::function<void()> function = [&calls] { ++calls; };
  task t(function);
  ASSERT_TRUE(t);
  t();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(function);
}

TEST(Task, Holds24BytesInsideAndBoxes25) {
  EXPECT_EQ(allocations_to_hold([data = std::array<char, 24>()] { static_cast<void>(data); }), 0U);
  EXPECT_EQ(allocations_to_hold([data = std::array<char, 25>()] { static_cast<void>(data); }), 1U);
}

TEST(Task, HoldsMoveOnlyCapturesInside) {
  int result = 0;
  auto owned = std::make_unique<int>(42);
  task t;
  EXPECT_EQ(count_allocations([&] { t = task([&result, owned = std::move(owned)] { result = *owned; }); }), 0U);
  t();
  EXPECT_EQ(result, 42);
}

TEST(Task, BoxesWhatMayThrowWhenMoved) {
  life l;
  EXPECT_EQ(count_allocations([&] { const task t{witness<16, false>(l)}; }), 0U);
  EXPECT_EQ(count_allocations([&] { const task t{witness<16, true>(l)}; }), 1U);
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<task>);
  EXPECT_TRUE(std::is_nothrow_move_assignable_v<task>);
}

TEST(Task, MovingABoxedOneAllocatesNothing) {
  task t([data = std::array<char, 200>()] { static_cast<void>(data); });
  EXPECT_EQ(count_allocations([&] {
              task other(std::move(t));
              t = std::move(other);
            }),
            0U);
  EXPECT_TRUE(t);
}

TEST(Task, OverAlignedCapturesLieAtTheirAlignment) {
  struct alignas(64) aligned {
    std::array<char, 64> data{};
  };
  bool is_aligned = false;
  task t([&is_aligned, content = aligned()] {
    is_aligned = reinterpret_cast<std::uintptr_t>(&content) % alignof(aligned) == 0;
  });
  task moved(std::move(t));
  moved();
  EXPECT_TRUE(is_aligned);
}

/// Would fit inside by its size.
struct alignas(16) small_and_aligned {
  void operator()() const { at = reinterpret_cast<std::uintptr_t>(this); }
  static inline std::uintptr_t at = 1;
};
static_assert(sizeof(small_and_aligned) <= task::inline_size);

TEST(Task, SmallOverAlignedCapturesLieAtTheirAlignment) {
  struct shifted {
    void* before = nullptr;
    task t{small_and_aligned{}};
  };
  std::array<shifted, 4> tasks;  // 40 bytes each: inside, every other one would be aligned by chance
  for (shifted& one : tasks) {
    one.t();
    EXPECT_EQ(small_and_aligned::at % alignof(small_and_aligned), 0U);
  }
}

TEST(Task, DestroysASmallCallableExactlyOnce) { expect_one_life<witness<24>>(); }
TEST(Task, DestroysALargeCallableExactlyOnce) { expect_one_life<witness<200>>(); }
TEST(Task, DestroysACallableThatMayThrowWhenMovedExactlyOnce) { expect_one_life<witness<16, true>>(); }

TEST(Task, ResetDestroysTheCallableAtOnce) {
  auto shared = std::make_shared<int>(1);
  task t([shared] { static_cast<void>(shared); });
  EXPECT_EQ(shared.use_count(), 2);
  t.reset();
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_FALSE(t);
  t.reset();
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Task, AssignmentDestroysWhatItReplaces) {
  life replaced;
  life replacing;
  task t{witness<24>(replaced)};
  t = task{witness<200>(replacing)};
  EXPECT_EQ(replaced.alive, 0);
  EXPECT_EQ(replacing.alive, 1);
  t = task();
  EXPECT_EQ(replacing.alive, 0);
  EXPECT_FALSE(t);
}

TEST(Task, MovingOntoItselfChangesNothing) {
  life l;
  task t{witness<24>(l)};
  task& same = t;
  t = std::move(same);
  ASSERT_TRUE(t);
  t();
  EXPECT_EQ(l.calls, 1);
  EXPECT_EQ(l.alive, 1);
}

TEST(Task, CopiesAnLvalueCallable) {
  auto shared = std::make_shared<int>(1);
  const auto callable = [shared] { static_cast<void>(shared); };
  const task t(callable);
  EXPECT_EQ(shared.use_count(), 3);
}

TEST(Task, LetsAnExceptionOfTheCallableThrough) {
  task t([] { throw std::runtime_error("from the callable"); });
  EXPECT_THROW(t(), std::runtime_error);
  EXPECT_TRUE(t);
}

/// Throws when it is moved for the `countdown`-th time.
struct move_throws {
  move_throws(int& c, std::shared_ptr<int> s) : countdown(c), shared(std::move(s)) {}
  move_throws(move_throws&& other) : countdown(other.countdown), shared(other.shared) {
    if (--countdown == 0) {
      throw std::runtime_error("from the move");
    }
  }
  void operator()() const {}
  int& countdown;
  std::shared_ptr<int> shared;
};

TEST(Task, MoveThatThrowsLeaksNothing) {
  int countdown = 1;
  const auto shared = std::make_shared<int>(1);
  const std::size_t before = allocations.live_bytes;
  bool thrown = false;
  try {
    const task t{move_throws(countdown, shared)};
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(allocations.live_bytes, before);
}

TEST(Task, BoxThatFindsNoMemoryLeavesTheCallableAlone) {
  auto callable = [owned = std::make_unique<int>(7), data = std::array<char, 100>()] { static_cast<void>(data); };
  EXPECT_FALSE(succeeds_with(0, [&] { const task t(std::move(callable)); }));
  const task later(std::move(callable));  // NOLINT(bugprone-use-after-move): the move did not happen
  EXPECT_TRUE(later);
}

TEST(Task, RefusesAtCompileTimeWhatCannotBeCalledOrMoved) {
  struct immovable {
    immovable(immovable&&) = delete;
    void operator()() const {}
  };
  EXPECT_FALSE((std::is_constructible_v<task, int>));
  EXPECT_FALSE((std::is_constructible_v<task, void (*)(int)>));
  EXPECT_FALSE((std::is_constructible_v<task, immovable>));
  EXPECT_FALSE((std::is_copy_constructible_v<task>));
  EXPECT_EQ(sizeof(task), 32U);
}

}  // namespace
}  // namespace timing_wheel::test
