#include <sqlite3.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "durable/random/program.hpp"
#include "durable/support/fake_clocks.hpp"
#include "durable/support/scratch_folder.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace timing_wheel::durable::test {

namespace {

using timing_wheel::test::scratch_folder;

struct close_database {
  void operator()(sqlite3* open) const { sqlite3_close(open); }
};
using connection = std::unique_ptr<sqlite3, close_database>;

void execute(sqlite3* on, const char* sql) {
  if (sqlite3_exec(on, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(std::string(sql) + ": " + sqlite3_errmsg(on));
  }
}

class sqlite_users_transaction final : public users_transaction {
 public:
  explicit sqlite_users_transaction(sqlite3* on) : on_(on) { execute(on_, "BEGIN IMMEDIATE"); }
  ~sqlite_users_transaction() override {
    if (sqlite3_get_autocommit(on_) == 0) {
      execute(on_, "ROLLBACK");
    }
  }
  scheduled schedule(const request& asked) override { return durable::schedule(on_, asked); }
  cancel_result cancel(std::string_view kind, std::string_view key) override { return durable::cancel(on_, kind, key); }
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) override {
    return durable::reschedule(on_, kind, key, due);
  }
  void commit() override { execute(on_, "COMMIT"); }
  void cut() override { execute(on_, "ROLLBACK"); }

 private:
  sqlite3* on_;
};

// One file, and a store for each process that uses it. Who finds it locked does not wait: nobody else goes on
// meanwhile.
class sqlite_programs final : public ground {
 public:
  sqlite_programs() {
    for (std::size_t i = 0; i <= most_nodes; ++i) {
      stores_.push_back(
          std::make_unique<sqlite_store>(folder_.file(), sqlite_options{.busy_timeout = std::chrono::milliseconds(0)}));
      stores_.back()->migrate();
    }
    users_.resize(most_users);
    for (connection& each : users_) {
      sqlite3* opened = nullptr;
      sqlite3_open(folder_.file().c_str(), &opened);
      each.reset(opened);
    }
  }
  void reset() override {
    execute(users_.front().get(),
            "BEGIN IMMEDIATE;DELETE FROM timing_wheel_check;DELETE FROM timing_wheel_dead;"
            "DELETE FROM sqlite_sequence;COMMIT");
    fake_clocks::wall = begin_;
    fake_clocks::since_boot = since_boot_;
  }
  void pass(std::chrono::microseconds time) override { fake_clocks::pass(time); }
  instant now() override { return stores_.back()->now(); }
  store& of(std::size_t node) override { return *stores_[node]; }
  std::unique_ptr<users_transaction> begin(std::size_t user) override {
    return std::make_unique<sqlite_users_transaction>(users_[user].get());
  }
  [[nodiscard]] bool writes_beside() const override { return false; }
  [[nodiscard]] bool keeps_undone_fences() const override { return false; }
  [[nodiscard]] bool divides() const override { return false; }
  void cut(transaction& /*open*/) override { throw std::runtime_error("the transaction was ended"); }

 private:
  scratch_folder folder_;
  fake_clocks clocks_;
  const decltype(fake_clocks::wall) begin_ = fake_clocks::wall;
  const std::chrono::nanoseconds since_boot_ = fake_clocks::since_boot;
  std::vector<std::unique_ptr<sqlite_store>> stores_;
  std::vector<connection> users_;
};

}  // namespace

std::unique_ptr<ground> sqlite_ground() { return std::make_unique<sqlite_programs>(); }

}  // namespace timing_wheel::durable::test
