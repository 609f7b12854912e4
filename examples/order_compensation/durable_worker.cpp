#include "durable_worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>

#include "common/program.hpp"
#include "durable_database.hpp"
#include "durable_shop.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;

/// The number behind the '-' of "order-17".
std::int64_t number_in(const std::string& key) {
  std::int64_t number = 0;
  const char* const begin = key.data() + key.find('-') + 1;
  const char* const end = key.data() + key.size();
  if (std::from_chars(begin, end, number).ptr != end) {
    throw common::failure("a check has the key " + common::quoted(key));
  }
  return number;
}

/// What the checks do, on the connection of the store. None asks whether the order is still open: that a check runs
/// once, and not after a cancel, is for the checks to see to. So the ledger shows if it does not.
class handlers {
 public:
  handlers(durable::store& clock, std::int64_t worker) : clock_(clock), worker_(worker) {}

  void verify(durable::transaction& open, const durable::job& check) {
    prepare(open);
    const std::int64_t id = number_in(check.key());
    give_back_->with(id).run();
    note_firing_->with(id, worker_, now()).run();
  }

  void probe(durable::transaction& open, const durable::job& check) {
    prepare(open);
    note_probe_->with(number_in(check.key()), worker_, now()).run();
  }

 private:
  [[nodiscard]] std::int64_t now() const { return clock_.now().time_since_epoch().count(); }

  void prepare(durable::transaction& open) {
    if (give_back_) {
      return;
    }
    sqlite3* const on = durable::sqlite_connection(open);
    note_firing_.emplace(on, "INSERT INTO firing(order_id,worker,fired) VALUES(?1,?2,?3)");
    note_probe_.emplace(on, "INSERT INTO probe(killed,worker,fired) VALUES(?1,?2,?3)");
    give_back_.emplace(on,
                       "UPDATE stock SET on_hand=on_hand+o.units,reserved=reserved-o.units "
                       "FROM orders o WHERE o.id=?1 AND stock.product=o.product");
  }

  durable::store& clock_;
  const std::int64_t worker_;
  std::optional<statement> give_back_;
  std::optional<statement> note_firing_;
  std::optional<statement> note_probe_;
};

/// What is due before the next look is late by a poll: with a short delay that is each check.
std::chrono::milliseconds poll_for(std::chrono::nanoseconds delay) {
  using namespace std::chrono_literals;
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(delay / 10), 10ms, 250ms);
}

void wait_for_end_of_input() {
  char ignored = 0;
  ssize_t got = 0;
  do {
    got = ::read(STDIN_FILENO, &ignored, 1);
  } while (got > 0 || (got < 0 && errno == EINTR));
}

}  // namespace

void run_worker(const std::string& file, std::int64_t number, std::chrono::nanoseconds delay) {
  durable::sqlite_store store(file);
  handlers what(store, number);
  durable::scheduler checks(store, {.poll = poll_for(delay)});
  checks.on(check_kind, [&](durable::transaction& open, const durable::job& check) { what.verify(open, check); });
  checks.on(probe_kind, [&](durable::transaction& open, const durable::job& check) { what.probe(open, check); });
  checks.start();
  wait_for_end_of_input();
  constexpr unsigned patience_s = 10;
  ::alarm(patience_s);  // whatever hangs: it does not outlive its parent by more
  checks.stop();
}

}  // namespace order_compensation
