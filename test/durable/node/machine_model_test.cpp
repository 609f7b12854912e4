// A machine on a table that is a plain map, with little room, backlogs, rows of kinds that it does not have, another
// node, late commits, and pages that the store ends early. Nothing sweeps after the first look, so a row that the
// machine forgets is left.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "durable/node/machine.hpp"

namespace timing_wheel::durable {
namespace {

using std::chrono::microseconds;
using namespace std::chrono_literals;

constexpr instant begin{1'000'000s};
constexpr std::uint32_t kind_count = 3;

class MachineModel : public testing::TestWithParam<std::uint64_t> {  // NOLINT(readability-identifier-naming): a suite
 protected:
  struct stored {
    std::uint32_t kind = 0;  // `kind_count`: of nobody here
    instant lease{};         // another node's
    bool is_held = false;    // by this one
  };
  using place = std::pair<instant, std::int64_t>;

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  bool one_in(std::size_t n) { return pick(n) == 0; }
  microseconds some_time(microseconds least, microseconds below) {
    return least + microseconds(pick(static_cast<std::size_t>((below - least).count())));
  }

  scheduler_options options() {
    return {.look_ahead = 1s,
            .poll = 250ms,
            .sweep = 24h,
            .lease = 30s,
            .batch = 1 + pick(12),
            .max_claimed = 1 + pick(20),
            .max_known = 6 + pick(60)};
  }
  std::vector<kind_rules> kinds() {
    std::vector<kind_rules> some;
    for (std::uint32_t kind = 0; kind < kind_count; ++kind) {
      some.push_back({std::to_string(kind), false, {.max_running = 1 + pick(8)}});
    }
    return some;
  }

  void insert(instant now) {
    const std::size_t rows = one_in(20) ? pick(150) : pick(4);
    const auto kind = static_cast<std::uint32_t>(pick(kind_count + 1));
    const microseconds due = some_time(-900ms, 3s);
    for (std::size_t i = 0; i < rows; ++i) {
      table_.emplace(place(now + due + microseconds(pick(1000)), ++last_id_), stored{.kind = kind});
    }
  }

  // What the other node does: it claims, extends, gives back, and ends.
  void meddle(instant now) {
    for (auto row = table_.begin(); row != table_.end() && row->first.first <= now;) {
      stored& one = row->second;
      const bool is_others = one.lease != instant{};
      if (one.kind == kind_count || one.is_held || !one_in(is_others ? 4 : 40)) {
        ++row;
      } else if (!is_others || one_in(2)) {
        one.lease = now + 5s;
        ++row;
      } else if (one_in(2)) {
        one.lease = {};
        ++row;
      } else {
        row = table_.erase(row);
      }
    }
  }

  void answer(machine& by, const read_range& page, instant now) {
    std::vector<upcoming> found;
    std::size_t looked_at = 0;
    for (auto row = table_.upper_bound(place(page.from, page.after_id));
         row != table_.end() && row->first.first < page.until && found.size() < page.limit; ++row) {
      const auto kind = std::find(page.kinds.begin(), page.kinds.end(), std::to_string(row->second.kind));
      if (kind != page.kinds.end()) {
        found.push_back({row->first.second, row->first.first, row->second.lease,
                         static_cast<std::uint32_t>(kind - page.kinds.begin())});
      }
      if (++looked_at == 30 && page.stopped_at != nullptr) {
        *page.stopped_at = row->first;
        break;
      }
    }
    by.has_read(page, found, now);
    by.advance(now);
  }

  void claim(machine& by, instant now) {
    const std::vector<upcoming> asked = by.to_claim({.rows = 1 + pick(20)});
    if (!asked.empty() && one_in(10)) {
      by.has_not_asked(asked);
      return;
    }
    std::vector<claimed> got;
    for (const upcoming& one : asked) {
      const auto row = table_.find(place(one.due, one.id));
      if (row != table_.end() && row->second.lease == instant{} && !row->second.is_held && one.due <= now) {
        row->second.is_held = true;
        got.push_back({one.id, 1, one.kind, 1, one.due, "key", {}});
        running_.emplace(one.id, one.due);
      }
    }
    by.has_claimed(asked, got, now);
  }

  void end(machine& by, instant now) {
    for (auto run = running_.begin(); run != running_.end();) {
      if (one_in(3)) {
        by.ended(run->first, one_in(8) ? by.decide(by.kind_of(run->first), 1, retry_after(2s), now) : ending{});
        run = running_.erase(run);
      } else {
        ++run;
      }
    }
    ends_to_write ends = by.to_end(1 + pick(30));
    const auto ended = [&](ticket& of, instant again) {
      const auto row =
          std::find_if(table_.begin(), table_.end(), [&](const auto& one) { return one.first.second == of.id; });
      ASSERT_NE(row, table_.end());
      const std::uint32_t kind = row->second.kind;
      table_.erase(row);
      if (again != instant{}) {
        table_.emplace(place(again, of.id), stored{.kind = kind});
      }
      of.still_ours = true;
    };
    std::for_each(ends.complete.begin(), ends.complete.end(), [&](ticket& of) { ended(of, {}); });
    std::for_each(ends.retry.begin(), ends.retry.end(), [&](release_op& one) { ended(one.of, one.due); });
    by.has_ended(ends, now);
  }

  [[nodiscard]] std::size_t left() const {
    return static_cast<std::size_t>(
        std::count_if(table_.begin(), table_.end(), [](const auto& row) { return row.second.kind != kind_count; }));
  }

  std::minstd_rand random_;
  std::map<place, stored> table_;
  std::map<std::int64_t, instant> running_;
  std::int64_t last_id_ = 0;
};

TEST_P(MachineModel, EachRowIsClaimedThoughNothingSweeps) {
  constexpr std::uint64_t seeds_each = 10;
  for (std::uint64_t seed = GetParam() * seeds_each; seed < (GetParam() + 1) * seeds_each; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(static_cast<std::minstd_rand::result_type>(seed + 1));
    table_.clear();
    running_.clear();
    instant now = begin;
    machine by(options(), kinds(), now, seed);
    for (; now < begin + 900s && (now < begin + 8s || left() > 0); now += some_time(1ms, 60ms)) {
      by.advance(now);
      if (now < begin + 8s) {
        insert(now);
      }
      if (now < begin + 20s && one_in(4)) {
        meddle(now);
      } else if (now >= begin + 20s) {  // it has died, and its leases are given back
        std::for_each(table_.begin(), table_.end(), [](auto& row) { row.second.lease = {}; });
      }
      for (int page = 0; page < 200; ++page) {
        const std::optional<read_range> next = by.next_read(now);
        if (!next) {
          break;
        }
        answer(by, *next, now);
        if (by.ready() != 0 && one_in(2)) {
          break;
        }
      }
      claim(by, now);
      end(by, now);
      ASSERT_TRUE(by.invariants_hold());
    }
    ASSERT_EQ(left(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MachineModel, testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace timing_wheel::durable
