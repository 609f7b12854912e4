#include "durable/faults/scenario.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "durable/faults/scarce.hpp"

namespace timing_wheel::durable::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

enum class fate : std::uint8_t { done, thrown, retried, dead, cancelled };

struct check {
  request asked;
  fate what = fate::done;
  bool transactional = false;
  bool posted = false;
  bool accepted = false;
  std::atomic<int> told{0};  // by a completion
  std::atomic<int> runs{0};
  std::atomic<int> ends{0};
  std::atomic<bool> doubled{false};  // an effect
  std::atomic<bool> threw{false};    // a handler, for want of memory
};

// The library's calls meet scarce memory; all that is the scenario's own has `unlimited`.
class scenario {
 public:
  explicit scenario(ground& on) : on_(on), own_(std::to_string(getpid())) {
    for (const char* kind : {"leased", "transactional", "once", "batch"}) {
      for (const fate what : {fate::done, fate::thrown, fate::retried, fate::dead}) {
        const bool possible = what == fate::done || kind != std::string("once");
        for (int i = 0; possible && i < 3; ++i) {
          add(kind, milliseconds(50 * i), kind == std::string("batch") && what > fate::thrown ? fate::done : what);
        }
      }
    }
  }

  report run(std::uint64_t first, std::uint64_t many) {
    report said;
    make_scarce(first, many);
    begin();
    write();
    on_.pass(1s);
    end();
    begin();
    on_.pass(400ms);
    said.allocations = make_plentiful();
    said.how = come_to_an_end() ? verdict::good : restart();
    end();
    judge(said);
    return said;
  }

 private:
  std::string named(const std::string& kind) const {
    const unlimited own;
    return kind + own_;
  }

  check& add(const std::string& kind, due_time due, fate what = fate::done) {
    const std::string key = own_ + "-" + std::to_string(checks_.size());
    const std::scoped_lock lock(adding_);
    check& one = checks_.emplace_back();
    one.asked = {.kind = named(kind), .key = key, .payload = "p", .due = due};
    one.what = what;
    one.transactional = !kind.starts_with("leased");
    return one;
  }

  // ---- handlers

  check& check_of(const job& what) {
    const std::scoped_lock lock(adding_);
    return checks_.at(std::stoul(what.key().substr(own_.size() + 1)));
  }

  outcome run_one(const job& what, transaction* open) {
    check* one = nullptr;
    bool first = false;
    {
      const unlimited own;
      one = &check_of(what);
      first = one->runs++ == 0;
    }
    if (open != nullptr && one->what != fate::dead) {
      write_effect(*open, *one);
    }
    if (one->what == fate::dead) {
      return dead("it is asked for, at some length");
    }
    if (first && one->what == fate::thrown) {
      throw std::runtime_error("the first run of some fails, as it is asked to");
    }
    if (first && one->what == fate::retried) {
      return retry_after(20ms, "it is asked for, at some length");
    }
    ++one->ends;
    return done;
  }

  void write_effect(transaction& open, check& of) {
    request effect;
    {
      const unlimited own;
      effect = {.kind = named("effect"), .key = of.asked.key, .payload = {}, .due = 24h};
    }
    try {
      of.doubled = of.doubled || !open.schedule(effect).inserted;
    } catch (...) {
      of.threw = true;
      throw;
    }
  }

  void add_handlers(scheduler& to) {
    const handler_options often{.backoff = {.first = 10ms, .most = 50ms}};
    handler_options once = often;
    once.max_attempts = 1;
    const auto within = [this](transaction& open, const job& what) { return run_one(what, &open); };
    const auto together = [this](transaction& open, std::span<const job> jobs) {
      for (const job& what : jobs) {
        static_cast<void>(run_one(what, &open));
      }
    };
    to.on(
        named("leased"), [this](const job& what) { return run_one(what, nullptr); }, often);
    to.on(named("transactional"), within, often);
    to.on(named("once"), within, once);
    to.on(named("batch"), together, often);
  }

  // ---- the way

  // What is refused for want of memory is asked for again. \returns whether it was refused at all.
  template <class Call>
  static bool again(const Call& call) {
    for (int tries = 0;; ++tries) {
      try {
        call();
        return tries != 0;
      } catch (const std::exception&) {
        if (tries == 100) {
          throw;
        }
      }
    }
  }

  void begin() {
    again([&] { on_.open(); });
    again([&] {
      alive_ = on_.begin();
      add_handlers(*alive_);
    });
    again([&] { alive_->start(); });
  }

  void end() {
    again([&] { alive_->stop(); });
    alive_.reset();
  }

  template <class Call>
  static bool accepts(const Call& call) {
    try {
      call();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  check& added(const char* kind, due_time due, fate what = fate::done) {
    const unlimited own;
    return add(kind, due, what);
  }
  [[nodiscard]] static request copy_of(const request& asked) {
    const unlimited own;
    return asked;
  }

  void write() {
    const std::size_t before = checks_.size();
    for (std::size_t i = 0; i < before; ++i) {
      write_alone(checks_[i]);
    }
    write_list();
    for (const char* kind : {"leased", "leased", "transactional", "transactional", "batch", "once"}) {
      post(added(kind, 30ms));
    }
    for (const char* kind : {"leased", "transactional"}) {
      cancel(added(kind, 1h, fate::cancelled));
      move(added(kind, 1h));
      replace(added(kind, 1h));
      write_twice(added(kind, 500ms));
      check& users = added(kind, 40ms);
      users.accepted = accepts([&] { on_.write_as_user(users.asked); });
    }
  }

  void write_alone(check& one) {
    one.accepted = accepts([&] { static_cast<void>(alive_->schedule(one.asked)); });
  }

  void write_list() {
    std::vector<check*> some;
    std::vector<request> list;
    {
      const unlimited own;
      for (const char* kind : {"leased", "leased", "transactional", "batch", "once", "leased"}) {
        some.push_back(&add(kind, 20ms));
        list.push_back(some.back()->asked);
      }
    }
    const bool accepted = accepts([&] { static_cast<void>(alive_->schedule(std::span<const request>(list))); });
    std::for_each(some.begin(), some.end(), [&](check* one) { one->accepted = accepted; });
  }

  void post(check& one) {
    request asked = copy_of(one.asked);
    one.posted = accepts([&] {
      alive_->schedule(std::move(asked), [&one](std::error_code failed, const scheduled& /*result*/) {
        one.accepted = !failed;
        ++one.told;
      });
    });
  }

  void cancel(check& one) {
    write_alone(one);
    cancel_result result{};
    again([&] { result = alive_->cancel(one.asked.kind, one.asked.key); });
    expect(one, result == (one.accepted ? cancel_result::cancelled : cancel_result::finished), "cancelled");
  }

  void move(check& one) {
    write_alone(one);
    reschedule_result result{};
    again([&] { result = alive_->reschedule(one.asked.kind, one.asked.key, 50ms); });
    expect(one, result == (one.accepted ? reschedule_result::moved : reschedule_result::finished), "moved");
  }

  void replace(check& one) {
    write_alone(one);
    request anew = copy_of(one.asked);
    anew.due = 50ms;
    anew.replace = true;
    scheduled result;
    again([&] { result = alive_->schedule(anew); });
    expect(one, result.replaced == one.accepted && result.inserted == !one.accepted, "replaced");
    one.accepted = true;
  }

  void write_twice(check& one) {
    write_alone(one);
    scheduled result;
    again([&] { result = alive_->schedule(one.asked); });
    expect(one, result.inserted == !one.accepted, "a double");
    one.accepted = true;
  }

  // ---- the end

  void expect(const check& of, bool good, const char* what) {
    if (!good && wrong_.empty()) {
      const unlimited own;
      wrong_ = "refused, and written: " + of.asked.kind + " " + of.asked.key + ", " + what;
    }
  }

  [[nodiscard]] bool is_over(const check& one) { return !on_.where().find(one.asked.kind, one.asked.key).has_value(); }

  // Patience is for more than a lease, as both clocks count it, and less than a sweep, which finds what is stuck.
  bool come_to_an_end() {
    for (int i = 0; i < 150; ++i) {
      if (std::all_of(checks_.begin(), checks_.end(), [this](const check& one) { return is_over(one); })) {
        return true;
      }
      on_.pass(150ms);
    }
    return false;
  }

  verdict restart() {
    end();
    begin();
    return come_to_an_end() ? verdict::stuck : verdict::lost;
  }

  [[nodiscard]] bool is_dead(const check& one) {
    return std::any_of(dead_.begin(), dead_.end(), [&](const dead_check& other) {
      return other.kind == one.asked.kind && other.key == one.asked.key;
    });
  }

  verdict judge_one(const check& one) {
    if (one.told != (one.posted ? 1 : 0)) {
      return verdict::completion_lost;
    }
    if (!one.accepted || one.what == fate::cancelled) {
      return one.runs == 0 ? verdict::good : verdict::refused_but_ran;
    }
    const bool has_effect = on_.where().find(named("effect"), one.asked.key).has_value();
    const bool may_be_dead = one.threw && one.asked.kind.starts_with("once");
    const bool is_done = one.ends > 0 && !is_dead(one) && has_effect == one.transactional;
    const bool has_died = one.ends == 0 && is_dead(one) && !has_effect;
    const bool ends = one.what == fate::dead ? has_died : is_done || (may_be_dead && has_died);
    return ends && !one.doubled ? verdict::good : verdict::wrong;
  }

  void judge(report& said) {
    dead_ = on_.where().list_dead(100'000);
    if (!wrong_.empty()) {
      said.how = std::max(said.how, verdict::refused_but_ran);
      said.about = wrong_;
    }
    for (const check& one : checks_) {
      const verdict how = judge_one(one);
      if (how != verdict::good && said.about.empty()) {
        said.about = one.asked.kind + " " + one.asked.key + ": fate " + std::to_string(static_cast<int>(one.what)) +
                     ", runs " + std::to_string(one.runs) + ", ends " + std::to_string(one.ends) + ", told " +
                     std::to_string(one.told);
      }
      said.how = std::max(said.how, how);
    }
  }

  ground& on_;
  const std::string own_;  // so that runs do not meet in a database
  std::mutex adding_;      // guards how many there are: handlers look one up while others are added
  std::deque<check> checks_;
  std::unique_ptr<scheduler> alive_;
  std::vector<dead_check> dead_;
  std::string wrong_;
};

}  // namespace

report run_scenario(ground& on, std::uint64_t first, std::uint64_t many) { return scenario(on).run(first, many); }

}  // namespace timing_wheel::durable::test
