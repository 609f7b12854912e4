// The rules of the service alone: plain ticks, no clock, no thread. For each row of the table in docs/design.md,
// section 3, there is a row of `MakesATransition`, or a test of its own.

#include "core/timer_core.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/slab.hpp"
#include "support/engines.hpp"

namespace timing_wheel::test {
namespace {

using detail::phase;
using detail::verdict;
using testing::IsEmpty;

constexpr tick present = 100;
constexpr tick ahead = 110;
constexpr tick passed = 90;

constexpr time_point at(tick t) { return time_point(std::chrono::milliseconds(t)); }
constexpr detail::moment moment_of(tick deadline, tick now = present) { return {at(deadline), deadline, now}; }

/// An engine that can be told to have no memory.
template <timer_engine Engine>
class forgetful : public Engine {
 public:
  using Engine::Engine;

  bool insert(timer_number n, tick deadline) {
    throw_without_memory();
    return Engine::insert(n, deadline);
  }
  bool insert(timer_number n, tick deadline, tick window) {
    throw_without_memory();
    return Engine::insert(n, deadline, window);
  }
  void reserve(timer_number n, tick deadline) {
    throw_without_memory();
    Engine::reserve(n, deadline);
  }

  static inline bool has_memory = true;

 private:
  static void throw_without_memory() {
    if (!has_memory) {
      throw std::bad_alloc();
    }
  }
};

/// A core with one timer, which it has brought into a state.
template <timer_engine Engine>
class one_timer {
 public:
  using engine = forgetful<Engine>;

  explicit one_timer(std::string_view wanted, bool recurring = false, std::size_t limit = no_limit) : door_(limit) {
    if (wanted != "free") {
      add(wanted == "waiting" ? passed : ahead, recurring);
    }
    if (wanted == "due" || wanted == "running" || wanted == "offered") {
      collect(ahead);
    }
    if (wanted == "offered") {
      offer();
    }
    if (wanted == "running") {
      core_.claim(id_, at(ahead));
    }
    EXPECT_EQ(state(), wanted == "offered" ? "due" : wanted);
  }
  one_timer(const one_timer&) = delete;
  one_timer& operator=(const one_timer&) = delete;
  ~one_timer() {
    engine::has_memory = true;
    const timer_counts now = counts();
    EXPECT_EQ(now.scheduled, now.fired + now.cancelled + now.returned + now.pending);
  }

  verdict add(tick deadline, bool recurring = false) {
    detail::given source([] {});
    const detail::admitted result = core_.add(moment_of(deadline), source, 7, recurring);
    id_ = result.answer() == verdict::accepted ? result.id() : id_;
    return result.answer();
  }
  bool collect(tick now) {
    batch_.clear();
    return core_.collect(now, batch_).more;
  }
  unsigned offer() { return core_.offer(batch_.begin(), batch_.size()); }
  bool begin(tick now = ahead) { return core_.offered().begin(0, at(now), detail::offers::nowhere); }
  cancel_result cancel() {
    task doomed;
    return core_.cancel(id_, doomed);
  }
  std::vector<pending_task> take() {
    std::vector<pending_task> left;
    left.reserve(1);
    core_.enter(phase::closed);
    timer_number cursor = 0;
    while (core_.remove_pending(cursor, left)) {
    }
    return left;
  }
  void finish(detail::timer_node& node) {
    node.callback.reset();
    core_.finish(id_.number, node);
  }

  /// As in the table. \pre it is the only timer.
  std::string_view state() {
    const timer_status status = core_.has_place(id_.number) ? core_.look(id_).status : timer_status::finished;
    if (status != timer_status::pending) {
      return status == timer_status::running ? "running" : "free";
    }
    if (counts().due != 0) {
      return "due";
    }
    return core_.next_event() == 0 ? "waiting" : "armed";
  }
  timer_counts counts() {
    detail::core_stats all;
    core_.read(all, 0);
    return all.counts;
  }

  detail::timer_core<engine>& core() { return core_; }
  detail::timer_id id() const { return id_; }
  const detail::timer_batch& batch() const { return batch_; }

 private:
  detail::admission door_;
  detail::timer_core<engine> core_{engine_options{}, tick_scale(time_point(), std::chrono::milliseconds(1)), door_};
  detail::timer_id id_;
  detail::timer_batch batch_;
};

constexpr std::string_view pending_states[] = {"armed", "waiting", "due", "offered"};

template <class Engine>
class TimerCore : public testing::Test {};
TYPED_TEST_SUITE(TimerCore, engine_types);

/// What a call makes of a timer in one of these states, and whether it says that it did something.
template <class Engine>
struct transition {
  const char* name;
  std::vector<std::string_view> from;
  std::string_view to;  // none if it stays as it is
  bool done;
  std::function<bool(one_timer<Engine>&)> call;
  bool has_memory = true;
};

TYPED_TEST(TimerCore, MakesATransition) {
  using one = one_timer<TypeParam>;
  const auto claims = [](tick now) { return [now](one& it) { return it.core().claim(it.id(), at(now)) != nullptr; }; };
  const auto collects = [](tick now) {
    return [now](one& it) { return !it.collect(now) && it.batch().size() == 1 && *it.batch().begin() == it.id(); };
  };
  const auto gives_back = [](one& it) {
    it.core().give_back(it.id(), 120, ahead);
    return it.counts().refused == 1;
  };
  const auto rearms = [](tick to) {
    return [to](one& it) { return it.core().rearm(it.id().number, moment_of(to, ahead)); };
  };
  const auto moves = [](tick to, tick now) {
    return [to, now](one& it) { return it.core().reschedule(it.id(), moment_of(to, now)); };
  };
  const std::vector<transition<TypeParam>> rows{
      {"add", {"free"}, "armed", true, [](one& it) { return it.add(ahead) == verdict::accepted; }},
      {"add to the past", {"free"}, "waiting", true, [](one& it) { return it.add(passed) == verdict::accepted; }},
      {"collect", {"armed"}, "due", true, collects(ahead)},
      {"collect too early", {"armed"}, "", false, collects(ahead - 1)},
      {"collect", {"waiting"}, "due", true, collects(present)},
      {"claim", {"due"}, "running", true, claims(ahead)},
      {"claim too early", {"due"}, "", false, claims(ahead - 1)},
      {"claim", {"armed", "waiting", "running"}, "", false, claims(ahead)},
      {"give back", {"due"}, "waiting", true, gives_back, false},
      {"give back", {"armed", "waiting", "running"}, "", false, gives_back},
      {"rearm", {"running"}, "armed", true, rearms(120)},
      {"rearm to the past", {"running"}, "waiting", true, rearms(ahead)},
      {"rearm", {"running"}, "waiting", true, rearms(120), false},
      {"cancel, rearm", {"running"}, "", false, [&](one& it) { return it.cancel(), rearms(120)(it); }},
      {"drain, rearm",
       {"running"},
       "",
       false,
       [&](one& it) { return it.core().enter(phase::draining), rearms(120)(it); }},
      {"move to the past", {"armed", "waiting"}, "waiting", true, moves(passed, present)},
      {"move to the past", {"due"}, "", true, moves(passed, ahead)},
      {"move to the past",
       {"offered"},
       "waiting",
       true,
       [&](one& it) { return moves(passed, ahead)(it) && !it.begin(); }},
      {"move to the past, claim",
       {"due"},
       "running",
       true,
       [&](one& it) { return moves(passed, ahead)(it) && claims(ahead)(it); }},
      {"move", {"running"}, "", false, moves(200, ahead)},
      {"take", {"running"}, "", false, [](one& it) { return !it.take().empty(); }},
      {"cancel, offer, begin", {"due"}, "free", false, [](one& it) { return it.cancel(), it.offer(), it.begin(); }},
  };
  for (const transition<TypeParam>& row : rows) {
    for (const std::string_view from : row.from) {
      SCOPED_TRACE(std::string(row.name) + " of one that is " + std::string(from));
      one it(from, true);
      const timer_counts before = it.counts();
      forgetful<TypeParam>::has_memory = row.has_memory;
      EXPECT_EQ(row.call(it), row.done);
      EXPECT_EQ(it.state(), row.to.empty() ? from : row.to);
      const bool runs = row.to == "running";
      EXPECT_EQ(it.counts().fired - before.fired, runs ? 1U : 0U);
      EXPECT_EQ(it.counts().rearmed, row.done && from == "running" ? 1U : 0U);
    }
  }
}

// ---- A timer comes ----

TYPED_TEST(TimerCore, AnAddAboveTheLimitIsRefusedUntilOneLeaves) {
  one_timer<TypeParam> it("armed", false, 1);
  EXPECT_EQ(it.add(ahead), verdict::too_many);
  EXPECT_EQ(it.counts().rejected, 1U);
  it.cancel();
  EXPECT_EQ(it.add(ahead), verdict::accepted);
}

TYPED_TEST(TimerCore, AnAddWithoutMemoryLeavesNothingBehind) {
  one_timer<TypeParam> it("free", false, 1);
  forgetful<TypeParam>::has_memory = false;
  EXPECT_THROW(it.add(ahead), std::bad_alloc);
  EXPECT_EQ(it.counts().scheduled, 0U);
  forgetful<TypeParam>::has_memory = true;
  EXPECT_EQ(it.add(ahead), verdict::accepted) << "the limit of one has room again";
}

// ---- It becomes due ----

TYPED_TEST(TimerCore, ACollectArmsATimerThatWaitedForMemory) {
  one_timer<TypeParam> it("running", true);
  forgetful<TypeParam>::has_memory = false;
  ASSERT_TRUE(it.core().rearm(it.id().number, moment_of(200, ahead)));
  ASSERT_EQ(it.state(), "waiting");
  EXPECT_THROW(it.collect(ahead), std::bad_alloc);
  forgetful<TypeParam>::has_memory = true;
  it.collect(ahead);
  EXPECT_EQ(it.state(), "armed");
  EXPECT_THAT(it.batch(), IsEmpty());
}

// ---- It runs ----

TYPED_TEST(TimerCore, AClaimMadeAgainRunsADueTimerWhateverTheTime) {
  one_timer<TypeParam> late("due");
  EXPECT_NE(late.core().claim_again(late.id(), at(ahead)), nullptr);
  EXPECT_EQ(late.counts().early, 0U);
  one_timer<TypeParam> early("due");
  EXPECT_NE(early.core().claim_again(early.id(), at(ahead - 1)), nullptr);
  EXPECT_EQ(early.state(), "running");
  EXPECT_EQ(early.counts().early, 1U);
}

TYPED_TEST(TimerCore, AClaimNowRunsAPendingTimer) {
  for (const std::string_view from : pending_states) {
    one_timer<TypeParam> it(from);
    EXPECT_NE(it.core().claim_now(it.id(), at(present)), nullptr) << from;
    EXPECT_EQ(it.state(), "running") << from;
    EXPECT_EQ(it.counts().due, 0U) << from;
    EXPECT_EQ(it.counts().early, 0U) << from;
  }
}

TYPED_TEST(TimerCore, AFinishFreesARunningTimer) {
  one_timer<TypeParam> it("due");
  detail::timer_node* const node = it.core().claim(it.id(), at(ahead));
  ASSERT_NE(node, nullptr);
  it.finish(*node);
  EXPECT_EQ(it.state(), "free");
  EXPECT_EQ(it.counts().running, 0U);
}

// ---- It is offered, and runs without the lock ----

TYPED_TEST(TimerCore, AnOfferedTimerIsDueUntilTheDriverBeginsIt) {
  one_timer<TypeParam> it("offered");
  EXPECT_EQ(it.counts().fired, 0U);
  EXPECT_TRUE(it.begin());
  EXPECT_EQ(it.state(), "running");
  EXPECT_EQ(it.counts().fired, 1U);
  EXPECT_EQ(it.counts().due, 0U);
  EXPECT_EQ(it.core().pending(), 0U);
  EXPECT_EQ(it.core().running(), 1U);
}

TYPED_TEST(TimerCore, ARunThatHasEndedInTheWindowIsOverForWhoeverLooks) {
  for (const std::string_view look : {"look", "cancel", "reschedule", "claim_now", "running", "settle"}) {
    one_timer<TypeParam> it("offered");
    ASSERT_TRUE(it.begin());
    it.core().offered().end(0);
    if (look == "look") {
      EXPECT_EQ(it.core().look(it.id()).status, timer_status::finished);
    } else if (look == "cancel") {
      EXPECT_EQ(it.cancel(), cancel_result::finished);
    } else if (look == "reschedule") {
      EXPECT_FALSE(it.core().reschedule(it.id(), moment_of(200, ahead)));
    } else if (look == "claim_now") {
      EXPECT_EQ(it.core().claim_now(it.id(), at(ahead)), nullptr);
    } else if (look == "settle") {
      it.core().settle();
    }
    EXPECT_EQ(it.core().running(), 0U) << look;
    EXPECT_EQ(it.state(), "free") << look;
  }
}

TYPED_TEST(TimerCore, ACancelOfARunInTheWindowSaysRunningAndARearmIsRefused) {
  one_timer<TypeParam> it("offered", true);
  ASSERT_TRUE(it.begin());
  EXPECT_EQ(it.cancel(), cancel_result::running);
  EXPECT_FALSE(it.core().rearm(it.id().number, moment_of(200, ahead)));
  it.core().offered().end(0);
  EXPECT_EQ(it.state(), "free");
}

TYPED_TEST(TimerCore, ARearmAfterARunInTheWindowArmsTheSameTimer) {
  one_timer<TypeParam> it("offered", true);
  ASSERT_TRUE(it.begin());
  EXPECT_TRUE(it.core().rearm(it.id().number, moment_of(120, ahead)));
  EXPECT_EQ(it.state(), "armed");
  EXPECT_EQ(it.counts().fired, 1U);
  it.collect(120);
  EXPECT_EQ(it.offer(), 1U);
  EXPECT_TRUE(it.begin(120));
  EXPECT_EQ(it.counts().fired, 2U);
}

TYPED_TEST(TimerCore, ABeginBeforeTheDeadlineCountsAsEarly) {
  one_timer<TypeParam> it("offered");
  EXPECT_TRUE(it.begin(ahead - 1)) << "the clock has stepped back";
  EXPECT_EQ(it.counts().early, 1U);
}

TYPED_TEST(TimerCore, AClosedServiceWithdrawsWhatItHasOffered) {
  one_timer<TypeParam> it("offered");
  it.core().enter(phase::closed);
  EXPECT_FALSE(it.begin());
  EXPECT_EQ(it.take().size(), 1U);
}

TYPED_TEST(TimerCore, AClosedServiceOffersNothing) {
  one_timer<TypeParam> it("due");
  it.core().enter(phase::closed);
  EXPECT_EQ(it.offer(), 1U);
  EXPECT_FALSE(it.begin());
}

TYPED_TEST(TimerCore, ARunInTheWindowLeavesTheLimitAsItBeginsUnlessItIsPeriodic) {
  for (const bool periodic : {false, true}) {
    one_timer<TypeParam> it("offered", periodic, 1);
    ASSERT_TRUE(it.begin());
    it.core().leave_by_itself(it.core().offered().node_of(0));
    EXPECT_EQ(it.add(200), periodic ? verdict::too_many : verdict::accepted) << periodic;
  }
}

// ---- The executor refuses it ----

TYPED_TEST(TimerCore, AGiveBackArmsADueTimerForLater) {
  one_timer<TypeParam> it("due");
  it.core().give_back(it.id(), 120, ahead);
  EXPECT_EQ(it.state(), "armed");
  EXPECT_EQ(it.counts().refused, 1U);
  it.collect(119);
  EXPECT_EQ(it.state(), "armed");
  it.collect(120);
  EXPECT_EQ(it.state(), "due");
}

// ---- It is periodic ----

TYPED_TEST(TimerCore, APeriodicTimerKeepsItsPlaceUnderTheLimitUntilItFinishes) {
  one_timer<TypeParam> it("due", true, 1);
  detail::timer_node* const node = it.core().claim(it.id(), at(ahead));
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(it.add(ahead), verdict::too_many);
  it.finish(*node);
  EXPECT_EQ(it.add(200), verdict::accepted);
}

// ---- It is moved ----

TYPED_TEST(TimerCore, ARescheduleAheadArmsAPendingTimer) {
  for (const std::string_view from : pending_states) {
    one_timer<TypeParam> it(from);
    EXPECT_TRUE(it.core().reschedule(it.id(), moment_of(200, ahead))) << from;
    EXPECT_EQ(it.state(), "armed") << from;
    EXPECT_EQ(it.core().look(it.id()).deadline, at(200)) << from;
    it.collect(199);
    EXPECT_EQ(it.state(), "armed") << from;
  }
}

TYPED_TEST(TimerCore, ARescheduleWithoutMemoryChangesNothing) {
  for (const std::string_view from : pending_states) {
    one_timer<TypeParam> it(from);
    const time_point before = it.core().look(it.id()).deadline;
    forgetful<TypeParam>::has_memory = false;
    EXPECT_THROW(it.core().reschedule(it.id(), moment_of(200, ahead)), std::bad_alloc) << from;
    EXPECT_EQ(it.state(), from == "offered" ? "waiting" : from) << "what is withdrawn waits";
    EXPECT_EQ(it.core().look(it.id()).deadline, before) << from;
    forgetful<TypeParam>::has_memory = true;
    it.collect(ahead);
    EXPECT_EQ(it.state(), "due") << "the engine has lost it; " << from;
  }
}

// ---- It ends without a run ----

TYPED_TEST(TimerCore, ACancelFreesAPendingTimer) {
  for (const std::string_view from : pending_states) {
    one_timer<TypeParam> it(from);
    EXPECT_EQ(it.cancel(), cancel_result::cancelled) << from;
    EXPECT_EQ(it.state(), "free") << from;
    EXPECT_EQ(it.cancel(), cancel_result::finished) << from;
    EXPECT_EQ(it.core().claim_again(it.id(), at(ahead)), nullptr) << "its batch may still have its id; " << from;
  }
}

TYPED_TEST(TimerCore, ATakeFreesAPendingTimer) {
  for (const std::string_view from : pending_states) {
    one_timer<TypeParam> it(from);
    const std::vector<pending_task> left = it.take();
    ASSERT_EQ(left.size(), 1U) << from;
    EXPECT_EQ(left.front().tag, 7U) << from;
    EXPECT_TRUE(left.front().callback) << from;
    EXPECT_EQ(it.state(), "free") << from;
  }
}

// ---- The service ends ----

TYPED_TEST(TimerCore, TakesNoTimerOnceItDrainsAndBeginsNoRunOnceItIsClosed) {
  one_timer<TypeParam> it("due");
  it.core().enter(phase::draining);
  EXPECT_EQ(it.add(ahead), verdict::stopped);
  EXPECT_FALSE(it.core().is_drained());
  it.core().enter(phase::closed);
  EXPECT_EQ(it.core().claim(it.id(), at(ahead)), nullptr);
  EXPECT_EQ(it.core().claim_again(it.id(), at(ahead)), nullptr);
  EXPECT_EQ(it.core().claim_now(it.id(), at(ahead)), nullptr);
  EXPECT_TRUE(it.core().is_drained());
}

TYPED_TEST(TimerCore, IsDrainedWhenTheLastPendingTimerHasBegun) {
  one_timer<TypeParam> due("due");
  due.core().enter(phase::draining);
  EXPECT_FALSE(due.core().is_drained());
  due.core().claim(due.id(), at(ahead));
  EXPECT_TRUE(due.core().is_drained());
  one_timer<TypeParam> offered("offered");
  offered.core().enter(phase::draining);
  EXPECT_FALSE(offered.core().is_drained());
  EXPECT_TRUE(offered.begin());
  EXPECT_TRUE(offered.core().is_drained());
}

TYPED_TEST(TimerCore, NeverGoesBackToAnEarlierPhase) {
  one_timer<TypeParam> it("armed");
  it.core().enter(phase::closed);
  it.core().enter(phase::draining);
  EXPECT_TRUE(it.core().is_drained());
}

// ---- Bounded holds ----

TYPED_TEST(TimerCore, ABatchHasAtMostWhatOneHoldMayHandle) {
  one_timer<TypeParam> it("free");
  for (std::size_t i = 0; i < 2 * max_timers_per_lock; ++i) {
    it.add(i % 2 == 0 ? passed : ahead);
  }
  EXPECT_TRUE(it.collect(ahead));
  EXPECT_EQ(it.batch().size(), max_timers_per_lock);
  EXPECT_EQ(it.counts().largest_hold, max_timers_per_lock);
  it.collect(ahead);
  EXPECT_EQ(it.batch().size(), max_timers_per_lock);
  EXPECT_EQ(it.counts().due, 2 * max_timers_per_lock);
}

}  // namespace
}  // namespace timing_wheel::test
