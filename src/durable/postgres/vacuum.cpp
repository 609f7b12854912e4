#include "durable/postgres/vacuum.hpp"

#include <algorithm>
#include <chrono>

#include "durable/postgres/sql.hpp"
#include "durable/postgres/values.hpp"
#include "shared/thread_setup.hpp"

namespace timing_wheel::durable::postgres {

table_vacuum::~table_vacuum() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) {
    thread_.join();
  }
}

// Acquire: what the last thread has written is read, and the next thread reads it.
void table_vacuum::ended(std::uint64_t runs) noexcept {
  const std::uint64_t since = since_.fetch_add(runs, std::memory_order_relaxed) + runs;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || works_.load(std::memory_order_acquire) || since < pause_) {
    return;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  since_.store(0, std::memory_order_relaxed);
  works_.store(true, std::memory_order_relaxed);
  try {
    thread_ = detail::start_named_thread("durable_vacuum", [this] { work(); });
  } catch (...) {
    works_.store(false, std::memory_order_relaxed);
  }
}

void table_vacuum::work() noexcept {
  try {
    look();
  } catch (...) {
    pause_ = std::min(2 * pause_, longest_pause);
  }
  works_.store(false, std::memory_order_release);
}

// Where an open snapshot keeps the dead rows, a vacuum is in vain: of the rows that were dead when the last one began,
// more than a half still are.
void table_vacuum::look() {
  constexpr std::chrono::seconds longest_try(1);
  const std::unique_ptr<connection> on = address_.connect(longest_try, rules_, true);
  const result seen = on->run(sql::dead_rows, parameters().bind(rules_.prefix + "check"));
  if (seen.rows() == 0 || seen.integer(0, 2) == 0) {
    pause_ = longest_pause;  // the role may not; it may get the right
    return;
  }
  const std::int64_t dead = seen.integer(0, 0);
  const std::int64_t gone = seen.integer(0, 3);
  const bool was_in_vain = dead_ > 0 && dead - (gone - gone_) > dead_ / 2;
  pause_ = was_in_vain ? std::min(2 * pause_, longest_pause) : shortest_pause;
  dead_ = 0;
  gone_ = gone;
  if (dead >= seen.integer(0, 1)) {
    dead_ = dead;
    on->run("vacuuming", "SET statement_timeout='1h'", 1);
    on->run_long("vacuuming", text_of(sql::vacuum, rules_.prefix), std::chrono::hours(1),
                 [this] { return stop_.load(std::memory_order_relaxed); });
  }
}

void table_vacuum::abandon() {
  if (thread_.joinable()) {
    thread_.detach();
  }
}

}  // namespace timing_wheel::durable::postgres
