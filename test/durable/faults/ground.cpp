#include "durable/faults/ground.hpp"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include "durable/faults/scarce.hpp"
#include "durable/node/node.hpp"
#include "durable/support/site.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable::test {
namespace {

using namespace std::chrono_literals;

scheduler_options options(std::chrono::milliseconds poll) {
  return {.look_ahead = 4 * poll,
          .poll = poll,
          .lease = 2s,
          .batch = 20,
          .max_claimed = 30,
          .max_known = 400,
          .on_failure = [](const failure& /*what*/) {}};
}

any_handler handler_of(const kind_to_run& kind) {
  return kind.leased  ? any_handler(kind.leased)
         : kind.batch ? any_handler(kind.batch)
                      : any_handler(kind.transactional);
}

class scheduler_life final : public life {
 public:
  template <class... Driver>
  explicit scheduler_life(store& where, const std::vector<kind_to_run>& kinds, std::chrono::milliseconds poll,
                          Driver&... by)
      : checks_(where, by..., options(poll)) {
    for (const kind_to_run& kind : kinds) {
      if (kind.leased) {
        checks_.on(kind.name, kind.leased, kind.options);
      } else if (kind.batch) {
        checks_.on(kind.name, kind.batch, kind.options);
      } else {
        checks_.on(kind.name, kind.transactional, kind.options);
      }
    }
  }
  void start() override { checks_.start(); }
  scheduled schedule(const request& asked) override { return checks_.schedule(asked); }
  std::vector<scheduled> schedule(std::span<const request> asked) override { return checks_.schedule(asked); }
  void schedule(request asked, scheduler::completion then) override {
    checks_.schedule(std::move(asked), std::move(then));
  }
  cancel_result cancel(std::string_view kind, std::string_view key) override { return checks_.cancel(kind, key); }
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) override {
    return checks_.reschedule(kind, key, due);
  }
  void stop() override { checks_.stop(); }

 private:
  scheduler checks_;
};

// A node without a scheduler: its steps are called by hand, and its runs end between them.
class node_life final : public life {
 public:
  node_life(store& where, manual_timer& timer, const std::vector<kind_to_run>& kinds)
      : where_(where),
        timer_(timer),
        node_(
            where, options(100ms), rules_of(kinds), handlers_of(kinds), reported_, [] {}, [this] { ++threads_; }, 64) {}

  void start() override {}
  scheduled schedule(const request& asked) override { return schedule(std::span(&asked, 1)).front(); }
  std::vector<scheduled> schedule(std::span<const request> asked) override {
    std::vector<append_op> ops;
    std::vector<scheduled> results(asked.size());
    ops.reserve(asked.size());
    for (const request& one : asked) {
      ops.push_back({&one});
    }
    where_.transact([&](store_transaction& open) { open.append(ops); });
    for (std::size_t i = 0; i < ops.size(); ++i) {
      results[i] = ops[i].result;
      if (results[i].inserted) {
        node_.expect({ops[i].id, results[i].due, {}, *node_.kind_of(asked[i].kind)});
      }
    }
    return results;
  }
  void schedule(request asked, scheduler::completion then) override { then({}, schedule(asked)); }
  cancel_result cancel(std::string_view kind, std::string_view key) override {
    cancel_op op{kind, key};
    where_.transact([&op](store_transaction& open) { open.cancel({&op, 1}); });
    return op.result;
  }
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) override {
    reschedule_op op{kind, key, due};
    where_.transact([&op](store_transaction& open) { open.reschedule({&op, 1}); });
    return op.result;
  }
  void stop() override {
    node_.close();
    while (!step()) {
      timer_.advance_by(5ms);
    }
  }

  // \returns whether it is idle.
  bool step() {
    try {
      static_cast<void>(node_.step());
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): one more failure, as for the scheduler
    }
    for (; threads_ != 0; --threads_) {
      node_.run_next();
    }
    return node_.idle();
  }

 private:
  static std::vector<kind_rules> rules_of(const std::vector<kind_to_run>& kinds) {
    std::vector<kind_rules> rules;
    for (const kind_to_run& kind : kinds) {
      rules.push_back({kind.name, !kind.leased, kind.options});
    }
    return rules;
  }
  static std::vector<any_handler> handlers_of(const std::vector<kind_to_run>& kinds) {
    std::vector<any_handler> handlers;
    for (const kind_to_run& kind : kinds) {
      handlers.push_back(handler_of(kind));
    }
    return handlers;
  }

  store& where_;
  manual_timer& timer_;
  failures reported_{[](const failure& /*what*/) {}};
  int threads_ = 0;  // on their way
  node node_;
};

// In virtual time.
class in_memory final : public ground {
 public:
  explicit in_memory(bool node_alone) : node_alone_(node_alone) {}

  void open() override {}
  [[nodiscard]] store& where() override { return store_; }
  [[nodiscard]] std::unique_ptr<life> begin(const std::vector<kind_to_run>& kinds) override {
    if (!node_alone_) {
      return std::make_unique<scheduler_life>(store_, kinds, 100ms, timer_);
    }
    auto alone = std::make_unique<node_life>(store_, timer_, kinds);
    alone_ = alone.get();
    return alone;
  }
  void pass(std::chrono::milliseconds time) override {
    for (auto passed = 0ms; passed < time; passed += 5ms) {
      try {
        timer_.advance_by(5ms);
      } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): a clock of the test's own
      }
      if (alone_ != nullptr) {
        static_cast<void>(alone_->step());
      }
    }
  }
  void write_as_user(const request& asked) override {
    store_.transact([&](store_transaction& open) { open.schedule(asked); });
  }

 private:
  const bool node_alone_;
  manual_timer timer_;
  memory_store store_{timer_};
  node_life* alone_ = nullptr;
};

// With threads, and the clock of the database.
class in_database final : public ground {
 public:
  explicit in_database(std::unique_ptr<rig::site> in) : site_(std::move(in)) {}

  void open() override {
    store_.reset();
    store_ = site_->open_store(2s);
    store_->migrate();
  }
  [[nodiscard]] store& where() override { return *store_; }
  [[nodiscard]] std::unique_ptr<life> begin(const std::vector<kind_to_run>& kinds) override {
    return std::make_unique<scheduler_life>(*store_, kinds, 20ms);
  }
  void pass(std::chrono::milliseconds time) override { std::this_thread::sleep_for(time / 5); }
  void write_as_user(const request& asked) override {
    const unlimited own;
    const std::unique_ptr<rig::database> mine = site_->connect();
    mine->begin();
    mine->schedule(asked);
    mine->commit();
  }

 private:
  std::unique_ptr<rig::site> site_;
  std::unique_ptr<store> store_;
};

#ifdef TIMING_WHEEL_RIG_SQLITE
std::unique_ptr<ground> in_file(const std::string& folder) {
  const std::string mine = folder + "/" + std::to_string(getpid());
  std::filesystem::create_directories(mine);
  return std::make_unique<in_database>(rig::sqlite_site(mine + "/checks.db"));
}
#endif

#ifdef TIMING_WHEEL_RIG_POSTGRES
std::unique_ptr<ground> on_server() {
  static const std::unique_ptr<rig::site> server = rig::private_site();  // of the process that the others come from
  return std::make_unique<in_database>(rig::site_of(server->argument()));
}
#endif

}  // namespace

std::vector<ground_choice> all_grounds([[maybe_unused]] const std::string& folder) {
  std::vector<ground_choice> all{
      {"node", false, false, [] { return std::make_unique<in_memory>(true); }},
      {"memory", false, false, [] { return std::make_unique<in_memory>(false); }},
  };
#ifdef TIMING_WHEEL_RIG_SQLITE
  all.push_back({"sqlite", true, false, [folder] { return in_file(folder); }});
#endif
#ifdef TIMING_WHEEL_RIG_POSTGRES
  all.push_back({"postgres", true, true, [] { return on_server(); }});
#endif
  return all;
}

}  // namespace timing_wheel::durable::test
