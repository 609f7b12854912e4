#include "timing_wheel/durable/memory_store.hpp"

#include "durable/support/store_calls.hpp"
#include "support/allocation.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable::test {
namespace {

// It is undone without memory, too.
TEST(MemoryStore, AWriteThatThereIsNoMemoryForHasChangedNothing) {
  manual_timer timer;
  memory_store store(timer);
  const std::string payload(100, 'p');
  const std::vector<append_op> two = put(store, {asked("a", 30min, payload), asked("b", 40min, payload)});
  const request third = asked("c", 50min, payload);
  request other = asked("a", 60min, std::string(100, 'q'));
  other.replace = true;
  const std::function<void(store_transaction&)> work = [&](store_transaction& open) {
    reschedule_op moved{"close", "a", 1min};
    open.reschedule({&moved, 1});
    open.schedule(other);
    open.cancel("close", "b");
    open.schedule(third);
  };
  std::uint64_t left = 0;
  for (; !timing_wheel::test::succeeds_with(left, [&] { store.transact(work); }); ++left) {
    ASSERT_LT(left, 1000U);
    ASSERT_THAT(all_rows(store), SizeIs(2)) << left;
    ASSERT_EQ(store.find("close", "a")->payload, payload);
    ASSERT_EQ(store.find("close", "a")->due, two[0].result.due);
    ASSERT_EQ(store.find("close", "b")->due, two[1].result.due);
  }
  EXPECT_GT(left, 3U);
  EXPECT_THAT(all_rows(store), SizeIs(2));
  EXPECT_FALSE(store.find("close", "b"));
  EXPECT_TRUE(store.find("close", "c"));
}

}  // namespace
}  // namespace timing_wheel::durable::test
