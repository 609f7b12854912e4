#include "durable/faults/ground.hpp"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include "durable/faults/scarce.hpp"
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

// In virtual time.
class in_memory final : public ground {
 public:
  void open() override {}
  [[nodiscard]] store& where() override { return store_; }
  [[nodiscard]] std::unique_ptr<scheduler> begin() override {
    return std::make_unique<scheduler>(store_, timer_, options(100ms));
  }
  void pass(std::chrono::milliseconds time) override {
    for (auto passed = 0ms; passed < time; passed += 5ms) {
      try {
        timer_.advance_by(5ms);
      } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): a clock of the test's own
      }
    }
  }
  void write_as_user(const request& asked) override {
    store_.transact([&](store_transaction& open) { open.schedule(asked); });
  }

 private:
  manual_timer timer_;
  memory_store store_{timer_};
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
  [[nodiscard]] std::unique_ptr<scheduler> begin() override {
    return std::make_unique<scheduler>(*store_, options(20ms));
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
      {"memory", false, false, [] { return std::make_unique<in_memory>(); }},
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
