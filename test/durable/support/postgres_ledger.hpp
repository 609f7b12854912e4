#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "durable/support/ledger.hpp"
#include "durable/support/private_postgres.hpp"
#include "durable/support/site.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/error.hpp"

// What tests with faults share: handlers that write down each run in the database of the checks, and a judge who reads
// it. Kinds are "transactional" and "leased"; a leased one writes through a connection of its own, as another service
// would. Its payload is how many milliseconds it takes.

namespace timing_wheel::durable::test {

using namespace std::chrono_literals;
using timing_wheel::test::sql_session;

inline const std::array<std::string, 2> ledger_kinds = {"transactional", "leased"};

/// Tables, anew.
inline void make_ledger(const std::string& conninfo) {
  const std::unique_ptr<rig::database> own = rig::postgres_site(conninfo)->connect();
  own->run("DROP SCHEMA IF EXISTS timing_wheel CASCADE");
  rig::make_ledger(*own);
  own->run("DROP TABLE IF EXISTS effect; CREATE TABLE effect(id text PRIMARY KEY,fence bigint)");
  postgres_store(conninfo).migrate();
}

/// In the transaction of a handler.
inline void write_run(transaction& open, const job& what) {
  const std::unique_ptr<rig::database> in = rig::postgres_site({})->within(open);
  rig::write_run(*in, what, in->now());
}

/// Adds the handlers. A leased one goes to `conninfo`.
inline void serve(scheduler& checks, const std::string& conninfo) {
  const handler_options patient{.max_attempts = 1'000'000, .backoff = {.first = 20ms, .most = 200ms}};
  const std::shared_ptr<const rig::site> where = rig::postgres_site(conninfo);
  checks.on(
      "transactional", [](transaction& open, const job& what) { write_run(open, what); }, patient);
  checks.on(
      "leased",
      [where](const job& what) {
        const std::unique_ptr<rig::database> other = where->connect();
        rig::write_run(*other, what, other->now());
        std::this_thread::sleep_for(std::chrono::milliseconds(what.payload().empty() ? 0 : std::stoi(what.payload())));
        other->run("INSERT INTO effect(id,fence) VALUES('" + what.key() +
                       "',$1) ON CONFLICT(id) DO UPDATE SET fence=excluded.fence WHERE effect.fence<excluded.fence",
                   what.fence());
      },
      patient);
}

/// A node in this process.
struct node {
  explicit node(const std::string& conninfo, std::chrono::milliseconds lease = 500ms, const std::string& effects = {},
                const postgres_options& options = {.statement_timeout = 2s, .transaction_timeout = 1s})
      : store(conninfo, options),
        checks(store, {.look_ahead = 200ms,
                       .poll = 20ms,
                       .lease = lease,
                       .tick = std::min<std::chrono::milliseconds>(1ms, lease / 6),
                       .on_failure = [](const failure&) {}}) {
    serve(checks, effects.empty() ? conninfo : effects);
    checks.start();
  }

  postgres_store store;
  scheduler checks;
};

/// Schedules so many in turn of each kind, `every` one after the other, and remembers what was promised. What was not
/// may run all the same: so it is not asked for again, as it may have run by then, and be a new check.
inline std::vector<std::string> schedule_all(scheduler& checks, std::size_t count, std::chrono::milliseconds every,
                                             std::chrono::milliseconds due = 100ms) {
  std::vector<std::string> promised;
  const auto end = std::chrono::steady_clock::now() + 60s;
  for (std::size_t number = 0; promised.size() < count; ++number) {
    const std::string key = std::to_string(number);
    try {
      checks.schedule({.kind = ledger_kinds[number % 2], .key = key, .due = due});
      promised.push_back(key);
    } catch (const timer_error&) {
      if (std::chrono::steady_clock::now() > end) {
        throw;
      }
    }
    std::this_thread::sleep_for(every);
  }
  return promised;
}

/// All that was promised ran, the transactional ones once; none early; no two runs with one fence; nothing is left.
inline void judge(const std::string& conninfo, const std::vector<std::string>& promised) {
  const sql_session own(conninfo);
  std::set<std::string> ran;
  for (const auto& row : own.rows("SELECT DISTINCT id FROM run")) {
    ran.insert(row.front());
  }
  const auto lost = std::count_if(promised.begin(), promised.end(), [&](const auto& id) { return !ran.contains(id); });
  EXPECT_EQ(lost, 0) << "of " << promised.size();
  const std::unique_ptr<rig::site> where = rig::postgres_site(conninfo);
  for (const auto& [what, times] : rig::faults_in(*where->connect(), *where)) {
    EXPECT_EQ(times, 0) << what;
  }
  EXPECT_EQ(own.ask("SELECT count(*) FROM run WHERE kind='leased' AND NOT EXISTS(SELECT 1 FROM effect WHERE "
                    "effect.id=run.id AND effect.fence>=run.fence)"),
            "0");
  EXPECT_EQ(own.ask("SELECT count(*) FROM timing_wheel.check"), "0");
}

}  // namespace timing_wheel::durable::test
