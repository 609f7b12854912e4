// Nodes on one store, against a plain map: random requests, cancels, crashes, frozen nodes, clocks that are off, stores
// that fail or whose answer is lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "durable/node.hpp"
#include "durable/support/forwarding_store.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// The store as one node sees it: with a clock that is off, and a connection that breaks.
class seen_store final : public test::forwarding_store {
 public:
  seen_store(store& real, microseconds off) : forwarding_store(real), off_(off) {}

  unsigned fails_next = 0;    // calls
  bool loses_answer = false;  // of the next commit
  std::function<std::optional<std::vector<std::int16_t>>()> shares;

  instant now() override { return forwarding_store::now() + off_; }
  void transact(const std::function<void(store_transaction&)>& work) override {
    may_fail();
    forwarding_store::transact(work);
    if (std::exchange(loses_answer, false)) {
      throw std::runtime_error("the answer was lost");
    }
  }
  void read_ahead(const window& which, std::vector<upcoming>& found) override {
    may_fail();
    forwarding_store::read_ahead(which, found);
  }
  std::optional<std::vector<std::int16_t>> take_shares(std::string_view /*node*/,
                                                       std::span<const std::string> /*kinds*/,
                                                       std::chrono::milliseconds /*hold*/, bool /*leave*/) override {
    may_fail();
    return shares();
  }

 private:
  void may_fail() {
    if (fails_next != 0) {
      --fails_next;
      throw std::runtime_error("no connection");
    }
  }

  microseconds off_;
};

// What must be true of one check, from its request to its end.
struct expected {
  instant due{};
  std::size_t begun = 0;
  std::size_t done = 0;  // handlers that ended so; of a transactional one, in a transaction that may yet be undone
  bool cancelled = false;
};

class world {
 public:
  explicit world(std::uint64_t seed) : random_(seed), divided_(seed % 2 == 1) {
    const std::size_t count = 1 + pick(3);
    for (std::size_t i = 0; i < count; ++i) {
      places_.push_back(std::make_unique<place>(store_, offset()));
      places_.back()->seen.shares = [this, i] { return shares_of(i); };
      start(*places_.back());
    }
  }

  void live(int steps) {
    for (int i = 0; i < steps; ++i) {
      happen();
      timer_.advance_by(microseconds(pick(200'000)));
      for (auto& one : places_) {
        move(*one);
      }
    }
  }

  // No more trouble: all must come to its end.
  void settle() {
    settled_ = true;
    for (auto& one : places_) {
      one->seen.fails_next = 0;
      one->seen.loses_answer = false;
      one->frozen = 0;
    }
    for (int i = 0; i < 4000 && (i % 50 != 0 || !over()); ++i) {
      timer_.advance_by(50ms);
      for (auto& one : places_) {
        move(*one);
      }
    }
  }

  void check() {
    std::size_t effects = 0;
    for (const auto& [key, one] : checks_) {
      const bool transactional = key.front() == 't';
      EXPECT_TRUE(one.cancelled || one.done > 0) << key << " was lost";
      EXPECT_FALSE(store_.find(kind_of(key), key).has_value()) << key << " is still there";
      effects += transactional && store_.find("effect", key).has_value() ? 1U : 0U;
      if (transactional) {
        EXPECT_EQ(store_.find("effect", key).has_value(), !one.cancelled) << key;
      }
    }
    EXPECT_EQ(store_.size(), effects);
    EXPECT_GT(checks_.size(), 0U);
  }

 private:
  struct place {
    place(store& real, microseconds off) : seen(real, off) {}
    seen_store seen;
    failures reported{[](const failure& /*what*/) {}};
    std::unique_ptr<node> lives;
    std::vector<std::unique_ptr<node::leased_run>> runs;  // given to a thread, as it were
    int frozen = 0;
  };

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  bool one_in(std::size_t n) { return pick(n) == 0; }
  microseconds offset() {
    return one_in(2) ? 0us : microseconds(static_cast<std::int64_t>(pick(4'000'000)) - 2'000'000);
  }
  // In times of trouble: any, so that some are nobody's and others belong to several.
  std::optional<std::vector<std::int16_t>> shares_of(std::size_t number) {
    if (!divided_) {
      return std::nullopt;
    }
    std::vector<std::int16_t> shares;
    for (std::int16_t share = 0; share < 64; ++share) {
      if (settled_ ? static_cast<std::size_t>(share) % places_.size() == number : one_in(2)) {
        shares.push_back(share);
      }
    }
    return shares;
  }
  static std::string kind_of(const std::string& key) { return key.front() == 't' ? "transactional" : "leased"; }

  void start(place& where) {
    const handler_options often{.max_running = 3,
                                .max_attempts = 1'000'000,
                                .backoff = {.first = 100ms, .factor = 1.5, .most = 2s, .jitter = 0.5}};
    std::vector<kind_rules> kinds{{"leased", false, often}, {"transactional", true, often}};
    std::vector<any_handler> handlers;
    handlers.emplace_back(leased_handler([this, &where](const job& what) {
      const bool late = stop_before_handler(where);
      return run(what, late);
    }));
    handlers.emplace_back(transactional_handler([this](transaction& open, const job& what) {
      outcome said = run(what, false);
      EXPECT_TRUE(open.schedule({.kind = "effect", .key = what.key(), .payload = {}, .due = 24h * 365}).inserted);
      return said;
    }));
    const scheduler_options options{.lease = 3s, .batch = 4, .max_claimed = 6, .max_known = 16};
    where.lives = std::make_unique<node>(
        where.seen, options, std::move(kinds), std::move(handlers), where.reported, [] {},
        [&where](std::unique_ptr<node::leased_run> run) { where.runs.push_back(std::move(run)); });
  }

  // SIGSTOP when the node has found its lease valid, and the handler's first line is still to come: all others go on.
  bool stop_before_handler(place& where) {
    if (stopped_ || settled_ || !one_in(15)) {
      return false;
    }
    stopped_ = &where;
    live(static_cast<int>(pick(80)));
    stopped_ = nullptr;
    return true;
  }

  // A late one may have been overtaken: who honours the fence refuses it.
  outcome run(const job& what, bool late) {
    expected& one = checks_.at(what.key());
    ++one.begun;
    EXPECT_FALSE(one.cancelled) << what.key() << " ran after its cancel";
    EXPECT_GE(store_.now(), one.due) << what.key() << " ran early";
    std::int64_t& highest = fences_[what.key()];
    if (late && what.fence() < highest) {
      return done;
    }
    if (what.kind() == "leased") {
      EXPECT_GT(what.fence(), highest) << what.key();
    } else {
      EXPECT_GE(what.fence(), highest) << what.key();  // one that was undone may come again
    }
    highest = what.fence();
    switch (pick(8)) {
      case 0:
        throw std::runtime_error("handler");
      case 1:
        return retry_after(milliseconds(pick(3000)));
      default:
        ++one.done;
        return done;
    }
  }

  bool over() {
    return std::all_of(checks_.begin(), checks_.end(),
                       [this](const auto& one) { return !store_.find(kind_of(one.first), one.first); });
  }

  // A node does what it can, and its threads end some of their runs.
  void move(place& where) {
    if (&where == stopped_) {
      return;
    }
    if (where.frozen > 0) {
      --where.frozen;
      return;
    }
    for (int i = 0; i < 20 && where.lives->step() == 0us; ++i) {
    }
    while (!where.runs.empty() && !one_in(3)) {
      const std::size_t which = pick(where.runs.size());
      std::swap(where.runs[which], where.runs.back());
      std::unique_ptr<node::leased_run> run = std::move(where.runs.back());
      where.runs.pop_back();
      one_in(20) ? where.lives->not_run(std::move(run)) : where.lives->run(std::move(run));
    }
  }

  void happen() {
    place& where = *places_[pick(places_.size())];
    switch (pick(10)) {
      case 0:
      case 1:
      case 2:
        schedule();
        break;
      case 3:
        cancel();
        break;
      case 4:
        reschedule();
        break;
      case 5:
        repeat();
        break;
      case 6:
        trouble(where);
        break;
      default:
        break;
    }
  }

  void trouble(place& where) {
    if (&where == stopped_) {
      return;
    }
    switch (pick(4)) {
      case 0:  // kill -9, and a new process
        where.runs.clear();
        start(where);
        break;
      case 1:  // SIGSTOP, for longer than the lease perhaps
        where.frozen = static_cast<int>(pick(80));
        break;
      case 2:
        where.seen.fails_next = static_cast<unsigned>(pick(5));
        break;
      default:
        where.seen.loses_answer = true;
        break;
    }
  }

  due_time some_time() {
    if (one_in(6)) {  // as if it was committed late
      return store_.now() - microseconds(pick(3'000'000));
    }
    return microseconds(pick(one_in(4) ? 20'000'000 : 2'000'000));
  }

  std::string some_key() {
    auto at = checks_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(pick(checks_.size())));
    return at->first;
  }

  void schedule() {
    const std::string key = (one_in(2) ? "t" : "l") + std::to_string(checks_.size());
    store_.transact([&](store_transaction& open) {
      const scheduled result = open.schedule({.kind = kind_of(key), .key = key, .payload = {}, .due = some_time()});
      EXPECT_TRUE(result.inserted);
      checks_[key].due = result.due;
    });
  }

  // The same key while it is there.
  void repeat() {
    if (checks_.empty()) {
      return;
    }
    const std::string key = some_key();
    if (!store_.find(kind_of(key), key)) {
      return;
    }
    store_.transact([&](store_transaction& open) {
      const scheduled result =
          open.schedule({.kind = kind_of(key), .key = key, .payload = {}, .due = some_time(), .replace = one_in(2)});
      EXPECT_FALSE(result.inserted);
      if (result.replaced) {
        checks_[key].due = result.due;
      }
    });
  }

  void cancel() {
    if (checks_.empty()) {
      return;
    }
    const std::string key = some_key();
    store_.transact([&](store_transaction& open) {
      expected& one = checks_[key];
      one.cancelled = open.transaction::cancel(kind_of(key), key) == cancel_result::cancelled || one.cancelled;
    });
  }

  void reschedule() {
    if (checks_.empty()) {
      return;
    }
    const std::string key = some_key();
    const std::string kind = kind_of(key);
    store_.transact([&](store_transaction& open) {
      reschedule_op op{kind, key, some_time()};
      open.reschedule({&op, 1});
      if (op.result == reschedule_result::moved) {
        checks_[key].due = store_.find(kind, key)->due;
      }
    });
  }

  std::mt19937_64 random_;
  manual_timer timer_;
  memory_store store_{timer_};
  const bool divided_;
  bool settled_ = false;
  place* stopped_ = nullptr;  // in a handler that has not begun
  std::vector<std::unique_ptr<place>> places_;
  std::map<std::string, expected> checks_;
  std::map<std::string, std::int64_t> fences_;
};

class NodeModel : public testing::TestWithParam<std::uint64_t> {};

TEST_P(NodeModel, EveryCheckRunsNoneEarlyNoneAfterItsCancelAndTransactionalOnesOnceInEffect) {
  constexpr std::uint64_t seeds_each = 100;
  for (std::uint64_t seed = GetParam() * seeds_each; seed < (GetParam() + 1) * seeds_each; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    world all(seed);
    all.live(150);
    all.settle();
    all.check();
    if (HasFailure()) {
      return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, NodeModel, testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace timing_wheel::durable
