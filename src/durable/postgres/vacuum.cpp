#include "durable/postgres/vacuum.hpp"

#include <algorithm>
#include <chrono>

#include "durable/postgres/sql.hpp"
#include "durable/postgres/values.hpp"

namespace timing_wheel::durable::postgres {

namespace {

constexpr std::uint64_t shortest_pause = 50'000;
constexpr std::uint64_t longest_pause = 16 * shortest_pause;
constexpr std::chrono::milliseconds longest_look(1'000);

connection_rules of_vacuum(connection_rules rules) {
  rules.statement_timeout = std::chrono::hours(1);
  return rules;
}

}  // namespace

table_vacuum::table_vacuum(const std::string& conninfo, const connection_rules& rules)
    : rules_(of_vacuum(rules)), address_(conninfo, rules_), pause_(shortest_pause) {}

void table_vacuum::ended(std::uint64_t runs) noexcept {
  since_.fetch_add(runs, std::memory_order_relaxed);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || refused_) {
    return;
  }
  try {
    if ((connection_ == nullptr || connection_->is_done()) && since_.load(std::memory_order_relaxed) >= pause_) {
      look();
    }
  } catch (...) {
    if (connection_ == nullptr) {
      since_.store(0, std::memory_order_relaxed);  // to connect is not tried again at once, for that may take a second
    }
    connection_.reset();
  }
}

// Where an open snapshot keeps the dead rows, a vacuum is in vain, and the next one waits for twice as many runs.
void table_vacuum::look() {
  if (connection_ == nullptr) {
    connection_ = address_.connect(longest_look, rules_, true);
    connection_->answer_within = longest_look;
  }
  const result seen = connection_->run(sql::dead_rows, parameters().bind(rules_.prefix + "check"));
  const auto runs = static_cast<std::int64_t>(since_.exchange(0, std::memory_order_relaxed));
  refused_ = seen.rows() == 0 || seen.integer(0, 2) == 0;
  if (refused_) {
    connection_.reset();
    return;
  }
  const std::int64_t dead = seen.integer(0, 0);
  const bool was_in_vain = dead_ > 0 && dead - runs > dead_ / 2;
  pause_ = was_in_vain ? std::min(2 * pause_, longest_pause) : shortest_pause;
  dead_ = 0;
  if (dead >= seen.integer(0, 1)) {
    dead_ = dead;
    connection_->begin("vacuuming", text_of(sql::vacuum, rules_.prefix));
  }
}

void table_vacuum::abandon() {
  static_cast<void>(connection_.release());  // NOLINT(bugprone-unused-return-value)
}

}  // namespace timing_wheel::durable::postgres
