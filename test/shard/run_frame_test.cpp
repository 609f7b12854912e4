#include "shard/run_frame.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

#include "shard/shards.hpp"

namespace timing_wheel::test {
namespace {

using detail::doing;
using detail::run_frame;
using detail::timer_id;

class shard_of_nothing final : public detail::timer_owner {
 public:
  explicit shard_of_nothing(bool& gone) : gone_(gone) {}
  ~shard_of_nothing() override { gone_ = true; }

  cancel_result cancel(timer_id /*id*/) noexcept override { return cancel_result::finished; }
  cancel_result cancel_and_wait(timer_id /*id*/) noexcept override { return cancel_result::finished; }
  std::size_t cancel_some(std::span<const detail::timer_id> /*ids*/) noexcept override { return 0; }
  bool reschedule(timer_id /*id*/, time_point /*deadline*/) override { return false; }
  detail::timer_view look(timer_id /*id*/) noexcept override { return {}; }
  time_point now() const noexcept override { return {}; }
  time_point from_wall(detail::wall_time /*deadline*/) const noexcept override { return {}; }
  std::uint64_t key_of(timer_id /*id*/) const noexcept override { return 0; }
  std::uint32_t index() const noexcept override { return 0; }

 private:
  bool& gone_;
};

class RunFrame : public testing::Test {
 protected:
  ~RunFrame() override {
    one_->drop_references(1);
    other_->drop_references(1);
  }

  bool gone_ = false;
  detail::timer_owner* one_ = new shard_of_nothing(gone_);
  detail::timer_owner* other_ = new shard_of_nothing(gone_);
  const int service_ = 0;  // only its address counts
  const int another_service_ = 0;
  const timer_id id_{3, 1};
};

TEST_F(RunFrame, OutsideOfAllFramesNothingIsBeingDone) {
  EXPECT_FALSE(run_frame::is_called_by(&service_));
  EXPECT_FALSE(run_frame::is_in(one_, id_));
  EXPECT_FALSE(run_frame::is_in(&service_, doing::drain));
}

TEST_F(RunFrame, SaysWhichTimerRunsUntilItEnds) {
  {
    const run_frame frame(&service_, one_, id_);
    EXPECT_TRUE(run_frame::is_in(one_, id_));
    EXPECT_TRUE(run_frame::is_called_by(&service_));
  }
  EXPECT_FALSE(run_frame::is_in(one_, id_));
  EXPECT_FALSE(run_frame::is_called_by(&service_));
}

TEST_F(RunFrame, OfATimerIsNotThatOfAnotherTimerPlaceOrShard) {
  const run_frame frame(&service_, one_, id_);
  EXPECT_FALSE(run_frame::is_in(one_, timer_id{4, 1}));
  EXPECT_FALSE(run_frame::is_in(one_, timer_id{3, 2})) << "the next timer in that place";
  EXPECT_FALSE(run_frame::is_in(other_, id_));
}

TEST_F(RunFrame, OfABatchIsThatOfOneTimerAfterAnother) {
  run_frame frame(&service_, one_);
  EXPECT_FALSE(run_frame::is_in(one_, id_));
  frame.next(id_);
  EXPECT_TRUE(run_frame::is_in(one_, id_));
  frame.next({4, 1});
  EXPECT_FALSE(run_frame::is_in(one_, id_));
  EXPECT_TRUE(run_frame::is_in(one_, timer_id{4, 1}));
}

TEST_F(RunFrame, InAnotherLeavesTheOuterOneInSight) {
  const run_frame outer(&service_, one_, id_);
  {
    const run_frame inner(&service_, one_, timer_id{4, 1});
    EXPECT_TRUE(run_frame::is_in(one_, id_));
    EXPECT_TRUE(run_frame::is_in(one_, timer_id{4, 1}));
  }
  EXPECT_TRUE(run_frame::is_in(one_, id_));
  EXPECT_FALSE(run_frame::is_in(one_, timer_id{4, 1}));
}

TEST_F(RunFrame, OfOneServiceIsNotThatOfAnother) {
  const run_frame outer(&service_, one_, id_);
  EXPECT_FALSE(run_frame::is_called_by(&another_service_));
  const run_frame inner(&another_service_, other_, id_);
  EXPECT_TRUE(run_frame::is_called_by(&service_));
  EXPECT_TRUE(run_frame::is_called_by(&another_service_));
}

TEST_F(RunFrame, OfAnExecutorCountsAsACall) {
  const run_frame frame(&service_, doing::hand_over);
  EXPECT_TRUE(run_frame::is_called_by(&service_));
  EXPECT_TRUE(run_frame::is_in(&service_, doing::hand_over));
}

TEST_F(RunFrame, OfAStopIsNoCall) {
  const run_frame draining(&service_, doing::drain);
  const run_frame running(&service_, doing::run_now);
  EXPECT_FALSE(run_frame::is_called_by(&service_)) << "the user has called it, not the service";
  EXPECT_TRUE(run_frame::is_in(&service_, doing::drain));
  EXPECT_TRUE(run_frame::is_in(&service_, doing::run_now));
  EXPECT_FALSE(run_frame::is_in(&another_service_, doing::drain));
}

TEST_F(RunFrame, OfOneThreadIsNotSeenByAnother) {
  const run_frame frame(&service_, one_, id_);
  std::atomic<bool> seen{true};
  std::thread([&] { seen = run_frame::is_in(one_, id_) || run_frame::is_called_by(&service_); }).join();
  EXPECT_FALSE(seen);
}

TEST_F(RunFrame, ABorrowedHandleCountsNoReference) {
  auto* const owner = new shard_of_nothing(gone_);
  {
    const detail::borrowed_handle handle(owner, id_);
    EXPECT_EQ(handle.get().status(), timer_status::finished);
  }
  EXPECT_FALSE(gone_);
  owner->drop_references(1);
  EXPECT_TRUE(gone_) << "the first reference was the last";
}

}  // namespace
}  // namespace timing_wheel::test
