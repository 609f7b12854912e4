#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "durable/support/site.hpp"
#include "timing_wheel/durable/job.hpp"

// One ledger for all who kill nodes: a table with a row for each run of a check, in the database of the checks. A
// transactional handler adds its row within its transaction; a leased one on a connection of its own, as another
// service would.

namespace timing_wheel::rig {

/// Makes the table anew. Times are microseconds of the clock of the checks. `worker` ran it; `number` is what its key
/// means to the caller, who may join by it.
inline void make_ledger(database& in) {
  in.run(
      "DROP TABLE IF EXISTS run; CREATE TABLE run(id TEXT NOT NULL,kind TEXT NOT NULL,fence BIGINT NOT NULL,"
      "due BIGINT NOT NULL,at BIGINT NOT NULL,worker BIGINT NOT NULL,number BIGINT NOT NULL)");
}

/// \param at when, as the caller knows the clock of the checks. Precondition: no quotes in the key.
inline void write_run(database& in, const durable::job& what, std::int64_t at, std::int64_t worker = 0,
                      std::int64_t number = 0) {
  in.run("INSERT INTO run(id,kind,fence,due,at,worker,number) VALUES('" + what.key() + "','" + what.kind() +
             "',$1,$2,$3,$4,$5)",
         what.fence(), what.due().time_since_epoch().count(), at, worker, number);
}

/// A name and how often it was seen.
using counted = std::vector<std::pair<std::string, std::int64_t>>;

/// What must not be in any ledger. A check of another kind than "leased" is transactional.
[[nodiscard]] inline counted faults_in(database& in, const site& where) {
  const auto count = [&](const std::string& what) { return in.ask("SELECT count(*) FROM " + what); };
  return {{"early", count("run WHERE at<due")},
          {"transactional and run twice",
           count("(SELECT 1 FROM run WHERE kind<>'leased' GROUP BY kind,id HAVING count(*)>1) AS twice")},
          {"two runs with one fence", count("(SELECT 1 FROM run GROUP BY kind,id,fence HAVING count(*)>1) AS twice")},
          {"dead", count(where.table("dead"))}};
}

}  // namespace timing_wheel::rig
