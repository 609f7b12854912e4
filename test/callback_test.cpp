#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

// GCC 12 under the address sanitizer takes the constructor of std::stop_source for a use of what is not initialised.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Le;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::optional<time_point> next_10ms(time_point previous) { return previous + 10ms; }

// ---- What can be called ----

TEST(Callback, IsGivenItsOwnHandle) {
  manual_timer timer;
  timer_handle given;
  const timer_handle made = timer.schedule_after(10ms,
                                                 [&](const timer_handle& self) {
                                                   given = self;
                                                   EXPECT_EQ(self.status(), timer_status::running);
                                                   EXPECT_EQ(self.tag(), 17U);
                                                   EXPECT_EQ(self.deadline(), at(10ms));
                                                   EXPECT_EQ(self.cancel(), cancel_result::running);
                                                 },
                                                 {.tag = 17});
  EXPECT_EQ(timer.advance_by(10ms), 1U);
  EXPECT_EQ(given, made);
  EXPECT_EQ(given.status(), timer_status::finished);
}

TEST(Callback, MayKeepItsHandleBeyondTheService) {
  std::vector<timer_handle> kept;
  {
    manual_timer timer;
    const auto keep = [&](const timer_handle& self) { kept.push_back(self); };
    timer.schedule_after(10ms, keep);
    timer.schedule_at(at(10ms), keep);
    timer.schedule_every(10ms, keep);
    timer.advance_by(10ms);
  }
  ASSERT_THAT(kept, SizeIs(3));
  for (const timer_handle& handle : kept) {
    EXPECT_EQ(handle.status(), timer_status::finished);
    EXPECT_EQ(handle.cancel(), cancel_result::finished);
    EXPECT_FALSE(handle.reschedule_after(1ms));
  }
}

TEST(Callback, MayTakeItsHandleByValue) {
  manual_timer timer;
  timer_handle given;
  const timer_handle made = timer.schedule_after(1ms, [&](timer_handle self) { given = std::move(self); });
  timer.advance_by(1ms);
  EXPECT_EQ(given, made);
}

struct either {
  std::vector<std::string>* calls;
  void operator()() const { calls->push_back("alone"); }
  void operator()(const timer_handle&) const { calls->push_back("with its handle"); }
};

TEST(Callback, IsCalledWithItsHandleIfBothArePossible) {
  manual_timer timer;
  std::vector<std::string> calls;
  std::stop_source stop;
  timer.schedule_after(1ms, either{&calls});
  timer.schedule_every(1ms, either{&calls});
  timer.schedule_with(next_10ms, either{&calls});
  timer.schedule_after(1ms, either{&calls}, {.stop = stop.get_token()});
  timer.schedule_every(1ms, either{&calls}, {.stop = stop.get_token()});
  timer.advance_by(1ms);
  EXPECT_THAT(calls, AllOf(SizeIs(4), Each("with its handle")));
}

int calls_of_a_function = 0;
void function() { ++calls_of_a_function; }
void function_with_handle(const timer_handle& self) { calls_of_a_function += static_cast<int>(self.tag().value()); }
int function_with_result() noexcept { return ++calls_of_a_function; }

TEST(Callback, MayBeAFunctionOrAPointerToOne) {
  calls_of_a_function = 0;
  manual_timer timer;
  timer.schedule_after(1ms, function);
  timer.schedule_after(1ms, &function);
  timer.schedule_after(1ms, function_with_result);
  timer.schedule_after(1ms, function_with_handle, {.tag = 100});
  timer.schedule_every(1ms, function_with_handle, fixed_delay, {.tag = 1000});
  timer.schedule_with(next_10ms, &function);
  timer.advance_by(1ms);
  EXPECT_EQ(calls_of_a_function, 1103);
}

TEST(Callback, MayBeAStdFunction) {
  manual_timer timer;
  int calls = 0;
  const std::function<void()> alone = [&] { ++calls; };
  const std::function<void(const timer_handle&)> with = [&](const timer_handle& self) { calls += self.tag() == 7U; };
  const std::function<std::optional<time_point>(time_point)> rule = next_10ms;
  timer.schedule_after(10ms, alone);
  timer.schedule_after(10ms, with, {.tag = 7});
  timer.schedule_every(10ms, alone);
  timer.schedule_every(10ms, with, fixed_delay, {.tag = 7, .stop = std::stop_token()});
  timer.schedule_with(rule, with, {.tag = 7});
  EXPECT_EQ(timer.advance_by(10ms), 5U);
  EXPECT_EQ(calls, 5);
}

TEST(Callback, LeavesTheOriginalOfACopyAlone) {
  manual_timer timer;
  int calls = 0;
  std::function<void()> original = [&] { ++calls; };
  timer.schedule_after(1ms, original);
  timer.schedule_every(1ms, original);
  timer.schedule_after(1ms, original, {.stop = std::stop_token()});
  ASSERT_TRUE(original);
  original = nullptr;
  timer.advance_by(1ms);
  EXPECT_EQ(calls, 3);
}

TEST(Callback, MayChangeWhatItCaptured) {
  manual_timer timer;
  std::vector<int> seen;
  timer.schedule_every(1ms, [&seen, n = 0]() mutable { seen.push_back(++n); });
  timer.schedule_after(1ms, [&seen, n = 10]() mutable { seen.push_back(++n); }, {.stop = std::stop_token()});
  timer.advance_by(2ms);
  EXPECT_THAT(seen, UnorderedElementsAre(1, 2, 11));
}

/// It calls, but its move may throw as far as the compiler knows.
struct cautious {
  explicit cautious(int& calls) : calls_(&calls) {}
  cautious(cautious&& other) noexcept(false) : calls_(other.calls_) {}
  void operator()() const { ++*calls_; }

 private:
  int* calls_;
};

TEST(Callback, MayHaveAMoveThatCouldThrow) {
  manual_timer timer;
  int calls = 0;
  timer.schedule_after(1ms, cautious(calls));
  timer.schedule_every(1ms, cautious(calls));
  timer.schedule_after(1ms, cautious(calls), {.stop = std::stop_token()});
  timer.schedule_with(next_10ms, cautious(calls));
  timer.advance_by(1ms);
  EXPECT_EQ(calls, 3);
}

TEST(Callback, MayHaveANoexceptCall) {
  manual_timer timer;
  int calls = 0;
  timer.schedule_after(1ms, [&]() noexcept { ++calls; });
  timer.schedule_every(1ms, [&](const timer_handle&) noexcept { ++calls; });
  timer.advance_by(1ms);
  EXPECT_EQ(calls, 2);
}

// ---- What cannot ----

/// Schedules `empty` in every way; each must be refused.
template <class Empty>
void expect_refused_everywhere(Empty empty) {
  manual_timer timer;
  std::stop_source stop;
  std::error_code error;
  const auto code_of = [](auto action) { return refusal_of(action).code; };
  EXPECT_EQ(code_of([&] { timer.schedule_after(1ms, empty); }), timer_errc::empty_callback);
  EXPECT_EQ(code_of([&] { timer.schedule_at(at(1ms), empty); }), timer_errc::empty_callback);
  EXPECT_EQ(code_of([&] { timer.schedule_after(1ms, empty, {.stop = stop.get_token()}); }), timer_errc::empty_callback);
  EXPECT_EQ(code_of([&] { timer.schedule_at(at(1ms), empty, {.stop = stop.get_token()}); }),
            timer_errc::empty_callback);
  EXPECT_EQ(code_of([&] { timer.schedule_every(1ms, empty); }), timer_errc::empty_callback);
  EXPECT_EQ(code_of([&] { timer.schedule_every(1ms, empty, {.stop = stop.get_token()}); }), timer_errc::empty_callback);
  EXPECT_EQ(code_of([&] { timer.schedule_with(next_10ms, empty); }), timer_errc::empty_callback);
  EXPECT_FALSE(timer.schedule_every(1ms, empty, fixed_delay, error));
  EXPECT_EQ(error, timer_errc::empty_callback);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.advance_by(1s), 0U);
  EXPECT_TRUE(stop.request_stop());
}

TEST(Callback, RefusesAnEmptyStdFunctionEverywhere) { expect_refused_everywhere(std::function<void()>()); }

TEST(Callback, RefusesAnEmptyStdFunctionThatTakesTheHandle) {
  expect_refused_everywhere(std::function<void(const timer_handle&)>());
}

TEST(Callback, RefusesANullPointerEverywhere) {
  expect_refused_everywhere(static_cast<void (*)()>(nullptr));
  expect_refused_everywhere(static_cast<void (*)(const timer_handle&)>(nullptr));
}

TEST(Callback, RefusesARuleThatIsEmpty) {
  manual_timer timer;
  using rule = std::optional<time_point>(time_point);
  EXPECT_EQ(refusal_of([&] { timer.schedule_with(std::function<rule>(), nothing); }).code, timer_errc::empty_callback);
  EXPECT_EQ(refusal_of([&] { timer.schedule_with(static_cast<rule*>(nullptr), nothing); }).code,
            timer_errc::empty_callback);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

TEST(Callback, RefusesAnEmptyTask) {
  manual_timer timer;
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, task()); }).code, timer_errc::empty_callback);
  EXPECT_EQ(refusal_of([&] { timer.schedule_every(1ms, task()); }).code, timer_errc::empty_callback);
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, task(), {.stop = std::stop_token()}); }).code,
            timer_errc::empty_callback);
  EXPECT_EQ(timer.pending(), 0U);
}

// ---- Stop tokens ----

TEST(StopToken, CancelsAPendingTimerAndDestroysItsCaptures) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
  EXPECT_EQ(captures.alive(), 1);
  stop.request_stop();
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(timer.stats().cancelled, 1U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(StopToken, CancelsAtOnceIfItWasStoppedBefore) {
  live_captures captures;
  std::stop_source stop;
  stop.request_stop();
  manual_timer timer;
  timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
  timer.schedule_at(at(0ms), [token = captures.make()] {}, {.stop = stop.get_token()});
  timer.schedule_every(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(StopToken, LetsATimerFireUntilItIsStopped) {
  std::stop_source stop;
  manual_timer timer;
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; }, {.stop = stop.get_token()});
  timer.schedule_at(at(1ms), [&] { ++runs; }, {.stop = stop.get_token()});
  timer.schedule_at(std::chrono::system_clock::time_point(1ms), [&] { ++runs; }, {.stop = stop.get_token()});
  EXPECT_EQ(timer.advance_by(1ms), 3U);
  EXPECT_EQ(runs, 3);
}

TEST(StopToken, OfNoSourceNeverCancels) {
  manual_timer timer;
  timer.schedule_after(1ms, nothing, {.stop = std::stop_token()});
  timer.schedule_every(1ms, nothing, {.stop = std::stop_token()});
  EXPECT_EQ(timer.advance_by(2ms), 3U);
}

TEST(StopToken, OfADestroyedSourceNeverCancels) {
  live_captures captures;
  manual_timer timer;
  {
    std::stop_source stop;
    timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
  }
  EXPECT_EQ(captures.alive(), 1);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(StopToken, DoesNothingToATimerThatHasFired) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer;
  timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 0);
  const timer_handle next = timer.schedule_after(1ms, nothing);
  stop.request_stop();
  EXPECT_EQ(next.status(), timer_status::pending);
  EXPECT_EQ(timer.stats().cancelled, 0U);
}

TEST(StopToken, StoppedInTheCallbackLetsThatRunEnd) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer;
  bool ended = false;
  std::int64_t alive = 0;
  const timer_handle handle = timer.schedule_after(1ms,
                                                   [&, token = captures.make()] {
                                                     stop.request_stop();
                                                     alive = captures.alive();
                                                     ended = true;
                                                   },
                                                   {.stop = stop.get_token()});
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_TRUE(ended);
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(timer.stats().cancelled, 0U);
}

TEST(StopToken, StoppedInTheCallbackEndsAPeriodicTimer) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer;
  timer.schedule_every(1ms, [&, token = captures.make()] { stop.request_stop(); }, {.stop = stop.get_token()});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(StopToken, EndsAPeriodicTimerBetweenItsRuns) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer;
  timer.schedule_every(10ms, [token = captures.make()] {}, fixed_rate_skip, {.tag = 5, .stop = stop.get_token()});
  EXPECT_EQ(timer.advance_by(35ms), 3U);
  stop.request_stop();
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(StopToken, StoppedByASiblingThatIsDueToo) {
  std::stop_source stop;
  manual_timer timer;
  timer.schedule_after(1ms, [&] { stop.request_stop(); });
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1ms, nothing, {.stop = stop.get_token()});
  }
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(timer.stats().cancelled, 1000U);
}

TEST(StopToken, MayOutliveTheService) {
  live_captures captures;
  std::stop_source stop;
  {
    manual_timer timer;
    timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
    timer.schedule_every(1ms, [token = captures.make()] {}, {.stop = stop.get_token()});
    timer.advance_by(1ms);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_TRUE(stop.request_stop());
}

TEST(StopToken, DoesNotKeepAReturnedCallableFromBeingCalled) {
  std::stop_source stop;
  int runs = 0;
  std::vector<pending_task> left;
  {
    manual_timer timer;
    timer.schedule_after(1ms, [&] { ++runs; }, {.stop = stop.get_token()});
    timer.schedule_every(1ms, [&] { ++runs; }, {.stop = stop.get_token()});
    left = timer.stop();
  }
  stop.request_stop();
  for (pending_task& one : left) {
    one.callback();
  }
  EXPECT_EQ(runs, 2);
}

TEST(StopToken, OfARefusedTimerDoesNothing) {
  live_captures captures;
  std::stop_source stop;
  manual_timer timer({.max_pending = 1});
  const timer_handle first = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(
      refusal_of([&] { timer.schedule_after(1ms, [token = captures.make()] {}, {.stop = stop.get_token()}); }).code,
      timer_errc::too_many_pending);
  EXPECT_EQ(
      refusal_of([&] { timer.schedule_every(0ms, [token = captures.make()] {}, {.stop = stop.get_token()}); }).code,
      timer_errc::invalid_period);
  EXPECT_EQ(captures.alive(), 0);
  stop.request_stop();
  EXPECT_EQ(first.status(), timer_status::pending);
}

TEST(StopToken, LetsACallbackHaveItsHandle) {
  std::stop_source stop;
  manual_timer timer;
  timer_handle given;
  const timer_handle made =
      timer.schedule_after(1ms, [&](const timer_handle& self) { given = self; }, {.tag = 3, .stop = stop.get_token()});
  EXPECT_EQ(made.tag(), 3U);
  timer.advance_by(1ms);
  EXPECT_EQ(given, made);
}

TEST(StopToken, MayBeStoppedByACaptureThatDies) {
  std::stop_source stop;
  manual_timer timer;
  timer.schedule_after(1ms, [last = on_destruction([&] { stop.request_stop(); })] {}, {.stop = stop.get_token()});
  const timer_handle other = timer.schedule_after(1h, nothing, {.stop = stop.get_token()});
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(other.status(), timer_status::finished);
}

TEST(StopToken, MayBeOwnedByTheCallableItself) {
  live_captures captures;
  manual_timer timer;
  std::stop_source stop;
  std::stop_token token = stop.get_token();
  timer.schedule_every(1ms, [own = std::move(stop), alive = captures.make()]() mutable { own.request_stop(); },
                       {.stop = token});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(StopToken, LeavesNoMemoryBehind) {
  manual_timer timer;
  const auto use = [&timer](bool stopped) {
    std::stop_source stop;
    for (int i = 0; i < 100; ++i) {
      timer.schedule_after(1ms, [large = std::array<char, 100>()] { static_cast<void>(large); },
                           {.stop = stop.get_token()});
      timer.schedule_every(1h, nothing, {.stop = stop.get_token()}).cancel();
    }
    static_cast<void>(stopped && stop.request_stop());
    timer.advance_by(1ms);
  };
  use(true);
  use(false);
  const std::size_t bytes = allocations.live_bytes;
  use(true);
  use(false);
  EXPECT_EQ(allocations.live_bytes, bytes);
}

TEST(StopToken, SchedulingWithoutMemoryLeavesNothingBehind) {
  live_captures captures;
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    std::stop_source stop;
    manual_timer timer;
    enough = succeeds_with(
        left, [&] { timer.schedule_every(1ms, [token = captures.make()] {}, {.stop = stop.get_token()}); });
    EXPECT_EQ(timer.pending(), enough ? 1U : 0U) << left;
    EXPECT_EQ(captures.alive(), enough ? 1 : 0) << left;
    EXPECT_TRUE(conserved(timer));
    stop.request_stop();
    EXPECT_EQ(captures.alive(), 0);
  }
  EXPECT_TRUE(enough);
}

// ---- scoped_timer ----

TEST(ScopedTimer, CancelsWhenItIsDestroyed) {
  live_captures captures;
  manual_timer timer;
  {
    const scoped_timer scoped = timer.schedule_after(1ms, [token = captures.make()] {});
    EXPECT_EQ(scoped->status(), timer_status::pending);
    EXPECT_TRUE(scoped);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().cancelled, 1U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(ScopedTimer, EndsAPeriodicTimer) {
  manual_timer timer;
  {
    const scoped_timer scoped = timer.schedule_every(1ms, nothing);
    EXPECT_EQ(timer.advance_by(3ms), 3U);
  }
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(ScopedTimer, WithoutATimerDoesNothing) {
  scoped_timer empty;
  EXPECT_FALSE(empty);
  scoped_timer other = std::move(empty);
  empty = scoped_timer();
  EXPECT_FALSE(other.release());
}

TEST(ScopedTimer, AMoveTakesTheTimerWithIt) {
  manual_timer timer;
  std::optional<scoped_timer> first = timer.schedule_after(1ms, nothing);
  const timer_handle handle = first->get();
  const scoped_timer second = std::move(*first);
  first.reset();
  EXPECT_EQ(second.get(), handle);
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, AMoveAssignmentCancelsTheOldTimer) {
  live_captures captures;
  manual_timer timer;
  scoped_timer scoped = timer.schedule_after(1ms, [token = captures.make()] {});
  const timer_handle old = scoped.get();
  scoped = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(old.status(), timer_status::finished);
  EXPECT_EQ(scoped->status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, AMoveToItselfKeepsTheTimer) {
  manual_timer timer;
  scoped_timer scoped = timer.schedule_after(1ms, nothing);
  scoped_timer& same = scoped;
  scoped = std::move(same);
  EXPECT_EQ(scoped->status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, ReleaseLetsTheTimerGoOn) {
  manual_timer timer;
  timer_handle handle;
  {
    scoped_timer scoped = timer.schedule_after(1ms, nothing);
    handle = scoped.release();
    EXPECT_FALSE(scoped);
  }
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, MayBeDestroyedInItsOwnCallback) {
  live_captures captures;
  manual_timer timer;
  std::optional<scoped_timer> scoped;
  scoped = timer.schedule_every(1ms, [&, token = captures.make()] { scoped.reset(); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ScopedTimer, MayBeAssignedInItsOwnCallback) {
  manual_timer timer;
  scoped_timer scoped;
  int second_runs = 0;
  scoped = timer.schedule_every(1ms, [&] { scoped = timer.schedule_after(1ms, [&] { ++second_runs; }); });
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_EQ(second_runs, 1);
}

TEST(ScopedTimer, MayBelongToTheCallableOfItsOwnTimer) {
  live_captures captures;
  manual_timer timer;
  const auto owner = std::make_shared<scoped_timer>();
  *owner = timer.schedule_after(1ms, [owner, token = captures.make()] {});
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(ScopedTimer, MayOutliveTheService) {
  scoped_timer scoped;
  {
    manual_timer timer;
    scoped = timer.schedule_every(1ms, nothing);
    timer.advance_by(1ms);
  }
  EXPECT_EQ(scoped->status(), timer_status::finished);
}

TEST(ScopedTimer, IsDestroyedAfterItsTimerWasReturned) {
  manual_timer timer;
  std::vector<pending_task> left;
  int runs = 0;
  {
    const scoped_timer scoped = timer.schedule_after(1ms, [&] { ++runs; });
    left = timer.stop();
  }
  left.at(0).callback();
  EXPECT_EQ(runs, 1);
}

// ---- for_each_pending ----

std::map<std::uint64_t, int> visits_by_tag(const manual_timer& timer) {
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) { ++visits[one.tag]; });
  return visits;
}

TEST(ForEachPending, ShowsHandleDeadlineAndTag) {
  manual_timer timer;
  const timer_handle first = timer.schedule_after(10ms, nothing, {.tag = 1});
  const timer_handle second = timer.schedule_every(20ms, nothing, fixed_delay, {.tag = 2});
  std::map<std::uint64_t, pending_timer> found;
  timer.for_each_pending([&](const pending_timer& one) { found[one.tag] = one; });
  ASSERT_THAT(found, ElementsAre(Key(1U), Key(2U)));
  EXPECT_EQ(found[1].handle, first);
  EXPECT_EQ(found[1].deadline, at(10ms));
  EXPECT_EQ(found[2].handle, second);
  EXPECT_EQ(found[2].deadline, at(20ms));
}

TEST(ForEachPending, VisitsEachOfManyOnce) {
  manual_timer timer;
  constexpr std::uint64_t count = 3000;
  for (std::uint64_t i = 0; i < count; ++i) {
    timer.schedule_after(static_cast<int>(i) * 1s, nothing, {.tag = i});
  }
  const std::map<std::uint64_t, int> visits = visits_by_tag(timer);
  EXPECT_THAT(visits, AllOf(SizeIs(count), Each(Pair(testing::_, 1))));
}

TEST(ForEachPending, VisitsAllHoweverTheyFillAHoldOfTheLock) {
  for (const std::size_t count : {1U, 255U, 256U, 257U, 511U, 512U, 513U}) {
    manual_timer timer;
    for (std::uint64_t i = 0; i < count; ++i) {
      timer.schedule_after(1s, nothing, {.tag = i});
    }
    EXPECT_THAT(visits_by_tag(timer), SizeIs(count));
  }
}

TEST(ForEachPending, VisitsNoneOfAnEmptyOne) {
  manual_timer timer;
  EXPECT_THAT(visits_by_tag(timer), IsEmpty());
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  EXPECT_THAT(visits_by_tag(timer), IsEmpty());
}

TEST(ForEachPending, VisitsTheTimersOfAllShards) {
  constexpr std::uint64_t each = 700;
  manual_timer timer({.shards = 3});
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    std::thread([&timer, worker] {
      for (std::uint64_t i = 0; i < each; ++i) {
        timer.schedule_after(static_cast<int>(i) * 1ms + 1ms, nothing, {.tag = worker * each + i});
      }
    }).join();
  }
  EXPECT_THAT(visits_by_tag(timer), AllOf(SizeIs(3 * each), Each(Pair(testing::_, 1))));
  timer.stop();
  EXPECT_THAT(visits_by_tag(timer), IsEmpty());
}

TEST(ForEachPending, DoesNotShowWhatFiredOrWasCancelled) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    handles.push_back(timer.schedule_after(i % 3 == 0 ? 1ms : 1s, nothing, {.tag = i}));
  }
  for (std::size_t i = 1; i < handles.size(); i += 3) {
    handles[i].cancel();
  }
  timer.advance_by(1ms);
  const std::map<std::uint64_t, int> visits = visits_by_tag(timer);
  EXPECT_THAT(visits, SizeIs(timer.pending()));
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& one) { return one.first % 3 == 2; }));
}

TEST(ForEachPending, DoesNotShowTheOneThatRuns) {
  manual_timer timer;
  std::map<std::uint64_t, int> visits;
  timer.schedule_every(1ms, [&] { visits = visits_by_tag(timer); }, fixed_delay, {.tag = 1});
  timer.schedule_after(1ms, nothing, {.tag = 2});
  timer.schedule_after(1h, nothing, {.tag = 3});
  timer.advance_by(1ms);
  EXPECT_THAT(visits, ElementsAre(Pair(2U, 1), Pair(3U, 1)));
}

TEST(ForEachPending, ShowsTheDeadlineThatARescheduleHasGiven) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  handle.reschedule(at(7h));
  std::vector<time_point> deadlines;
  timer.for_each_pending([&](const pending_timer& one) { deadlines.push_back(one.deadline); });
  EXPECT_THAT(deadlines, ElementsAre(at(7h)));
}

TEST(ForEachPending, LetsTheVisitCancel) {
  live_captures captures;
  manual_timer timer;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    timer.schedule_after(1s, [token = captures.make()] {});
  }
  int cancelled = 0;
  timer.for_each_pending(
      [&](const pending_timer& one) { cancelled += one.handle.cancel() == cancel_result::cancelled; });
  EXPECT_EQ(cancelled, 1500);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(ForEachPending, VisitsAtMostOnceWhenTheVisitCancelsOthers) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    handles.push_back(timer.schedule_after(1s, nothing, {.tag = i}));
  }
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) {
    ++visits[one.tag];
    handles[(one.tag + 750) % 1500].cancel();
  });
  EXPECT_THAT(visits, Each(Pair(testing::_, 1)));
  EXPECT_GE(visits.size(), 750U);
}

TEST(ForEachPending, LetsTheVisitSchedule) {
  manual_timer timer;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    timer.schedule_after(1s, nothing, {.tag = i});
  }
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) {
    ++visits[one.tag];
    if (one.tag < 1000) {
      timer.schedule_after(1s, nothing, {.tag = one.tag + 1000});
    }
  });
  EXPECT_THAT(visits, Each(Pair(testing::_, 1)));
  EXPECT_GE(visits.size(), 1000U);
  EXPECT_EQ(timer.pending(), 2000U);
}

TEST(ForEachPending, EndsThoughEachVisitSchedulesAnother) {
  manual_timer timer;
  timer.schedule_after(1s, nothing);
  std::uint64_t visits = 0;
  const auto visit_and_schedule = [&](const pending_timer&) {
    timer.schedule_after(1s, nothing);
    if (++visits == 10'000) {
      throw std::runtime_error("it does not end");
    }
  };
  EXPECT_NO_THROW(timer.for_each_pending(visit_and_schedule));
}

TEST(ForEachPending, LetsTheVisitStop) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1s, nothing);
  }
  std::size_t returned = 0;
  std::size_t visits = 0;
  timer.for_each_pending([&](const pending_timer& one) {
    returned += timer.stop().size();
    ++visits;
    EXPECT_EQ(one.handle.status(), timer_status::finished);
  });
  EXPECT_EQ(returned, 1000U);
  EXPECT_THAT(visits, AllOf(testing::Ge(1U), Le(1000U)));
}

TEST(ForEachPending, LetsTheVisitAdvance) {
  manual_timer timer;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    timer.schedule_after(static_cast<int>(i + 1) * 1ms, nothing, {.tag = i});
  }
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) { ++visits[one.tag], timer.advance_by(1ms); });
  EXPECT_THAT(visits, Each(Pair(testing::_, 1)));
  EXPECT_TRUE(conserved(timer));
}

TEST(ForEachPending, PassesOnWhatTheVisitThrows) {
  manual_timer timer;
  for (int i = 0; i < 10; ++i) {
    timer.schedule_after(1ms, nothing);
  }
  int visits = 0;
  EXPECT_THROW(timer.for_each_pending([&](const pending_timer&) {
    if (++visits == 3) {
      throw std::runtime_error("asked for");
    }
  }),
               std::runtime_error);
  EXPECT_EQ(visits, 3);
  EXPECT_EQ(timer.stats().failed, 0U);
  EXPECT_EQ(timer.advance_by(1ms), 10U);
}

TEST(ForEachPending, WithoutMemoryChangesNothing) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1ms, nothing);
  }
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    int visits = 0;
    enough = succeeds_with(left, [&] { timer.for_each_pending([&](const pending_timer&) { ++visits; }); });
    EXPECT_THAT(visits, Le(1000));
    EXPECT_EQ(timer.pending(), 1000U);
  }
  EXPECT_TRUE(enough);
  EXPECT_EQ(timer.advance_by(1ms), 1000U);
}

TEST(ForEachPending, HoldsTheLockForFewTimers) {
  manual_timer timer;
  for (int i = 0; i < 3000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  visits_by_tag(timer);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

// ---- on_error ----

struct report {
  std::string what;
  std::uint64_t tag;
  friend bool operator==(const report&, const report&) = default;
};

std::string what_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "not an exception";
  }
}

/// Options whose `on_error` writes into `reports`.
timer_options reporting_to(std::vector<report>& reports) {
  return {.on_error = [&reports](const std::exception_ptr& failure, std::uint64_t tag) {
    reports.push_back({what_of(failure), tag});
  }};
}

TEST(OnError, GetsWhatACallbackThrewWithItsTag) {
  captured_stderr output;
  std::vector<report> reports;
  manual_timer timer(reporting_to(reports));
  timer.schedule_after(1ms, [] { throw std::runtime_error("first"); }, {.tag = 1});
  timer.schedule_after(1ms, nothing, {.tag = 2});
  timer.schedule_every(2ms, [] { throw 42; }, fixed_delay, {.tag = 3});
  EXPECT_EQ(timer.advance_by(4ms), 4U);
  EXPECT_THAT(reports, ElementsAre(report{"first", 1}, report{"not an exception", 3}, report{"not an exception", 3}));
  EXPECT_EQ(timer.stats().failed, 3U);
  EXPECT_THAT(output.text(), IsEmpty());
}

TEST(OnError, GetsWhatARuleThrew) {
  std::vector<report> reports;
  manual_timer timer(reporting_to(reports));
  int asked = 0;
  timer.schedule_with(
      [&](time_point previous) { return ++asked == 1 ? previous + 1ms : throw std::runtime_error("rule"); }, nothing,
      {.tag = 9});
  timer.advance_by(1h);
  EXPECT_THAT(reports, ElementsAre(report{"rule", 9}));
}

TEST(OnError, GetsWhatTheExecutorThrew) {
  std::vector<report> reports;
  timer_options options = reporting_to(reports);
  int refusals = 1;
  options.executor = [&](task&& work) {
    if (refusals-- > 0) {
      throw std::runtime_error("executor");
    }
    work();
  };
  manual_timer timer(options);
  timer.schedule_after(1ms, nothing, {.tag = 11});
  timer.advance_by(10ms);
  EXPECT_THAT(reports, ElementsAre(report{"executor", 11}));
  EXPECT_EQ(timer.stats().fired, 1U);
}

TEST(OnError, MayUseTheService) {
  std::vector<std::size_t> returned;
  manual_timer* service = nullptr;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) {
    service->schedule_after(1ms, nothing);
    returned.push_back(service->stop().size());
  }});
  service = &timer;
  timer.schedule_after(1ms, [] { throw std::runtime_error("asked for"); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_THAT(returned, ElementsAre(1U));
}

TEST(OnError, ThatThrowsLeavesItsServiceAlive) {
  captured_stderr output;
  manual_timer timer(
      {.on_error = [](const std::exception_ptr&, std::uint64_t) { throw std::runtime_error("handler"); }});
  timer.schedule_after(1ms, [] { throw std::runtime_error("original"); });
  timer.schedule_after(2ms, nothing);
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_EQ(timer.stats().failed, 1U);
  EXPECT_THAT(output.text(), HasSubstr("original"));
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t from = text.find(part); from != std::string::npos; from = text.find(part, from + 1)) {
    ++count;
  }
  return count;
}

TEST(OnError, WithoutItEachKindIsWrittenOncePerSecond) {
  captured_stderr output;
  manual_timer timer;
  for (int i = 0; i < 100; ++i) {
    timer.schedule_after(1ms, [] { throw std::runtime_error("kind-A"); });
    timer.schedule_after(500ms, [] { throw std::runtime_error("kind-A"); });
    timer.schedule_after(500ms, [] { throw std::runtime_error("kind-B"); });
    timer.schedule_after(1200ms, [] { throw std::runtime_error("kind-A"); });
  }
  timer.advance_by(3s);
  const std::string text = output.text();
  EXPECT_EQ(occurrences(text, "kind-A"), 2U) << text;
  EXPECT_EQ(occurrences(text, "kind-B"), 1U) << text;
  EXPECT_EQ(timer.stats().failed, 400U);
}

TEST(OnError, WithoutItWhatIsNoExceptionIsWrittenToo) {
  captured_stderr output;
  manual_timer timer;
  timer.schedule_after(1ms, [] { throw 42; });
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_THAT(output.text(), Not(IsEmpty()));
  EXPECT_EQ(timer.stats().failed, 1U);
}

TEST(OnError, WithoutItAThrowingExecutorIsWrittenToo) {
  captured_stderr output;
  bool refuse = true;
  manual_timer timer({.executor = [&](task&& work) { refuse ? throw std::runtime_error("full") : work(); }});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  refuse = false;
  timer.advance_by(10ms);
  EXPECT_THAT(output.text(), HasSubstr("full"));
  EXPECT_EQ(timer.stats().fired, 1U);
}

// ---- timer_error ----

constexpr std::array every_errc{timer_errc::stopped,        timer_errc::too_many_pending, timer_errc::invalid_option,
                                timer_errc::empty_callback, timer_errc::invalid_period,   timer_errc::nested_advance};

TEST(TimerError, EachCodeHasItsOwnMessage) {
  std::map<std::string, timer_errc> messages;
  for (const timer_errc code : every_errc) {
    const std::error_code made = code;
    EXPECT_EQ(made.category(), timer_category());
    EXPECT_EQ(make_error_code(code), made);
    EXPECT_TRUE(made);
    messages[made.message()] = code;
  }
  EXPECT_THAT(messages, SizeIs(every_errc.size()));
  EXPECT_THAT(messages, Not(testing::Contains(Key(""))));
  EXPECT_STREQ(timer_category().name(), "timing_wheel");
}

TEST(TimerError, AnUnknownCodeHasAMessageToo) { EXPECT_FALSE(timer_category().message(12345).empty()); }

TEST(TimerError, IsASystemError) {
  manual_timer timer;
  timer.stop();
  try {
    timer.schedule_after(1ms, nothing);
    FAIL() << "no throw";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), timer_errc::stopped);
    EXPECT_THAT(error.what(), HasSubstr(make_error_code(timer_errc::stopped).message()));
  }
}

TEST(TimerError, TooManyPendingCarriesBothNumbers) {
  manual_timer timer({.max_pending = 4711});
  for (int i = 0; i < 4711; ++i) {
    timer.schedule_every(1ms, nothing);
  }
  const refusal answer = refusal_of([&] { timer.schedule_every(1ms, nothing); });
  EXPECT_EQ(answer.code, timer_errc::too_many_pending);
  EXPECT_EQ(occurrences(answer.message, "4711"), 2U) << answer.message;
}

refusal refusal_of_options(const timer_options& options) {
  return refusal_of([&] { const manual_timer timer(options); });
}

TEST(TimerError, ABadOptionIsNamedWithItsValueAndItsRange) {
  const refusal tick = refusal_of_options({.tick = -7ns});
  EXPECT_EQ(tick.code, timer_errc::invalid_option);
  EXPECT_THAT(tick.message, AllOf(HasSubstr("tick"), HasSubstr("-7"), HasSubstr("1")));
  const refusal size = refusal_of_options({.wheel_size = 20'000'000});
  EXPECT_EQ(size.code, timer_errc::invalid_option);
  EXPECT_THAT(size.message, AllOf(HasSubstr("wheel size"), HasSubstr("20000000"), HasSubstr("2")));
  const refusal sizes = refusal_of_options({.wheel_sizes = {60, 1, 24}});
  EXPECT_EQ(sizes.code, timer_errc::invalid_option);
  EXPECT_THAT(sizes.message, AllOf(HasSubstr("wheel size"), HasSubstr("1"), HasSubstr("2")));
  const refusal shards = refusal_of_options({.shards = 1025});
  EXPECT_EQ(shards.code, timer_errc::invalid_option);
  EXPECT_THAT(shards.message, AllOf(HasSubstr("shards"), HasSubstr("1025"), HasSubstr("1024")));
}

TEST(TimerError, RefusesToAdvanceInACallbackOfEveryKind) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  const auto advance = [&] { codes.push_back(refusal_of([&] { timer.advance_by(1ms); }).code); };
  timer.schedule_after(1ms, advance);
  timer.schedule_every(1ms, advance);
  int left = 2;
  timer.schedule_with(
      [&](time_point previous) {
        left == 1 ? advance() : void();
        return left-- > 0 ? std::optional(previous + 1ms) : std::nullopt;
      },
      nothing);
  timer.advance_by(1ms);
  EXPECT_THAT(codes, AllOf(SizeIs(3), Each(std::error_code(timer_errc::nested_advance))));
}

TEST(TimerError, ACallbackThatStopRunsMayAdvanceSinceNobodyElseDoes) {
  manual_timer timer;
  timer.schedule_after(1ms, [&] { timer.advance_by(5ms); });
  EXPECT_EQ(timer.stop(run_now), 1U);
  EXPECT_EQ(timer.now(), at(5ms));
}

TEST(TimerError, ATaskOfTheExecutorMayAdvanceWhenNobodyElseDoes) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, [&] { timer.advance_by(5ms); });
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(timer.now(), at(6ms));
}

}  // namespace
}  // namespace timing_wheel::test
