// What a lease survives: transactions that last, of a handler and of a user.

#include "durable/support/long_jobs.hpp"
#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteLeases : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  static constexpr auto lease = 2000ms;

  SqliteLeases() { sqlite_store(folder_.file()).migrate(); }

  [[nodiscard]] long_jobs::store_maker stores() const {
    return [this] {
      sqlite_options options;
      options.busy_timeout = 300ms;
      return std::make_unique<sqlite_store>(folder_.file(), options);
    };
  }
  // Nobody else can write meanwhile; readers see nothing of it.
  void write_for(std::chrono::milliseconds time) {
    users_database user(folder_.file());
    user.run("PRAGMA busy_timeout=10000; BEGIN IMMEDIATE");
    std::this_thread::sleep_for(time);
    user.run("ROLLBACK");
  }

  const scratch_folder folder_;
};

TEST_F(SqliteLeases, AWriteTransactionOfAUserDoublesNoRun) {
  expect_that_an_outage_doubles_no_run(stores(), lease, [this] { write_for(3 * lease); });
}
TEST_F(SqliteLeases, NorOneThatEndsJustAfterTheLeases) {
  expect_that_an_outage_doubles_no_run(stores(), lease, [this] { write_for(lease + lease / 10); });
}
TEST_F(SqliteLeases, ADeathWhileAUserWritesIsSeen) {
  expect_that_a_death_in_an_outage_is_seen(stores(), lease, [this] { write_for(2 * lease); });
}

TEST_F(SqliteLeases, ATransactionalHandlerDoublesNoRun) {
  expect_that_a_transactional_handler_doubles_no_run(stores(), lease, 2 * lease);  // it keeps the file's lock
}

}  // namespace
}  // namespace timing_wheel::durable::test
