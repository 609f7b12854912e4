#include "durable/random/program.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "durable/node/node.hpp"
#include "durable/support/forwarding_store.hpp"
#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable::test {

namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Users' calls in a transaction of the store.
class store_calls final : public users_calls {
 public:
  explicit store_calls(store_transaction& open) : open_(open) {}
  scheduled schedule(const request& asked) override { return open_.schedule(asked); }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    return open_.transaction::cancel(kind, key);
  }
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) override {
    reschedule_op op{kind, key, due};
    open_.reschedule({&op, 1});
    return op.result;
  }

 private:
  store_transaction& open_;
};

// One life of a key: from the commit that has inserted it to its end.
struct life {
  std::string key;
  std::string payload;  // that of the last commit that has written it
  instant due{};
  bool cancelled = false;
  unsigned begun = 0;
  unsigned put_off = 0;  // runs that ended without a done
  unsigned done = 0;     // of a transactional one, in a transaction that may yet be undone
};

bool is_transactional(const std::string& key) { return key.front() == 't'; }
std::string kind_of(const std::string& key) { return is_transactional(key) ? "transactional" : "leased"; }

class world {
 public:
  world(ground& on, std::uint64_t seed, verdict& said)
      : on_(on), said_(said), random_(seed), divided_(seed % 2 == 1 && on.divides()) {
    on_.reset();
    calm_ = one_in(3);  // NOLINT(*-prefer-member-initializer): it draws
    const std::size_t count = 1 + pick(ground::most_nodes);
    for (std::size_t i = 0; i < count; ++i) {
      nodes_.push_back(std::make_unique<place>(*this, i));
      start(*nodes_.back());
    }
    users_.resize(ground::most_users);
    for (const paused_kind& each : users_store().paused_kinds()) {  // by a program that has failed
      users_store().resume(each.kind);
    }
  }

  void live(int steps) {
    for (int i = 0; i < steps && said_.wrong.empty(); ++i) {
      happen();
      on_.pass(microseconds(pick(200'000)));
      for (auto& one : nodes_) {
        move(*one);
      }
    }
  }

  // No more trouble: all must come to its end.
  void settle() {
    settled_ = true;
    for (user& one : users_) {
      end(one);
    }
    for (const auto& [kind, since] : paused_) {
      users_store().resume(kind);
    }
    paused_.clear();
    for (auto& one : nodes_) {
      one->heal();
    }
    for (int i = 0; i < 1500 && said_.wrong.empty() && (i % 10 != 0 || !over()); ++i) {
      microseconds pause = 500ms;
      for (auto& one : nodes_) {
        pause = std::min(pause, move(*one));
      }
      on_.pass(std::max<microseconds>(pause, 5ms));
    }
  }

  void judge() {
    std::size_t effects = 0;
    for (const auto& [key, number] : current_) {
      check_over(key, "at the end");
    }
    for (std::size_t number = 0; number < lives_.size(); ++number) {
      const life& one = lives_[number];
      const bool effect = has_effect(number);
      effects += effect ? 1U : 0U;
      wrong_if(effect && one.cancelled, one.key + " was cancelled, and its effect is there");
    }
    const std::size_t there = rows({"effect"});
    wrong_if(there != effects, "there are " + std::to_string(there) + " effects of " + std::to_string(effects));
    wrong_if(!over(), "checks are still there");
  }

  void wrong_if(bool is_wrong, const std::string& what) {
    if (is_wrong) {
      note("WRONG: " + what);
      said_.wrong.push_back(what);
    }
  }

 private:
  // A process: a node, threads for its runs, and the store as it sees it, with a clock that is off, and a connection
  // on which things happen.
  struct place final : forwarding_store {
    place(world& in, std::size_t which)
        : forwarding_store(in.on_.of(which)),
          all(in),
          name("node " + std::to_string(which)),
          number(which),
          far_off(in.one_in(4)),
          off(in.offset(far_off)) {}

    instant now() override { return all.on_.now() + off; }
    microseconds clock_difference() override { return {}; }  // time is virtual
    void transact(const std::function<void(store_transaction&)>& work) override { transact_within({}, work); }
    void transact_within(const transaction_limits& limits,
                         const std::function<void(store_transaction&)>& work) override {
      all.meet_call(*this);
      transaction_limits real = limits;
      if (far_off) {  // by its clock an outage has always been, or never
        real.orphans_until.reset();
      }
      all.on_.of(number).transact_within(real, [&](store_transaction& open) {
        work(open);
        all.meet_commit(*this, open);
      });
      all.meet_answer(*this);
    }
    void read_ahead(const read_range& which, std::vector<upcoming>& found) override {
      all.meet_call(*this);
      forwarding_store::read_ahead(which, found);
    }
    std::optional<std::vector<std::int16_t>> renew_shares(std::string_view node, std::span<const std::string> kinds,
                                                          milliseconds hold, bool leave) override {
      all.meet_call(*this);
      return all.divided_ ? all.shares_of(number) : forwarding_store::renew_shares(node, kinds, hold, leave);
    }
    void heal() {
      fails_next = 0;
      frozen = 0;
      loses_answer = false;
      cuts_next = false;
    }

    world& all;
    std::string name;
    std::size_t number;
    bool far_off;
    microseconds off;
    failures reported{[this](const failure& what) { all.told(*this, what); }};
    std::unique_ptr<node> lives;
    int threads = 0;                            // on their way
    std::map<std::string, std::int64_t> drawn;  // fences, in a transaction that may yet be undone
    std::map<std::int64_t, life> before;        // by fence: what was so before its run in this transaction
    int frozen = 0;
    unsigned fails_next = 0;    // calls
    bool loses_answer = false;  // of the next commit
    bool cuts_next = false;     // transaction, before its commit
    bool stopped = false;       // somewhere on its way: others go on
    bool dead = false;          // it only has to come to its end
    unsigned running = 0;       // handlers that have not returned
  };

  // The check as a user's transaction has left it, as far as it was changed there.
  struct left {
    bool there = false;
    instant due{};
  };
  struct user {
    std::unique_ptr<users_transaction> open;
    std::map<std::string, left> changed;
    std::vector<std::function<void()>> at_commit;
    int age = 0;  // steps
  };

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  bool one_in(std::size_t n) { return pick(n) == 0; }
  store& users_store() { return on_.of(ground::most_nodes); }
  void note(std::string what) { said_.events.push_back(std::to_string(since_begin()) + " ms: " + std::move(what)); }
  std::int64_t since_begin() {
    begin_ = begin_.value_or(on_.now());
    return std::chrono::floor<milliseconds>(on_.now() - *begin_).count();
  }

  microseconds offset(bool far_off) {
    return far_off ? microseconds(static_cast<std::int64_t>(pick(4'000'000)) - 2'000'000)
                   : -microseconds(static_cast<std::int64_t>(pick(2) * pick(20'000)));
  }
  // In times of trouble: any, so that some are nobody's and others belong to several.
  std::vector<std::int16_t> shares_of(std::size_t number) {
    std::vector<std::int16_t> shares;
    for (std::int16_t share = 0; share < 64; ++share) {
      if (settled_ ? static_cast<std::size_t>(share) % nodes_.size() == number : one_in(2)) {
        shares.push_back(share);
      }
    }
    return shares;
  }

  // ---- nodes

  void start(place& where) {
    const handler_options often{.max_running = 3,
                                .max_attempts = 1'000'000,
                                .backoff = {.first = 100ms, .factor = 1.5, .most = 2s, .jitter = 0.5}};
    std::vector<kind_rules> kinds{{"leased", false, often}};
    std::vector<any_handler> handlers;
    handlers.emplace_back(leased_handler([this, &where](const job& what) { return run_leased(where, what); }));
    if (where.number % 2 == 0) {  // the others let the ends of leased runs wait for a claim
      kinds.push_back({"transactional", true, often});
      handlers.emplace_back(transactional_handler(
          [this, &where](transaction& open, const job& what) { return run_transactional(where, open, what); }));
    }
    const scheduler_options options{.lease = 3s,
                                    .batch = 4,
                                    .max_claimed = 6,
                                    .max_known = 16,
                                    .transaction_time = 1h,  // what is taken at once does not depend on this machine
                                    .node = where.name};
    where.dead = false;
    where.heal();
    where.lives = std::make_unique<node>(
        where, options, std::move(kinds), std::move(handlers), where.reported, [] {}, [&where] { ++where.threads; }, 4,
        nullptr, random_());
  }

  // A node does what it can, and its threads end some of their runs. \returns how long it has nothing to do.
  microseconds move(place& where) {
    if (where.stopped) {
      return 0us;
    }
    if (where.frozen > 0) {
      --where.frozen;
      return 0us;
    }
    microseconds pause{};
    where.stopped = true;  // a step is one at a time
    for (int i = 0; i < 20 && pause == 0us && !where.dead; ++i) {
      pause = where.lives->step();
    }
    where.stopped = false;
    while (where.threads != 0 && !where.dead && !one_in(3)) {
      --where.threads;
      ++where.running;
      one_in(20) ? where.lives->drop_next() : where.lives->run_next();
      --where.running;
    }
    if (where.dead && where.running == 0) {
      where.threads = 0;
      start(where);
    }
    return where.threads == 0 ? pause : 0us;
  }

  bool troubled() const { return !calm_ && !settled_; }

  // All but `where` go on, for so many steps.
  void others_go_on(place& where, int steps) {
    constexpr int deepest = 2;
    if (depth_ == deepest || settled_) {
      return;
    }
    ++depth_;
    const bool was = std::exchange(where.stopped, true);
    live(steps);
    where.stopped = was;
    --depth_;
  }

  void meet_call(place& where) {
    where.drawn.clear();
    where.before.clear();
    if (where.dead) {
      throw std::runtime_error("dead");
    }
    if (where.fails_next != 0) {
      --where.fails_next;
      throw std::runtime_error("no connection");
    }
    if (troubled() && one_in(40)) {
      note(where.name + " is slow before a call");
      others_go_on(where, static_cast<int>(pick(6)));
    }
  }

  void meet_commit(place& where, transaction& open) {
    if (troubled() && on_.writes_beside() && one_in(20)) {
      note(where.name + " is slow before a commit");
      ++open_;
      others_go_on(where, static_cast<int>(pick(4)));
      --open_;
    }
    if (where.dead) {
      throw std::runtime_error("dead before its commit");
    }
    if (std::exchange(where.cuts_next, false)) {
      note(where.name + ": its transaction is ended");
      on_.cut(open);
    }
  }

  void meet_answer(place& where) {
    for (const auto& [key, fence] : where.drawn) {
      fences_[key] = fence;
    }
    where.drawn.clear();
    if (std::exchange(where.loses_answer, false)) {
      note(where.name + ": an answer is lost");
      throw std::runtime_error("the answer was lost");
    }
    if (troubled() && one_in(40)) {
      note(where.name + " is slow after a commit");
      others_go_on(where, static_cast<int>(pick(30)));
    }
  }

  // What a node reports must have a reason.
  void told(place& where, const failure& what) {
    if (what.what == "handler" || (what.what == "unhandled" && where.number % 2 == 1)) {  // see `start`
      return;
    }
    const std::string text = text_of(what.error);
    note(where.name + " reports " + std::string(what.what) + ": " + text);
    wrong_if(calm_ && !(what.what == "store" && locked()), "without a fault, " + where.name + ": " + text);
    wrong_if(text.find("SQLSTATE 57014") != std::string::npos, where.name + " waits for a lock: " + text);
  }

  [[nodiscard]] bool locked() const {
    return open_ != 0 || std::any_of(users_.begin(), users_.end(), [](const user& one) { return one.open != nullptr; });
  }

  // ---- handlers

  // Whoever honours the fence refuses a late run that was overtaken.
  outcome run_leased(place& where, const job& what) {
    bool late = false;
    if (troubled() && !where.stopped && depth_ == 0 && one_in(8)) {  // SIGSTOP between the look at its lease and this
      note(where.name + " is stopped before its handler");
      late = true;
      others_go_on(where, static_cast<int>(pick(80)));
    }
    const std::optional<std::size_t> number = begin(where, what);
    if (!number || (late && what.fence() < fences_[what.key()])) {
      return done;
    }
    raise_fence(where, what);
    wrong_if(calm_ && !in_handler_.insert(what.key()).second, what.key() + " runs twice at once");
    if (!settled_ && depth_ == 0 && one_in(6)) {  // a long job: its node extends the lease
      note(where.name + " runs " + what.key() + " for long");
      ++depth_;
      live(static_cast<int>(pick(40)));
      --depth_;
    }
    in_handler_.erase(what.key());
    return end_run(*number);
  }

  // What is called once more in its transaction was undone there: it has not run.
  outcome run_transactional(place& where, transaction& open, const job& what) {
    const auto undone = where.before.find(what.fence());
    const bool repeated = undone != where.before.end();
    if (repeated) {
      lives_[written_.at(what.payload())] = undone->second;
    } else if (const auto written = written_.find(what.payload()); written != written_.end()) {
      where.before[what.fence()] = lives_[written->second];
    }
    const std::optional<std::size_t> number = begin(where, what);
    if (!number) {
      return done;
    }
    if (!repeated) {
      raise_fence(where, what);
    }
    const bool first =
        open.schedule({.kind = "effect", .key = std::to_string(*number), .payload = {}, .due = 24h * 365}).inserted;
    wrong_if(!first, what.key() + " has its effect twice");
    return end_run(*number);
  }

  // \returns the life that it is of.
  std::optional<std::size_t> begin(const place& where, const job& what) {
    note(where.name + " runs " + what.key() + " payload " + what.payload() + " fence " + std::to_string(what.fence()));
    const auto written = written_.find(what.payload());
    if (written == written_.end()) {
      wrong_if(true, what.key() + " runs, and was never committed");
      return std::nullopt;
    }
    life& one = lives_[written->second];
    ++one.begun;
    wrong_if(one.cancelled, what.key() + " runs after its cancel");
    wrong_if(one.payload != what.payload(), what.key() + " runs with a payload that was replaced");
    wrong_if(on_.now() < one.due || on_.now() < what.due(), what.key() + " runs early");
    wrong_if(calm_ && one.done != 0, what.key() + " runs again without a fault");
    const auto paused = paused_.find(kind_of(what.key()));
    wrong_if(calm_ && paused != paused_.end() && on_.now() > paused->second + 3s,
             what.key() + " runs though its kind is paused");
    return written->second;
  }

  void raise_fence(place& where, const job& what) {
    std::int64_t& highest = fences_[what.key()];
    wrong_if(what.fence() <= highest, what.key() + " has a fence that did not rise");
    if (on_.keeps_undone_fences() || !is_transactional(what.key())) {
      highest = what.fence();
    } else {
      where.drawn[what.key()] = what.fence();
    }
  }

  outcome end_run(std::size_t number) {
    life& one = lives_[number];
    switch (pick(8)) {
      case 0:
        ++one.put_off;
        throw std::runtime_error("handler");
      case 1:
        ++one.put_off;
        return retry_after(milliseconds(pick(3000)));
      default:
        ++one.done;
        return done;
    }
  }

  // ---- what happens

  void happen() {
    for (user& one : users_) {
      constexpr int longest = 6;  // shorter than what a lease has left when it is extended
      if (one.open && (++one.age == longest || one_in(3))) {
        end(one);
      }
    }
    user& who = users_[pick(users_.size())];
    switch (pick(10)) {
      case 0:
      case 1:
      case 2:
        call_store();
        break;
      case 3:
      case 4:
      case 5:
        call_in_own(who);
        break;
      case 6:
        trouble(*nodes_[pick(nodes_.size())]);
        break;
      case 7:
        pause_or_resume(one_in(2) ? "leased" : "transactional");
        break;
      default:
        break;
    }
  }

  void trouble(place& where) {
    const std::size_t what = pick(6);
    if (!troubled()) {
      return;
    }
    constexpr const char* names[] = {" dies", " is frozen", " fails", " loses an answer", " loses a transaction",
                                     " dies"};
    note(where.name + names[what]);
    switch (what) {
      case 1:  // SIGSTOP, for longer than the lease perhaps
        where.frozen = static_cast<int>(pick(80));
        break;
      case 2:
        where.fails_next = static_cast<unsigned>(pick(5));
        break;
      case 3:
        where.loses_answer = true;
        break;
      case 4:
        where.cuts_next = true;
        break;
      default:  // kill -9, and a new process
        where.dead = true;
        where.frozen = 0;
        break;
    }
  }

  // What is paused is resumed before long.
  void pause_or_resume(const std::string& kind) {
    const bool was = paused_.contains(kind);
    if (!was && !one_in(4)) {
      return;
    }
    try {
      const bool changed = was ? users_store().resume(kind) : users_store().pause(kind);
      note("user: " + std::string(was ? "resumes " : "pauses ") + kind);
      wrong_if(!changed, kind + ": a pause does not tell the truth");
    } catch (const std::exception& error) {
      refused(error);
      return;
    }
    was ? static_cast<void>(paused_.erase(kind)) : static_cast<void>(paused_.emplace(kind, on_.now()));
  }

  // A transaction of the store.
  void call_store() {
    user alone;
    struct undo {};
    const bool undone = one_in(6);
    try {
      users_store().transact_within({.lock_wait = 1ms}, [&](store_transaction& open) {
        store_calls calls(open);
        for (std::size_t i = pick(3) + 1; i > 0; --i) {
          call(alone, calls);
        }
        if (undone) {
          throw undo();
        }
      });
    } catch (const undo&) {
      note("user: rolls back");
      return;
    } catch (const std::exception& error) {
      refused(error);
      return;
    }
    committed(alone);
  }

  // A transaction of a user's own, which stays open for a while.
  void call_in_own(user& who) {
    if (calm_ && !who.open && on_.now() < last_end_ + 1s) {  // a file would be locked for longer than a lease
      return;
    }
    try {
      if (!who.open) {
        who = {};
        who.open = on_.begin(static_cast<std::size_t>(&who - users_.data()));
      }
      if (who.open) {
        call(who, *who.open);
      }
    } catch (const std::exception& error) {
      const bool was_open = who.open != nullptr;
      who = {};
      refused(error);
      note(was_open ? "user: rolls back" : "user: cannot begin");
    }
  }

  // A user is refused only where somebody else has written, and not committed.
  void refused(const std::exception& error) {
    note(std::string("user: ") + error.what());
    const std::string text = error.what();
    wrong_if(text.find("lock") == std::string::npos || !locked(), "a user is refused without a fault: " + text);
  }

  void end(user& who) {
    if (!who.open) {
      return;
    }
    const std::size_t how = pick(6);
    note("user: " + std::string(how == 0 ? "rolls back" : how == 1 ? "is cut off" : "commits"));
    if (how == 1) {
      who.open->cut();
    } else if (how > 1) {
      who.open->commit();
      who.open.reset();
      committed(who);
    }
    who = {};
    last_end_ = on_.now();
  }

  static void committed(user& who) {
    for (const auto& each : who.at_commit) {
      each();
    }
    who.at_commit.clear();
  }

  // ---- users' calls, and what they must answer

  due_time some_time() {
    if (one_in(6)) {  // as if it was committed late
      return on_.now() - microseconds(pick(3'000'000));
    }
    if (one_in(4) && last_due_ > on_.now()) {  // just after another one: an end may wait for its claim
      return last_due_ + microseconds(pick(3'000));
    }
    last_due_ = on_.now() + microseconds(pick(one_in(4) ? 20'000'000 : 2'000'000));
    return last_due_;
  }

  struct truth {
    bool there = false;
    bool pending = false;
    instant due{};
  };
  truth truth_of(const user& who, const std::string& key) {
    if (const auto own = who.changed.find(key); own != who.changed.end()) {
      return {own->second.there, own->second.there, own->second.due};
    }
    if (const auto found = users_store().find(kind_of(key), key)) {
      return {true, !found->running, found->due};
    }
    check_over(key, "though it is gone");
    return {};
  }

  void call(user& who, users_calls& calls) {
    const std::string key = (one_in(2) ? "t" : "l") + std::to_string(pick(6));
    const truth before = truth_of(who, key);
    switch (pick(5)) {
      case 0:
      case 1:
        schedule(who, calls, key, before, false);
        break;
      case 2:
        schedule(who, calls, key, before, true);
        break;
      case 3:
        cancel(who, calls, key, before);
        break;
      default:
        reschedule(who, calls, key, before);
        break;
    }
  }

  void schedule(user& who, users_calls& calls, const std::string& key, const truth& before, bool replace) {
    const due_time when = some_time();
    const microseconds window = one_in(2) ? 0us : microseconds(pick(2) * 1'000'000 + pick(3));
    const window_use within = one_in(2) ? window_use::spread : window_use::gather;
    const std::string payload = std::to_string(++payloads_);
    const scheduled got = calls.schedule({.kind = kind_of(key),
                                          .key = key,
                                          .payload = payload,
                                          .due = when,
                                          .replace = replace,
                                          .window = window,
                                          .within = within});
    note("user: schedules " + key + " payload " + payload +
         (got.inserted   ? ": new"
          : got.replaced ? ": replaced"
                         : ": there"));
    const bool replaces = replace && before.there && before.pending;
    wrong_if(got.inserted == before.there || got.replaced != replaces, key + ": schedule does not tell the truth");
    const bool written = got.inserted || got.replaced;
    if (!written) {
      wrong_if(got.due != before.due, key + ": schedule tells another deadline");
      return;
    }
    const microseconds put_off = got.due - when.at(on_.now());
    wrong_if(put_off < 0us || put_off > std::max(0us, window - 1us), key + " is due outside of its window");
    if (within == window_use::gather) {
      wrong_if(window > 0us && got.due.time_since_epoch() % window != 0us, key + " is due apart from what it shares");
    } else {
      const auto known = places_.emplace(std::pair(key, window), put_off).first;
      wrong_if(put_off != known->second, key + " has two places in one window");
    }
    who.changed[key] = {true, got.due};
    who.at_commit.emplace_back([this, key, payload, got] { wrote(key, payload, got); });
  }

  void wrote(const std::string& key, const std::string& payload, const scheduled& what) {
    if (what.inserted) {
      check_over(key, "though its key was free");
      current_[key] = lives_.size();
      lives_.emplace_back().key = key;
    }
    life& one = lives_[current_.at(key)];
    one.payload = payload;
    one.due = what.due;
    written_[payload] = current_.at(key);
  }

  void cancel(user& who, users_calls& calls, const std::string& key, const truth& before) {
    const cancel_result got = calls.cancel(kind_of(key), key);
    note("user: cancels " + key + ": " + to_string(got));
    wrong_if(got != (!before.there     ? cancel_result::finished
                     : !before.pending ? cancel_result::running
                                       : cancel_result::cancelled),
             key + ": cancel does not tell the truth");
    if (got != cancel_result::cancelled) {
      return;
    }
    who.changed[key] = {};
    who.at_commit.emplace_back([this, key] {
      life& one = lives_[current_.at(key)];
      wrong_if(!is_transactional(key) && one.done != 0, key + " was cancelled, and has run");
      one.cancelled = true;
    });
  }

  void reschedule(user& who, users_calls& calls, const std::string& key, const truth& before) {
    const due_time when = some_time();
    const instant due = when.at(on_.now());
    const reschedule_result got = calls.reschedule(kind_of(key), key, when);
    note("user: reschedules " + key + ": " + to_string(got));
    wrong_if(got != (!before.there     ? reschedule_result::finished
                     : !before.pending ? reschedule_result::running
                                       : reschedule_result::moved),
             key + ": reschedule does not tell the truth");
    if (got != reschedule_result::moved) {
      return;
    }
    who.changed[key] = {true, due};
    who.at_commit.emplace_back([this, key, due] { lives_[current_.at(key)].due = due; });
  }

  // ---- the judge

  bool has_effect(std::size_t number) { return users_store().find("effect", std::to_string(number)).has_value(); }

  // What is gone was cancelled, or has run.
  void check_over(const std::string& key, const char* when) {
    const auto last = current_.find(key);
    if (last == current_.end()) {
      return;
    }
    const life& one = lives_[last->second];
    const bool ran = is_transactional(key) ? has_effect(last->second) : one.done != 0;
    wrong_if(!one.cancelled && !ran, key + " was lost, " + when);
  }

  // Of these kinds, whatever their time.
  std::size_t rows(const std::vector<std::string>& kinds) {
    std::vector<upcoming> found;
    users_store().read_ahead({.until = instant::max(), .limit = 100'000, .kinds = kinds}, found);
    return found.size();
  }
  bool over() { return rows({"leased", "transactional"}) == 0; }

  ground& on_;
  verdict& said_;
  std::mt19937_64 random_;
  const bool divided_;
  bool calm_ = false;  // no faults
  bool settled_ = false;
  instant last_due_{};  // that a check was given by chance
  int depth_ = 0;       // of programs within a call
  unsigned open_ = 0;   // transactions of nodes
  std::optional<instant> begin_;
  std::vector<std::unique_ptr<place>> nodes_;
  std::vector<user> users_;
  instant last_end_{};  // of a user's own transaction

  std::size_t payloads_ = 0;
  std::vector<life> lives_;                     // that were committed
  std::map<std::string, std::size_t> current_;  // by key: its last life
  std::map<std::string, std::size_t> written_;  // by payload: its life
  std::map<std::string, std::int64_t> fences_;
  std::set<std::string> in_handler_;
  std::map<std::string, instant> paused_;                                // by kind: since when
  std::map<std::pair<std::string, microseconds>, microseconds> places_;  // by key and window: where it was spread
};

}  // namespace

verdict run_program(ground& on, std::uint64_t seed, int steps) {
  verdict said;
  world all(on, seed, said);
  try {
    all.live(steps);
    all.settle();
    if (said.wrong.empty()) {
      all.judge();
    }
  } catch (const std::exception& error) {
    all.wrong_if(true, error.what());
  }
  return said;
}

// What has gone wrong in a program has gone wrong in a longer one, so a search by halves finds the shortest; but for
// what shows at the end only.
std::string shortest_failure(ground& on, std::string_view store, std::uint64_t seed, int steps) {
  verdict said = run_program(on, seed, steps);
  if (said.wrong.empty()) {
    return {};
  }
  for (int fewest = 1; fewest < steps;) {
    const int tried = fewest + (steps - fewest) / 2;
    if (verdict shorter = run_program(on, seed, tried); shorter.wrong.empty()) {
      fewest = tried + 1;
    } else {
      said = std::move(shorter);
      steps = tried;
    }
  }
  std::string text;
  for (const std::string& each : said.events) {
    text.append("  ").append(each).append("\n");
  }
  return text.append("durable_random --store ").append(store).append(" --seed ").append(std::to_string(seed)) +
         " --steps " + std::to_string(steps) + ": " + said.wrong.front() + "\n";
}

}  // namespace timing_wheel::durable::test
