#include "durable/node/machine.hpp"

#include <array>
#include <optional>

#include "durable/support/store_calls.hpp"
#include "support/allocation.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr instant zero{1'000'000s};
constexpr allowance anything{.rows = 1000};

// A machine that is told everything by hand.
class Machine : public testing::Test {
 protected:
  explicit Machine(std::size_t max_known = 80)
      : options_{.look_ahead = 1s,
                 .poll = 250ms,
                 .lease = 30s,
                 .batch = 10,
                 .max_claimed = 15,
                 .max_claimed_bytes = 1000,
                 .max_known = max_known},
        machine_(options_, kinds(), zero, 1) {}

  static std::vector<kind_rules> kinds(const handler_options& leased = {}) {
    return {{"leased", false, leased}, {"transactional", true, {}}};
  }
  static upcoming row(std::int64_t id, microseconds due, instant lease = {}, std::uint32_t kind = 0) {
    return {id, zero + due, lease, kind};
  }
  // Those of the first kind with the ids from `first` to `last`, each `step` after the one before.
  static std::vector<upcoming> rows_of(std::int64_t first, std::int64_t last, microseconds due,
                                       microseconds step = 0us) {
    std::vector<upcoming> some;
    for (std::int64_t id = first; id <= last; ++id) {
      some.push_back(row(id, due + id * step));
    }
    return some;
  }
  static std::vector<std::int64_t> ids_of(const std::vector<upcoming>& some) {
    std::vector<std::int64_t> ids;
    for (const upcoming& one : some) {
      ids.push_back(one.id);
    }
    return ids;
  }
  static claimed got(const upcoming& asked, std::int64_t fence = 1, int attempt = 1) {
    return {asked.id, fence, asked.kind, attempt, asked.due, "key", std::string(asked.size, '.')};
  }
  static std::vector<claimed> got_all(const std::vector<upcoming>& asked) {
    std::vector<claimed> all;
    for (const upcoming& one : asked) {
      all.push_back(got(one));
    }
    return all;
  }
  // Answers every read with what of `rows` lies in it.
  std::size_t read(microseconds now, const std::vector<upcoming>& rows) {
    std::size_t pages = 0;
    while (const std::optional<read_range> page = machine_.next_read(zero + now)) {
      std::vector<upcoming> found;
      for (upcoming one : rows) {
        const auto kind = std::find(page->kinds.begin(), page->kinds.end(), machine_.kinds()[one.kind].name);
        if (kind == page->kinds.end()) {
          continue;
        }
        one.kind = static_cast<std::uint32_t>(kind - page->kinds.begin());
        const bool after = one.due > page->from || (one.due == page->from && one.id > page->after_id);
        if (after && one.due < page->until && found.size() < page->limit) {
          found.push_back(one);
        }
      }
      machine_.has_read(*page, found, zero + now);
      EXPECT_LT(++pages, 1000U);
    }
    machine_.advance(zero + now);
    EXPECT_TRUE(machine_.invariants_hold());
    return pages;
  }
  std::vector<std::int64_t> ask() {
    asked_ = machine_.to_claim(anything);
    return ids_of(asked_);
  }
  // The n-th look after the first: it finds nothing. \returns its window.
  read_range look(int number) {
    const instant now = zero + number * 250ms;
    machine_.advance(now);
    read_range page = machine_.next_read(now).value();
    machine_.has_read(page, {}, now);
    EXPECT_FALSE(machine_.next_read(now).has_value());
    return page;
  }
  // Claims what is ready; all of it is got.
  std::vector<std::int64_t> claim(microseconds now) {
    std::vector<std::int64_t> ids = ask();
    machine_.has_claimed(asked_, got_all(asked_), zero + now);
    return ids;
  }

  // It is given back at the start, which is written. \returns what was.
  ends_to_write give_back(std::int64_t id, microseconds pause) {
    machine_.given_back(id, zero, pause);
    ends_to_write ends = machine_.to_end(10);
    EXPECT_EQ(ends.size(), 1U);
    ends.give_back.at(0).of.still_ours = true;
    machine_.has_ended(ends, zero);
    return ends;
  }

  // Until so many are known.
  void work_off(std::size_t known, microseconds now) {
    while (machine_.known() > known) {
      for (const std::int64_t id : claim(now)) {
        machine_.ended(id, {});
      }
      ends_to_write ends = machine_.to_end(machine_.known() - known);
      ASSERT_GT(ends.size(), 0U);
      std::ranges::for_each(ends.complete, [](ticket& of) { of.still_ours = true; });
      machine_.has_ended(ends, zero + now);
    }
  }
  // Of two kinds, the rest of the second; it takes a second, and not until the next sweep.
  void work_off_a_backlog(std::int64_t of_the_first) {
    std::vector<upcoming> rows = rows_of(1, 1000, -1h, 1us);
    std::for_each(rows.begin() + of_the_first, rows.end(), [](upcoming& one) { one.kind = 1; });
    std::set<std::int64_t> seen;
    for (auto now = 0us; !rows.empty() && now < 1s; now += 1ms) {
      read(now, rows);
      EXPECT_LE(machine_.known(), options_.max_known);
      for (const std::int64_t id : claim(now)) {
        machine_.ended(id, {});
        seen.insert(id);
      }
      machine_.has_ended(machine_.to_end(1000), zero + now);
      const std::vector<upcoming> taken = machine_.to_consume(10);
      std::ranges::copy(ids_of(taken), std::inserter(seen, seen.end()));
      machine_.has_consumed(taken, got_all(taken), zero + now);
      std::erase_if(rows, [&](const upcoming& one) { return seen.contains(one.id); });
    }
    EXPECT_EQ(seen.size(), 1000U);
  }

  scheduler_options options_;
  machine machine_;
  std::vector<upcoming> asked_;
};

TEST_F(Machine, ReadsFromTheBeginningFirstAndTheLookAheadAtEachPoll) {
  const read_range first = machine_.next_read(zero).value();
  EXPECT_EQ(first.from, instant::min());
  EXPECT_EQ(first.until, zero + 1s);
  machine_.has_read(first, {}, zero);
  EXPECT_FALSE(machine_.next_read(zero + 249ms).has_value());
  EXPECT_EQ(machine_.next_event(zero), zero + 250ms);
  const read_range second = machine_.next_read(zero + 250ms).value();
  EXPECT_EQ(second.from, zero - 1s);
  EXPECT_EQ(second.until, zero + 1250ms);
}

TEST_F(Machine, AfterAStopReadsWhatWasCommittedSinceItsLastPass) {
  read(0s, {});
  machine_.advance(zero + 10s);
  EXPECT_EQ(machine_.next_read(zero + 10s)->from, zero - 1s) << "due by then, and committed just after that pass";
}

TEST_F(Machine, SweepsFromTheBeginningEveryHalfMinute) {
  read(0s, {});
  EXPECT_GT(machine_.next_read(zero + 29s)->from, instant::min());
  machine_.has_read({.limit = 1}, {}, zero + 29s);
  EXPECT_EQ(machine_.next_read(zero + 30s)->from, instant::min());
}

TEST_F(Machine, ASecondBackIsReadWithAShorterLookAheadToo) {
  options_.look_ahead = 200ms;
  machine brief(options_, kinds(), zero, 1);
  brief.has_read(brief.next_read(zero).value(), {}, zero);
  EXPECT_EQ(brief.next_read(zero + 250ms)->from, zero - 1s);
}

TEST_F(Machine, APageIsShortWhileSomethingIsDueOrSoonWillBeButNotInABacklog) {
  options_.max_known = 20'000;
  machine large(options_, kinds(), zero, 1);
  const auto limit = [&](std::chrono::milliseconds now) {
    large.advance(zero + now);
    const read_range page = large.next_read(zero + now).value();
    large.has_read(page, {}, zero + now);
    return page.limit;
  };
  EXPECT_EQ(limit(0ms), 2000U);
  large.expect(row(1, 760ms), zero + 500ms);
  EXPECT_EQ(limit(500ms), 2000U);
  EXPECT_EQ(limit(750ms), 200U) << "due in 10 ms";
  EXPECT_EQ(limit(1s), 200U);
  for (std::int64_t id = 2; id <= 10; ++id) {
    large.expect(row(id, 0s), zero + 1s);
  }
  EXPECT_EQ(limit(1250ms), 2000U) << "a batch";
}

TEST_F(Machine, ARangeWithoutKindsBringsNoRow) {
  const std::vector<std::string> all = {"leased", "transactional"};
  read(0s, {});
  machine_.has_paused(all, zero);
  const read_range page = machine_.next_read(zero + 250ms).value();
  ASSERT_THAT(page.kinds, IsEmpty());
  machine_.has_read(page, std::vector<upcoming>{row(1, 0s)}, zero + 250ms);
  EXPECT_EQ(machine_.known(), 0U);
}

TEST_F(Machine, OfAPausedKindNothingIsReadKnownOrAsked) {
  const std::vector<upcoming> rows = {row(1, -1s), row(2, 500ms), row(3, -1s, {}, 1)};
  read(0us, rows);
  EXPECT_EQ(machine_.known(), 3U);
  const std::vector<std::string> leased = {"leased"};
  machine_.has_paused(leased, zero);
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_EQ(machine_.known(), 1U);
  EXPECT_THAT(ask(), IsEmpty());
  machine_.expect(row(4, 100ms), zero, {});
  EXPECT_EQ(machine_.known(), 1U);
  EXPECT_EQ(read(250ms, rows), 1U);
  EXPECT_EQ(machine_.known(), 1U);
  const std::vector<std::string> both = {"leased", "transactional"};
  machine_.has_paused(both, zero + 250ms);
  EXPECT_EQ(machine_.known(), 0U);
  EXPECT_EQ(read(500ms, rows), 1U) << "it asks what is paused";
  EXPECT_EQ(machine_.next_event(zero + 500ms), zero + 750ms);
  machine_.has_paused(leased, zero + 510ms);
  EXPECT_EQ(machine_.next_event(zero + 510ms), zero + 510ms) << "what is resumed is read at once";
  read(510ms, rows);
  EXPECT_EQ(machine_.known(), 1U);
  machine_.has_paused({}, zero + 520ms);
  read(520ms, rows);
  EXPECT_THAT(ask(), testing::UnorderedElementsAre(1, 2));
}

TEST_F(Machine, ARowIsReadyAtItsTickAndNotBefore) {
  read(0s, {row(1, 500ms)});
  EXPECT_EQ(machine_.next_event(zero), zero + 250ms);
  machine_.advance(zero + 499'999us);
  EXPECT_THAT(ask(), IsEmpty());
  machine_.advance(zero + 500ms);
  EXPECT_THAT(ask(), ElementsAre(1));
}

TEST_F(Machine, ARowThatIsReadTwiceIsAskedOnce) {
  read(0s, {row(1, 500ms)});
  read(250ms, {row(1, 500ms)});
  read(500ms, {row(1, 500ms)});
  EXPECT_THAT(claim(500ms), ElementsAre(1));
  read(750ms, {row(1, 500ms, zero + 30s)});
  EXPECT_THAT(ask(), IsEmpty());
}

TEST_F(Machine, ARowWhoseDeadlineMovedIsAskedAtTheNewOne) {
  read(0s, {row(1, 500ms)});
  read(250ms, {row(1, 900ms)});
  machine_.advance(zero + 899ms);
  EXPECT_THAT(ask(), IsEmpty());
  machine_.advance(zero + 900ms);
  EXPECT_THAT(ask(), ElementsAre(1));
}

TEST_F(Machine, ARowOfAnotherNodeIsAskedWhenItsLeaseHasEnded) {
  read(0s, {row(1, 0s, zero + 800ms)});
  EXPECT_THAT(ask(), IsEmpty());
  machine_.advance(zero + 800ms);
  EXPECT_THAT(ask(), ElementsAre(1));
}

TEST_F(Machine, WhatAClaimDidNotGetIsMetAgainByTheNextPass) {
  read(0s, {row(1, -1h)});
  ask();
  machine_.has_claimed(asked_, {}, zero);
  EXPECT_EQ(machine_.known(), 0U);
  EXPECT_LE(machine_.next_read(zero + 250ms)->from, zero - 1h);
}

TEST_F(Machine, ClaimsNoMoreThanABatchAndThanMayBeHeld) {
  read(0s, rows_of(1, 30, 0s));
  EXPECT_EQ(claim(0s).size(), 10U);
  EXPECT_EQ(claim(0s).size(), 5U);
  EXPECT_EQ(claim(0s).size(), 0U);
  machine_.ended(1, {});
  const ends_to_write ends = machine_.to_end(100);
  ASSERT_EQ(ends.complete.size(), 1U);
  machine_.has_ended(ends, zero);
  EXPECT_EQ(claim(0s).size(), 1U);
}

// Where nodes share a table.
TEST_F(Machine, WhereOthersHaveTakenARowTheNextOnesAreTried) {
  std::vector<upcoming> rows = rows_of(1, 10, 0us);
  rows.push_back(row(11, 0us, {}, 1));
  read(0s, rows);
  const allowance two{.rows = 2, .bytes = anything.bytes};
  std::vector<upcoming> asked = machine_.to_claim(two);
  EXPECT_THAT(machine_.spares_for(asked, two), IsEmpty()) << "it knows of no other node";
  machine_.has_claimed(asked, {}, zero);  // another one has both
  asked = machine_.to_claim(two);
  EXPECT_THAT(ids_of(asked), ElementsAre(3, 4));
  const allowance many{.rows = 100, .bytes = anything.bytes};
  std::vector<upcoming> spares = machine_.spares_for(asked, many);
  EXPECT_THAT(ids_of(spares), ElementsAre(5, 6, 7, 8, 9, 10));
  machine_.has_claimed(asked, std::vector{got(rows[3]), got(rows[5])}, zero, {spares.data(), 2});
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_EQ(machine_.held(), 2U);
  EXPECT_EQ(machine_.ready(0), 4U) << "7 to 10: of those that were tried the others are gone";
  asked = machine_.to_claim(two);
  EXPECT_THAT(ids_of(asked), ElementsAre(7, 8));
  EXPECT_THAT(ids_of(machine_.spares_for(asked, many)), ElementsAre(9, 10)) << "none of a transactional kind";
  machine_.has_not_asked(asked);
  EXPECT_TRUE(machine_.invariants_hold());
}

TEST_F(Machine, ANodeThatIsAloneForgetsTheOthers) {
  scheduler_options options = options_;
  options.max_known = 1000;
  options.batch = 100;
  machine alone(options, kinds(), zero, 1);
  alone.has_read(*alone.next_read(zero), rows_of(1, 200, 0us), zero);
  alone.advance(zero);
  const allowance one{.rows = 1, .bytes = anything.bytes};
  alone.has_claimed(alone.to_claim(one), {}, zero);
  int claims = 0;
  for (bool has_spares = true; has_spares && claims < 100; ++claims) {
    const std::vector<upcoming> asked = alone.to_claim(one);
    has_spares = !alone.spares_for(asked, one).empty();
    alone.has_claimed(asked, std::vector{got(asked.at(0))}, zero);
    alone.ended(asked[0].id, {});
    alone.has_ended(alone.to_end(1), zero);
  }
  EXPECT_GT(claims, 20);
  EXPECT_LT(claims, 100);
}

TEST_F(Machine, WhatIsTriedInThePlaceOfOthersKeepsToTheLimits) {
  struct limits {
    std::size_t bytes;
    std::size_t running;
    std::size_t spares;
  };
  for (const auto& [bytes, running, spares] : {limits{30, 100, 2}, limits{1000, 4, 3}, limits{1000, 100, 6}}) {
    scheduler_options options = options_;
    options.max_claimed_bytes = bytes;
    machine limited(options, kinds({.max_running = running}), zero, 1);
    std::vector<upcoming> rows;
    for (int i = 1; i <= 8; ++i) {
      rows.push_back({i, zero, {}, 0, 0, 10});
    }
    limited.has_read(*limited.next_read(zero), rows, zero);
    limited.advance(zero);
    const allowance one{.rows = 1, .bytes = anything.bytes};
    const allowance many{.rows = 100, .bytes = anything.bytes};
    limited.has_claimed(limited.to_claim(one), {}, zero);
    const std::vector<upcoming> asked = limited.to_claim(one);
    EXPECT_THAT(limited.spares_for(asked, many), testing::SizeIs(spares));
    EXPECT_THAT(limited.spares_for(asked, one), testing::SizeIs(1));
    limited.has_claimed(asked, std::vector{got(rows[1])}, zero);
    EXPECT_TRUE(limited.invariants_hold());
  }
}

TEST_F(Machine, ClaimsNoMoreBytesThanMayBeHeldButOneRowAlways) {
  std::vector<upcoming> rows;
  for (int i = 1; i <= 3; ++i) {
    rows.push_back({i, zero, {}, 0, 0, options_.max_claimed_bytes / 2 + 1});
  }
  rows.push_back({4, zero, {}, 0, 0, 10 * options_.max_claimed_bytes});
  for (int i = 5; i <= 8; ++i) {
    rows.push_back({i, zero, {}, 1, 0, options_.max_claimed_bytes / 2});
  }
  read(0s, rows);
  EXPECT_THAT(machine_.to_consume(10), testing::SizeIs(2));
  for (std::int64_t next = 1; next <= 4; ++next) {
    EXPECT_THAT(claim(0s), ElementsAre(next));
    EXPECT_THAT(claim(0s), IsEmpty());
    machine_.ended(next, {});
    machine_.has_ended(machine_.to_end(10), zero);
    EXPECT_TRUE(machine_.invariants_hold());
  }
}

// At the start, ended leases are left alone for half a lease; a row that was given back has none.
TEST_F(Machine, WhatWasGivenBackLongAfterItsDeadlineComesBackAfterThePauseAlsoAtTheStart) {
  machine_.answered(zero, true);
  read(0s, {row(1, -10s)});
  EXPECT_THAT(claim(0s), ElementsAre(1));
  const ends_to_write ends = give_back(1, 10ms);
  EXPECT_EQ(ends.give_back.front().due, zero - 10s);
  EXPECT_EQ(ends.give_back.front().attempt, 0) << "it has not begun";
  machine_.advance(zero + 9ms);
  EXPECT_THAT(ask(), IsEmpty());
  machine_.advance(zero + 10ms);
  EXPECT_THAT(ask(), ElementsAre(1));
}

TEST_F(Machine, ASuspectThatWasGivenBackIsStillOne) {
  const auto suspect = [](std::int64_t id) { return upcoming{id, zero - 1s, zero - 10ms, 0, 2}; };
  read(0s, {suspect(1), suspect(2)});
  EXPECT_THAT(ask(), ElementsAre(1));
  claimed orphan = got(suspect(1), 1, 3);
  orphan.orphaned = true;
  machine_.has_claimed(asked_, {&orphan, 1}, zero);
  give_back(1, 10ms);
  machine_.advance(zero + 10ms);
  EXPECT_THAT(ask(), ElementsAre(2)) << "one at a time";
}

TEST_F(Machine, WhatWasGivenBackForLongerThanALookAheadIsReadAgain) {
  read(0s, {row(1, -10s)});
  EXPECT_THAT(claim(0s), ElementsAre(1));
  give_back(1, 2s);
  EXPECT_LE(machine_.next_read(zero + 250ms)->from, zero - 10s);
}

TEST_F(Machine, AReadyRowThatAnotherNodeHasTakenIsReadyNoLonger) {
  read(0s, {row(1, 0s), row(2, 0s)});
  EXPECT_EQ(machine_.ready(), 2U);
  read(250ms, {row(1, 0s, zero + 30s), row(2, 500ms)});
  EXPECT_EQ(machine_.ready(), 0U);
}

TEST_F(Machine, WhatIsReadyForASecondAndNotAskedIsReadAgainAtOnce) {
  read(0s, {row(1, 0s), row(2, 0s), row(3, 0s, {}, 1), row(4, 0s, {}, 1)});
  EXPECT_THAT(machine_.to_claim({}), IsEmpty());
  read(999ms, {});
  EXPECT_EQ(machine_.ready(), 4U);
  EXPECT_EQ(machine_.to_consume(1).size(), 1U);
  machine_.advance(zero + 1s);
  EXPECT_EQ(machine_.ready(0), 0U);
  EXPECT_EQ(machine_.ready(1), 1U) << "something of its kind was asked for a moment ago";
  read(1s, {row(2, 0s)});
  EXPECT_EQ(machine_.ready(0), 1U) << "another node has taken the other";
  EXPECT_TRUE(machine_.invariants_hold());
}

class MachineWithMuchRoom : public Machine {  // NOLINT(readability-identifier-naming): a suite
 protected:
  MachineWithMuchRoom() : Machine(100'000) {}
};

// One kind has no thread free, and a row of it is ready for a second; the backlog of the other one must not wait for a
// sweep.
TEST_F(MachineWithMuchRoom, APassThatIsBrokenOffGoesOnWhereItStood) {
  read(0s, {});
  const instant sweep = zero + 31s;
  machine_.advance(sweep);
  read_range first = machine_.next_read(sweep).value();
  while (first.from != instant::min()) {
    machine_.has_read(first, {}, sweep);
    first = machine_.next_read(sweep).value();
  }
  std::vector<upcoming> page = rows_of(1, static_cast<std::int64_t>(first.limit), -1h, 1us);
  const auto other = std::find(first.kinds.begin(), first.kinds.end(), machine_.kinds()[1].name);
  for (upcoming& one : page) {
    one.kind = static_cast<std::uint32_t>(other - first.kinds.begin());
  }
  machine_.has_read(first, page, sweep);
  machine_.advance(sweep);
  machine_.expect(row(9999, 31s), sweep);
  machine_.advance(sweep);
  for (std::vector<upcoming> taken; !(taken = machine_.to_consume(100)).empty();) {
    machine_.has_consumed(taken, got_all(taken), sweep);
  }
  ASSERT_EQ(machine_.ready(0), 1U);
  machine_.advance(sweep + 1s);
  ASSERT_EQ(machine_.ready(0), 0U);
  instant from = instant::max();
  while (const std::optional<read_range> next = machine_.next_read(sweep + 1s)) {
    from = std::min(from, next->from);
    machine_.has_read(*next, {}, sweep + 1s);
  }
  EXPECT_LE(from, page.back().due);
}

// What is dear needs a thread, and what is cheap would leave none free.
TEST_F(Machine, AKindThatIsRefusedKeepsItsTurn) {
  machine two(options_, {{"cheap", false, {}}, {"dear", false, {}}}, zero, 1);
  const read_range page = two.next_read(zero).value();
  std::vector<upcoming> rows;
  for (int i = 1; i <= 10; ++i) {
    rows.push_back(row(i, 0s, {}, i <= 8 ? 0 : 1));
  }
  two.has_read(page, rows, zero);
  two.advance(zero);
  const std::array<microseconds, 2> costs{10us, 1h};
  const auto kinds_of = [&](const allowance& left) {
    std::vector<std::uint32_t> picked;
    for (const upcoming& one : two.to_claim(left)) {
      picked.push_back(one.kind);
    }
    return picked;
  };
  EXPECT_THAT(kinds_of({.rows = 10, .threads = 0, .time = 60us, .costs = costs}), ElementsAre(0, 0, 0));
  EXPECT_THAT(kinds_of({.rows = 10, .threads = 0, .time = 60us, .costs = costs}), IsEmpty());
  EXPECT_THAT(kinds_of({.rows = 10, .threads = 1, .time = 60us, .costs = costs}), ElementsAre(1));
  EXPECT_THAT(kinds_of({.rows = 10, .threads = 1, .time = 0us, .costs = costs}), ElementsAre(0));
  EXPECT_THAT(kinds_of({.rows = 10, .threads = 1, .time = 0us, .costs = costs}), ElementsAre(1));
}

TEST_F(Machine, APayloadThatIsTooLargeKeepsItsTurnAndLetsThoseWithoutOnePass) {
  machine two(options_, {{"large", false, {}}, {"empty", false, {}}}, zero, 1);
  const read_range page = two.next_read(zero).value();
  const std::vector<upcoming> rows{
      {1, zero, {}, 0, 0, 600}, {2, zero, {}, 0, 0, 600}, row(3, 0s, {}, 1), row(4, 0s, {}, 1)};
  two.has_read(page, rows, zero);
  two.advance(zero);
  EXPECT_EQ(two.to_claim({.rows = 1}).at(0).id, 1);
  EXPECT_EQ(two.to_claim({.rows = 1}).at(0).id, 3);
  const std::vector<upcoming> rest = two.to_claim(anything);
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].id, 4);
}

TEST_F(Machine, WhatIsHeldBackIsNoEventUntilItIsAskedForAgain) {
  read(0s, {row(1, 0s), row(2, 0s)});
  const std::array<microseconds, 2> costs{1ms, 1ms};
  EXPECT_EQ(machine_.next_event(zero), zero);
  EXPECT_THAT(machine_.to_claim({.rows = 10, .threads = 1, .costs = costs}), testing::SizeIs(1));
  EXPECT_EQ(machine_.next_event(zero), zero + 250ms);
  EXPECT_THAT(machine_.to_claim({.rows = 10, .threads = 0, .time = 1ms, .costs = costs}), testing::SizeIs(1));
}

TEST_F(Machine, AKindRunsNoMoreThanItsLimit) {
  machine limited(options_, kinds({.max_running = 2}), zero, 1);
  limited.has_read(limited.next_read(zero).value(), std::vector{row(1, 0s), row(2, 0s), row(3, 0s), row(4, 0s, {}, 1)},
                   zero);
  EXPECT_EQ(limited.to_claim(anything).size(), 2U);
  EXPECT_EQ(limited.to_claim(anything).size(), 0U);
  EXPECT_EQ(limited.to_consume(10).size(), 1U);
  EXPECT_EQ(limited.next_event(zero), zero + 250ms);
}

// Has claimed the first of two rows, which is due now, and told its end; has read all.
class MachineWithAnEnd : public Machine {  // NOLINT(readability-identifier-naming): a suite
 protected:
  void claim_and_end(machine& by, microseconds next_due) {
    while (const std::optional<read_range> page = by.next_read(zero)) {
      by.has_read(*page, {}, zero);
    }
    by.expect(row(1, 0ms), zero);
    by.expect(row(2, next_due), zero);
    claim_one(by, zero);
    by.ended(1, {});
  }
  static void claim_one(machine& by, instant now) {
    by.advance(now);
    const std::vector<upcoming> asked = by.to_claim(anything);
    by.has_claimed(asked, std::vector{got(asked.at(0))}, now);
  }
  static std::vector<kind_rules> one_kind(const handler_options& leased = {}) { return {{"leased", false, leased}}; }
};

TEST_F(MachineWithAnEnd, WritesItWithTheNextClaimIfThatComesWithinTwoMilliseconds) {
  machine soon(options_, one_kind(), zero, 1);
  claim_and_end(soon, 2ms);
  EXPECT_FALSE(soon.writes_ends(zero));
  EXPECT_EQ(soon.next_event(zero), zero + 2ms);
  claim_one(soon, zero + 2ms);
  EXPECT_TRUE(soon.writes_ends(zero + 2ms));
  machine later(options_, one_kind(), zero, 1);
  claim_and_end(later, 3ms);
  EXPECT_TRUE(later.writes_ends(zero));
  EXPECT_EQ(later.next_event(zero), zero);
}

TEST_F(MachineWithAnEnd, WaitsForNoClaimThatNeedsItsPlace) {
  machine one_at_a_time(options_, one_kind({.max_running = 1}), zero, 1);
  claim_and_end(one_at_a_time, 1ms);
  EXPECT_TRUE(one_at_a_time.writes_ends(zero));
}

TEST_F(MachineWithAnEnd, WaitsForNoRowThatMayBeOfATransactionalKind) {
  claim_and_end(machine_, 1ms);
  EXPECT_TRUE(machine_.writes_ends(zero));
}

TEST_F(MachineWithAnEnd, WaitsForNoClaimAfterAStop) {
  machine stopped(options_, one_kind(), zero, 1);
  claim_and_end(stopped, 1ms);
  EXPECT_FALSE(stopped.writes_ends(zero));
  stopped.close();
  EXPECT_TRUE(stopped.writes_ends(zero));
}

// Its end is set aside; those of others are written, and it is tried again after a pause.
TEST_F(Machine, AnEndWhoseRowIsLockedIsWrittenLater) {
  read(0s, {row(1, 0s), row(2, 0s)});
  claim(0s);
  machine_.ended(1, {});
  machine_.ended(2, {});
  ends_to_write ends = machine_.to_end(10);
  ASSERT_EQ(ends.complete.size(), 2U);
  ends.complete[0].locked = true;
  ends.complete[1].still_ours = true;
  machine_.has_ended(ends, zero);
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_TRUE(machine_.all_set_aside());
  EXPECT_EQ(machine_.held(), 1U);
  EXPECT_TRUE(machine_.to_end(10).empty());
  EXPECT_EQ(machine_.next_event(zero), zero + 100ms);
  machine_.advance(zero + 100ms);
  ends = machine_.to_end(10);
  ASSERT_EQ(ends.complete.size(), 1U);
  EXPECT_EQ(ends.complete[0].id, 1);
  ends.complete[0].still_ours = true;
  machine_.has_ended(ends, zero + 100ms);
  EXPECT_EQ(machine_.held(), 0U);
  EXPECT_TRUE(machine_.invariants_hold());
}

// The next pass begins with its deadline, though a pass after the claim has gone by it.
TEST_F(Machine, ARowWhoseEndWasRefusedIsMetAgain) {
  for (const outcome& said : {outcome(done), retry_after(1h)}) {
    machine one(options_, kinds(), zero, 1);
    one.has_read(one.next_read(zero).value(), std::vector{row(1, -1h)}, zero);
    one.has_claimed(one.to_claim(anything), std::vector{got(row(1, -1h))}, zero);
    one.ended(1, one.decide(0, 1, said, zero));
    one.has_ended(one.to_end(10), zero);  // not held any more
    EXPECT_EQ(one.known(), 0U);
    EXPECT_LE(one.next_read(zero + 250ms)->from, zero - 1h);
  }
}

// A node that has just come does not know whether the owner could extend.
TEST_F(Machine, AnEndedLeaseIsClaimedWhenItsOwnerHasHadTime) {
  read(0s, {row(1, -1s, zero - 10ms)});
  machine_.answered(zero, true);
  EXPECT_EQ(machine_.orphans_until(zero), instant::min());
  ASSERT_THAT(ask(), ElementsAre(1));
  machine_.has_claimed(asked_, {}, zero);
  EXPECT_EQ(machine_.known(), 1U);
  EXPECT_TRUE(machine_.invariants_hold());
  machine_.answered(zero + 14s, true);
  machine_.advance(zero + 14999ms);
  EXPECT_THAT(ask(), IsEmpty());
  machine_.advance(zero + 15s);
  EXPECT_GT(machine_.orphans_until(zero + 15s), zero + 15s);
  EXPECT_THAT(ask(), ElementsAre(1));
}

TEST_F(Machine, ABacklogAndWhatIsNewTakeTurns) {
  std::vector<upcoming> rows = rows_of(1, 10, -1h);
  std::ranges::copy(rows_of(11, 20, 0s), std::back_inserter(rows));
  read(0s, rows);
  EXPECT_THAT(ask(), ElementsAre(1, 11, 2, 12, 3, 13, 4, 14, 5, 15));
}

TEST_F(Machine, TheyTakeTurnsAlsoWhenOneIsAskedAtATime) {
  const handler_options one_by_one{.max_running = 1};
  machine limited(options_, kinds(one_by_one), zero, 1);
  limited.has_read(limited.next_read(zero).value(), std::vector{row(1, -2h), row(2, -1h), row(3, 0s), row(4, 0s)},
                   zero);
  std::vector<std::int64_t> order;
  for (int i = 0; i < 4; ++i) {
    const std::vector<upcoming> asked = limited.to_claim(anything);
    ASSERT_EQ(asked.size(), 1U);
    order.push_back(asked.front().id);
    limited.has_claimed(asked, {}, zero);
  }
  EXPECT_THAT(order, ElementsAre(1, 3, 2, 4));
}

TEST_F(Machine, EachKindIsTheFirstInItsTurn) {
  machine two(options_, {{"a", true, {}}, {"b", true, {}}}, zero, 1);
  std::vector<upcoming> rows;
  for (int i = 0; i < 20; ++i) {
    rows.push_back(row(i + 1, 0s, {}, i < 15 ? 1 : 0));
  }
  two.has_read(two.next_read(zero).value(), rows, zero);
  std::vector<std::uint32_t> first;
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(two.to_claim(anything));
    const std::vector<upcoming> asked = two.to_consume(1);
    first.push_back(asked.front().kind);
    two.has_consumed(asked, {}, zero);
  }
  EXPECT_THAT(first, ElementsAre(0, 1, 0, 1));
}

TEST_F(Machine, AClockThatIsSetBackIsFollowed) {
  read(1h, {row(1, 1h), row(2, 1h + 500ms)});
  claim(1h);
  machine_.advance(zero);
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_TRUE(machine_.next_read(zero).has_value());
  EXPECT_THAT(ask(), IsEmpty());
  machine_.advance(zero + 1h + 500ms);
  EXPECT_THAT(ask(), ElementsAre(2));
}

TEST_F(Machine, ARowThatAnotherNodeHoldsForLongTakesNoPlace) {
  read(0s, {row(1, -1s, zero + 30s)});
  EXPECT_EQ(machine_.known(), 0U);
  EXPECT_LE(machine_.next_read(zero + 250ms)->from, zero - 1s);
}

TEST_F(Machine, ABacklogIsReadAsFarAsTheQuotaAndTheRestWhenHalfOfItIsDone) {
  const std::vector<upcoming> rows = rows_of(1, 10'000, -1h, 1us);
  read(0s, rows);
  EXPECT_EQ(machine_.known(), 40U);  // twice the quota, which is the part of one of two kinds
  for (std::size_t done = 0; done < 30;) {
    const std::vector<std::int64_t> ids = claim(0s);
    for (const std::int64_t id : ids) {
      machine_.ended(id, {});
    }
    machine_.has_ended(machine_.to_end(1000), zero);
    done += ids.size();
  }
  EXPECT_LE(machine_.next_event(zero + 1ms), zero + 1ms);
  EXPECT_GE(read(1ms, {rows.begin() + 30, rows.end()}), 1U);
  EXPECT_EQ(machine_.known(), 40U);
  EXPECT_EQ(machine_.oldest_ready(0), rows[30].due);
}

TEST_F(Machine, RemembersNoMoreThanItMay) { work_off_a_backlog(500); }

TEST_F(Machine, ARowThatWasGivenUpWaitsForNoOwner) {
  const upcoming given_up = row(1, 0s, instant(1us));
  machine_.answered(zero, true);  // so it waits for the owners of ended leases
  read(0s, {given_up, row(2, 0s, zero - 1s)});
  machine_.advance(zero);
  EXPECT_THAT(machine_.to_claim(anything), ElementsAre(testing::Field(&upcoming::id, 1)));
}

class MachineWithLittleRoom : public Machine {
 public:
  MachineWithLittleRoom() : Machine(4) {}
};

TEST_F(MachineWithLittleRoom, ReadsAtOnceWhatItHadNoRoomFor) { work_off_a_backlog(1000); }

TEST_F(MachineWithLittleRoom, ReadsAtOnceWhatALastPageHadTooMuchOf) {
  std::vector<upcoming> rows = {row(1, -3s), row(2, -2s), row(3, -1s)};  // a page has four, and a kind room for two
  for (auto now = 0us; !rows.empty() && now < 10ms; now += 1ms) {
    read(now, rows);
    for (const std::int64_t id : claim(now)) {
      machine_.ended(id, {});
      std::erase_if(rows, [&](const upcoming& one) { return one.id == id; });
    }
    machine_.has_ended(machine_.to_end(10), zero + now);
  }
  EXPECT_THAT(rows, IsEmpty());
}

TEST_F(Machine, WhatIsNewIsReadBesideABacklog) {
  read(0s, rows_of(1, 30, -1h, 1us));  // more than the quota of 20, less than twice of it
  const read_range look = machine_.next_read(zero + 250ms).value();
  EXPECT_THAT(look.kinds, ElementsAre("leased"));
  EXPECT_EQ(look.from, zero + 250ms - 1s);
  machine_.has_read(look, {}, zero + 250ms);
  EXPECT_THAT(machine_.next_read(zero + 250ms)->kinds, ElementsAre("transactional"));
}

// A look finds more that is new than there is room for, while a backlog waits for its turn.
TEST_F(Machine, WhatIsNewTakesNoMarkFromABacklog) {
  const std::vector<upcoming> rows = rows_of(1, 120, -1h, 1us);
  read(0s, rows);
  work_off(25, 0s);
  const read_range look = machine_.next_read(zero + 250ms).value();
  ASSERT_EQ(look.from, zero + 250ms - 1s);
  machine_.has_read(look, rows_of(201, 240, 0s), zero + 250ms);
  ASSERT_EQ(machine_.known(), 40U);
  work_off(10, 251ms);
  EXPECT_EQ(machine_.next_read(zero + 251ms)->from, rows[40].due);
}

TEST_F(Machine, TheBacklogOfOneKindIsNotReadForTheOther) {
  const std::vector<upcoming> rows = rows_of(1, 120, -1h, 1us);
  read(0s, rows);
  ASSERT_EQ(machine_.known(), 40U) << "twice the quota";
  const read_range of_the_other = machine_.next_read(zero + 250ms).value();
  EXPECT_THAT(of_the_other.kinds, ElementsAre("transactional"));
  EXPECT_EQ(of_the_other.from, zero - 1s);
  machine_.has_read(of_the_other, {}, zero + 250ms);
  work_off(10, 251ms);
  const read_range of_both = machine_.next_read(zero + 251ms).value();
  EXPECT_THAT(of_both.kinds, ElementsAre("leased", "transactional"));
  EXPECT_EQ(of_both.from, rows[40].due);
  machine_.has_read(of_both, std::span(rows).subspan(40, of_both.limit), zero + 251ms);
  const read_range behind_it = machine_.next_read(zero + 251ms).value();
  EXPECT_THAT(behind_it.kinds, ElementsAre("transactional"));
  EXPECT_EQ(behind_it.from, zero + 250ms - 1s);
}

TEST_F(Machine, ARunThatGoesOnIsNotReadAgainAtEachPoll) {
  read(0s, {row(1, -1h)});
  claim(0s);
  EXPECT_EQ(look(1).from, zero - 1s);
}

TEST_F(Machine, APageEndsWhereTheStoreHasStopped) {
  const read_range first = machine_.next_read(zero).value();
  *first.stopped_at = {zero - 1h, 17};
  machine_.has_read(first, {}, zero);
  const read_range second = machine_.next_read(zero).value();
  EXPECT_EQ(std::pair(second.from, second.after_id), std::pair(zero - 1h, std::int64_t{17}));
  machine_.has_read(second, {}, zero);
  EXPECT_FALSE(machine_.next_read(zero).has_value());
}

TEST_F(Machine, OfSuspectsOneIsClaimedAtATime) {
  const auto ended_twice = [](std::int64_t id) { return upcoming{id, zero - 1s, zero - 10ms, 0, 2}; };
  read(0s, {ended_twice(1), ended_twice(2), ended_twice(3), row(4, 0s), row(5, 0s, zero - 10ms)});
  EXPECT_EQ(machine_.ready(0), 5U);
  EXPECT_EQ(machine_.oldest_ready(0), zero - 1s);
  EXPECT_THAT(claim(0s), ElementsAre(1, 4, 5));
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_THAT(claim(0s), IsEmpty());
  EXPECT_GT(machine_.next_event(zero), zero);
  machine_.ended(1, {});
  EXPECT_THAT(claim(0s), IsEmpty());
  machine_.has_ended(machine_.to_end(10), zero);
  EXPECT_EQ(machine_.next_event(zero), zero);
  EXPECT_THAT(ask(), ElementsAre(2));
  machine_.has_not_asked(asked_);
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_THAT(ask(), ElementsAre(2));
  machine_.has_claimed(asked_, {}, zero);  // another node has it
  EXPECT_THAT(claim(0s), ElementsAre(3));
  EXPECT_TRUE(machine_.invariants_hold());
}

TEST_F(Machine, AClockThatIsSetBackKeepsSuspectsApart) {
  read(0s, {{1, zero - 1s, zero - 10ms, 0, 2}, {2, zero - 1s, zero - 10ms, 0, 2}});
  EXPECT_THAT(claim(0s), ElementsAre(1));
  machine_.advance(zero - 1h);
  machine_.advance(zero);
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_THAT(claim(0s), IsEmpty());
}

TEST_F(Machine, WhatIsAskedForAgainByItsLastRunIsNoSuspect) {
  const auto orphan = [](std::int64_t id) { return upcoming{id, zero - 10ms, zero - 1s, 0, 5}; };
  const auto pending = [](std::int64_t id) { return upcoming{id, zero - 10ms, {}, 0, 5}; };
  read(0s, {orphan(1), orphan(2), pending(3), pending(4)});
  EXPECT_THAT(claim(0s), ElementsAre(1, 2, 3, 4));
}

TEST_F(Machine, ARetryMeansTheSameToWhoSaidItAndToWhoReadsIt) {
  const auto once = [](std::int64_t id) { return upcoming{id, zero - 1s, zero - 10ms, 0, 1}; };
  read(0s, {once(1), once(2)});
  ASSERT_THAT(ask(), ElementsAre(1, 2));
  std::vector<claimed> all;
  for (const upcoming& one : asked_) {
    all.push_back(got(one, 2, 2));
    all.back().orphaned = true;
  }
  machine_.has_claimed(asked_, all, zero);
  for (const std::int64_t id : {1, 2}) {
    machine_.ended(id, machine_.decide(0, 2, retry_after(500ms), zero));
  }
  machine_.has_ended(machine_.to_end(10), zero);
  const auto written = [](std::int64_t id) { return upcoming{id, zero + 500ms, zero + 1ms, 0, 2}; };
  read(250ms, {written(1), written(2)});
  EXPECT_EQ(machine_.known(), 2U);
  machine_.advance(zero + 500ms);
  EXPECT_THAT(claim(500ms), ElementsAre(1, 2));
}

// All lives of a check whose runs ask for a retry or end without a word, in any order.
TEST_F(Machine, RunsThatAskForARetryAndRunsThatEndWithoutAWordCountTogether) {
  for (int allowed = 1; allowed <= 5; ++allowed) {
    machine some(options_, kinds({.max_attempts = allowed}), zero, 1);
    for (unsigned lost = 0; lost < 64; ++lost) {  // bit n: run n + 1 ends without a word
      SCOPED_TRACE("allowed: " + std::to_string(allowed) + ", lost: " + std::to_string(lost));
      int runs = 0;
      for (bool dead = false; !dead;) {
        const bool is_lost = ((lost >> runs) & 1U) != 0;
        ++runs;
        ASSERT_LE(runs, 6);
        dead = is_lost ? some.exhausted(0, runs + 1)
                       : some.decide(0, runs, retry("x"), zero).what == outcome::verdict::dead;
        EXPECT_EQ(dead, runs >= (is_lost ? std::max(allowed, 3) : allowed));
      }
    }
  }
}

TEST_F(Machine, RetriesComeBackAfterABackOffThatGrows) {
  const handler_options options{.max_attempts = 4, .backoff = {.first = 1s, .factor = 3, .most = 5s, .jitter = 0}};
  machine some(options_, kinds(options), zero, 1);
  EXPECT_EQ(some.decide(0, 1, retry("x"), zero).due, zero + 1s);
  EXPECT_EQ(some.decide(0, 2, retry("x"), zero).due, zero + 3s);
  EXPECT_EQ(some.decide(0, 3, retry("x"), zero).due, zero + 5s);
  EXPECT_EQ(some.decide(0, 1, retry_after(7s), zero).due, zero + 7s);
  EXPECT_EQ(some.decide(0, 1, dead("x"), zero).what, outcome::verdict::dead);
}

TEST_F(Machine, TheJitterShortensABackOffByNoMoreThanItsShare) {
  const handler_options options{.backoff = {.first = 1s, .factor = 1, .most = 1s, .jitter = 0.5}};
  machine some(options_, kinds(options), zero, 7);
  instant least = zero + 1s;
  for (int i = 0; i < 1000; ++i) {
    const instant due = some.decide(0, 1, retry("x"), zero).due;
    EXPECT_GE(due, zero + 500ms);
    EXPECT_LE(due, zero + 1s);
    least = std::min(least, due);
  }
  EXPECT_LT(least, zero + 550ms);
}

TEST_F(Machine, AStoreThatIsNotDividedIsAskedForSharesOnce) {
  ASSERT_TRUE(machine_.next_renewal(zero).has_value());
  machine_.expects_shares(zero);
  machine_.has_shares(std::nullopt, zero);
  EXPECT_FALSE(machine_.next_renewal(zero + 1h).has_value());
  EXPECT_FALSE(machine_.next_read(zero)->shares.has_value());
}

TEST_F(Machine, AHoldOnSharesIsRenewedEachSecondLongBeforeItsEnd) {
  EXPECT_GE(machine_.next_renewal(zero).value(), 3 * 1s);
  machine_.expects_shares(zero);
  machine_.has_shares({{1, 2}}, zero);
  read(0s, {});
  EXPECT_FALSE(machine_.next_renewal(zero + 999ms).has_value());
  EXPECT_TRUE(machine_.next_renewal(zero + 1s).has_value());
  read(750ms, {});
  EXPECT_EQ(machine_.next_event(zero + 750ms), zero + 1s);
  EXPECT_EQ(machine_.shares(), 2U);
}

TEST_F(Machine, ReadsItsSharesAndWhatIsOverdueByASecond) {
  machine_.has_shares({{2, 1}}, zero);
  read(0s, {});
  machine_.advance(zero + 5s);
  const std::optional<read_range> page = machine_.next_read(zero + 5s);
  ASSERT_TRUE(page && page->shares);
  EXPECT_THAT(*page->shares, ElementsAre(1, 2));
  EXPECT_EQ(page->overdue, zero + 4s);
  EXPECT_LE(page->from, zero + 3s) << "what became overdue since the last poll lies in the window";
}

TEST_F(Machine, WhoHasEnoughToDoHelpsOthersAtEveryFourthLookAndForgetsNothingOfTheirs) {
  machine_.has_shares({{1}}, zero);
  read(0s, rows_of(1, static_cast<std::int64_t>(options_.batch) + 8, 0s));
  const instant since = zero - 2s;
  int helped = 0;
  for (int look = 1; look <= 8; ++look) {
    const read_range page = this->look(look);
    helped += page.overdue != instant::min() ? 1 : 0;
    EXPECT_LE(page.from, std::max(since, zero + look * 250ms - 2s)) << "what was left out is in that of the next";
    EXPECT_EQ(machine_.to_claim({.rows = 1}).size(), 1U);
  }
  EXPECT_EQ(helped, 2);
}

TEST_F(Machine, WhoseSuspectsWaitForOneThatRunsHelpsOthersAtEveryLookAndRestsBetween) {
  machine_.has_shares({{1}}, zero);
  std::vector<upcoming> rows;
  for (std::int64_t id = 0; id <= static_cast<std::int64_t>(options_.batch); ++id) {
    rows.push_back({id, zero - 1s, zero - 10ms, 0, 2});
  }
  read(0s, rows);
  EXPECT_EQ(claim(0s).size(), 1U);
  EXPECT_GE(machine_.ready(), options_.batch);
  for (int look = 1; look <= 8; ++look) {
    const instant now = zero + look * 250ms;
    EXPECT_EQ(this->look(look).overdue, now - 1s);
    machine_.expects_shares(now);
    EXPECT_THAT(ask(), IsEmpty());
    EXPECT_GT(machine_.next_event(now), now);
  }
}

TEST_F(Machine, WhoPollsSeldomMissesNothingThatBecameOverdueMeanwhile) {
  options_.poll = 5s;
  machine seldom(options_, kinds(), zero, 7);
  seldom.has_shares({{1}}, zero);
  const read_range first = seldom.next_read(zero).value();
  seldom.has_read(first, {}, zero);
  ASSERT_FALSE(seldom.next_read(zero).has_value());
  seldom.advance(zero + 5s);
  const read_range second = seldom.next_read(zero + 5s).value();
  EXPECT_LE(second.from, first.overdue);
}

TEST_F(Machine, WithoutAnAnswerTheHoldEndsAndAllIsRead) {
  machine_.has_shares({{1}}, zero);
  read(0s, {});
  for (int second = 1; second <= 3; ++second) {
    EXPECT_TRUE(machine_.next_renewal(zero + second * 1s).has_value());
    machine_.expects_shares(zero + second * 1s);
    EXPECT_FALSE(machine_.next_renewal(zero + second * 1s + 500ms).has_value());
  }
  const read_range page = machine_.next_read(zero + 3s).value();
  EXPECT_FALSE(page.shares.has_value());
}

TEST_F(Machine, NewSharesAreReadFromTheBeginning) {
  machine_.has_shares({{1, 2}}, zero);
  read(0s, {});
  machine_.has_shares({{1}}, zero + 1ms);
  EXPECT_FALSE(machine_.next_read(zero + 1ms).has_value()) << "nothing new in less";
  machine_.has_shares({{1, 3}}, zero + 2ms);
  const read_range page = machine_.next_read(zero + 2ms).value();
  EXPECT_EQ(page.from, instant::min());
}

TEST_F(Machine, AStoreThatFailsIsLeftAloneLongerAndLonger) {
  read(0s, {row(1, 0s)});
  ask();
  microseconds rest{};
  for (int i = 0; i < 12; ++i) {
    machine_.store_failed(zero, true);
    EXPECT_TRUE(machine_.resting(zero));
    rest = machine_.next_event(zero) - zero;
    EXPECT_LE(rest, 5s);
  }
  EXPECT_GE(rest, 2500ms);
  EXPECT_FALSE(machine_.next_read(zero + 1s).has_value());
  machine_.has_not_asked(asked_);
  machine_.store_works(true);
  EXPECT_THAT(ask(), ElementsAre(1));
}

TEST_F(Machine, AClosedOneAsksForNothingAndWritesItsEnds) {
  read(0s, {row(1, 0s), row(2, 100ms)});
  claim(0s);
  machine_.close();
  machine_.advance(zero + 1s);
  EXPECT_FALSE(machine_.next_read(zero + 1s).has_value());
  EXPECT_THAT(ask(), IsEmpty());
  machine_.ended(1, {});
  EXPECT_EQ(machine_.to_end(10).complete.size(), 1U);
}

// ---- without memory

using timing_wheel::test::scarce_memory;
using timing_wheel::test::succeeds_with;

TEST_F(Machine, ARowThatThereIsNoMemoryToRememberIsMetAgain) {
  bool known = false;
  for (std::uint64_t left = 0; !known; ++left) {
    ASSERT_LT(left, 100U);
    machine one(options_, kinds(), zero, 1);
    one.has_read(*one.next_read(zero), {}, zero);
    {
      const scarce_memory limit(left);
      one.expect(row(1, 500ms), zero);
    }
    known = one.known() == 1;
    EXPECT_TRUE(one.invariants_hold());
    EXPECT_LE(one.next_read(zero + 9s)->from, zero + 500ms);
  }
}

// It waits for the end of another node's lease, and lies behind what the next pass reads anyhow.
TEST_F(Machine, APageThatThereIsNoMemoryForIsReadAgain) {
  const std::vector rows{row(1, -1h, zero + 800ms)};
  bool had_memory = false;
  for (std::uint64_t left = 0; !had_memory; ++left) {
    ASSERT_LT(left, 100U);
    machine one(options_, kinds(), zero, 1);
    const std::optional<read_range> page = one.next_read(zero);
    had_memory = succeeds_with(left, [&] { one.has_read(*page, rows, zero); }) && one.known() == 1;
    EXPECT_TRUE(one.invariants_hold());
    if (one.known() == 0) {
      EXPECT_LE(one.next_read(zero + 250ms)->from, zero - 1h) << left;
    }
  }
}

TEST_F(Machine, WithoutMemoryNothingIsAsked) {
  read(0s, {row(1, 0s), row(2, 0s, {}, 1)});
  EXPECT_FALSE(succeeds_with(0, [&] { static_cast<void>(machine_.to_claim(anything)); }));
  EXPECT_FALSE(succeeds_with(0, [&] { static_cast<void>(machine_.to_consume(10)); }));
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_THAT(ask(), ElementsAre(1));
  EXPECT_EQ(machine_.to_consume(10).size(), 1U);
}

TEST_F(Machine, WhatFollowsACommitNeedsNoMemory) {
  read(0s, {row(1, 0s), row(2, 0s), row(3, 0s), row(4, 0s), row(5, 0s)});
  ask();
  const std::vector<claimed> all{got(asked_[0]), got(asked_[1]), got(asked_[2]), got(asked_[3])};
  const outcome failed = dead(std::string(100, 'x'));
  ending buried;
  {
    const scarce_memory none(0);
    machine_.has_claimed(asked_, all, zero);
    buried = machine_.decide(0, 1, failed, zero);
    machine_.ended(1, {});
    machine_.ended(2, {outcome::verdict::dead, {}, {}});
    machine_.ended(3, {outcome::verdict::retry, zero + 500ms, {}});
    machine_.given_back(4, zero, 10ms);
  }
  EXPECT_EQ(buried.what, outcome::verdict::dead);
  EXPECT_EQ(buried.reason, "");
  ends_to_write ends = machine_.to_end(10);
  ASSERT_EQ(ends.size(), 4U);
  ends.complete[0].locked = ends.retry[0].of.still_ours = ends.give_back[0].of.still_ours = true;
  {
    const scarce_memory none(0);
    machine_.has_ended(ends, zero);
  }
  EXPECT_TRUE(machine_.invariants_hold());
  EXPECT_EQ(machine_.held(), 1U);
  EXPECT_LE(machine_.next_read(zero + 250ms)->from, zero);
}

TEST_F(Machine, AClockThatIsSetBackWithoutMemoryIsFollowedLater) {
  read(0s, {row(1, 500ms)});
  EXPECT_FALSE(succeeds_with(0, [&] { machine_.advance(zero - 1h); }));
  EXPECT_TRUE(machine_.invariants_hold());
  machine_.advance(zero - 1h);
  machine_.advance(zero + 500ms);
  EXPECT_THAT(ask(), ElementsAre(1));
}

}  // namespace
}  // namespace timing_wheel::durable
