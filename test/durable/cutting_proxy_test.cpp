#include "durable/support/cutting_proxy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "durable/support/private_postgres.hpp"

namespace timing_wheel::test {
namespace {

using fault = cutting_proxy::fault;
using testing::Contains;

class CuttingProxy : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  static void SetUpTestSuite() { server.emplace(); }
  static void TearDownTestSuite() { server.reset(); }

  CuttingProxy() { server->execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept(n int)"); }

  static std::string kept() { return server->ask("SELECT count(*) FROM kept"); }
  /// With the messages that a prepared statement takes.
  static void insert(const postgres_session& on) {
    PGresult* const done =
        PQexecParams(on.get(), "INSERT INTO kept VALUES(1)", 0, nullptr, nullptr, nullptr, nullptr, 0);
    const bool good = PQresultStatus(done) == PGRES_COMMAND_OK;
    PQclear(done);
    if (!good) {
      throw std::runtime_error(PQerrorMessage(on.get()));
    }
  }

  static inline std::optional<private_postgres> server;
  cutting_proxy proxy{server->socket()};
};

TEST_F(CuttingProxy, ForwardsAll) {
  const postgres_session client(proxy.conninfo());
  EXPECT_EQ(client.ask("SELECT length(repeat('x',1000000))"), "1000000");
  EXPECT_EQ(client.ask("SELECT repeat('x',1000000)").size(), 1'000'000U);
  insert(client);
  EXPECT_EQ(client.ask("SELECT length('" + std::string(1'000'000, 'y') + "')"), "1000000");
  EXPECT_EQ(kept(), "1");
  EXPECT_THAT(proxy.statements(), Contains("INSERT INTO kept VALUES(1)"));
}

TEST_F(CuttingProxy, LosesTheAnswerToACommit) {
  const postgres_session client(proxy.conninfo());
  client.execute("BEGIN");
  client.execute("INSERT INTO kept VALUES(1)");
  proxy.plan(fault::cut_after, begins_with("commit"));
  EXPECT_THROW(client.execute("COMMIT"), std::runtime_error);
  EXPECT_EQ(kept(), "1");
  EXPECT_EQ(proxy.faults(), 1);
  EXPECT_EQ(postgres_session(proxy.conninfo()).ask("SELECT 1"), "1");
}

TEST_F(CuttingProxy, LosesTheAnswerToAStatementOfItsOwn) {
  const postgres_session client(proxy.conninfo());
  proxy.plan(fault::cut_after, has("into KEPT"), 2);
  insert(client);
  EXPECT_THROW(insert(client), std::runtime_error);
  EXPECT_EQ(kept(), "2");
}

TEST_F(CuttingProxy, LosesACommit) {
  const postgres_session client(proxy.conninfo());
  client.execute("BEGIN");
  insert(client);
  proxy.plan(fault::cut_before, begins_with("COMMIT"));
  EXPECT_THROW(client.execute("COMMIT"), std::runtime_error);
  EXPECT_EQ(kept(), "0");
}

}  // namespace
}  // namespace timing_wheel::test
