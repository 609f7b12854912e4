#include "durable_worker.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/program.hpp"
#include "durable_database.hpp"
#include "durable_shop.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/error.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;

/// The first number behind a '-': of "order-17", and of "worker-17-3".
std::int64_t number_in(const std::string& key) {
  std::int64_t number = 0;
  const char* const begin = key.data() + key.find('-') + 1;
  const char* const end = key.data() + key.size();
  const char* const read = std::from_chars(begin, end, number).ptr;
  if (read == begin || (read != end && *read != '-')) {
    throw common::failure("a check has the key " + common::quoted(key));
  }
  return number;
}

/// What the checks do, on the connection of the store. None asks whether the order is still open: that a check runs
/// once, and not after a cancel, is for the checks to see to. So the ledger shows if it does not.
class handlers {
 public:
  handlers(const shop_place& place, std::int64_t worker) : place_(place), worker_(worker) {}

  void verify(durable::transaction& open, std::span<const durable::job> checks) const {
    const std::unique_ptr<database> in = place_.within(open);
    const std::int64_t now = open.now().time_since_epoch().count();
    std::vector<std::pair<std::uint32_t, std::int64_t>> orders;
    for (const durable::job& check : checks) {
      orders.emplace_back(product_in(check.payload()), number_in(check.key()));
      in->run("INSERT INTO firing(order_id,worker,fired) VALUES($1,$2,$3)", orders.back().second, worker_, now);
    }
    std::sort(orders.begin(), orders.end());
    for (const auto& [product, id] : orders) {
      in->run(
          "UPDATE stock SET on_hand=on_hand+o.units,reserved=reserved-o.units "
          "FROM orders o WHERE o.id=$1 AND stock.product=o.product",
          id);
    }
  }

  void probe(durable::transaction& open, std::span<const durable::job> checks) const {
    const std::unique_ptr<database> in = place_.within(open);
    const std::int64_t now = open.now().time_since_epoch().count();
    for (const durable::job& check : checks) {
      in->run("INSERT INTO probe(killed,worker,fired) VALUES($1,$2,$3)", number_in(check.key()), worker_, now);
    }
  }

 private:
  const shop_place& place_;
  const std::int64_t worker_;
};

/// What is due before the next look is late by a poll: with a short delay that is each check.
std::chrono::milliseconds poll_for(std::chrono::nanoseconds delay) {
  using namespace std::chrono_literals;
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(delay / 10), 10ms, 250ms);
}

/// \returns whether it has ended.
bool wait_for_end_of_input(int timeout_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&input, 1, timeout_ms);
  char ignored = 0;
  return ready > 0 && ::read(STDIN_FILENO, &ignored, 1) == 0;
}

/// A database that is away for a while is nothing to tell: `stats` counts it.
void tell(const durable::failure& what) {
  try {
    std::rethrow_exception(what.error);
  } catch (const try_again&) {                  // NOLINT(bugprone-empty-catch): see above
  } catch (const timing_wheel::timer_error&) {  // NOLINT(bugprone-empty-catch): see above
  } catch (const std::exception& error) {
    std::cerr << "worker: " << what.what << ": " << error.what() << '\n';
  }
}

/// Until `work` has been done, or nobody waits for it any more. A server may just be starting.
template <class Work>
bool persistently(Work work) {
  constexpr int pause_ms = 50;
  constexpr int most_times = 1200;
  for (int times = 0;; ++times) {
    try {
      work();
      return true;
    } catch (const timing_wheel::timer_error&) {
      if (times == most_times) {
        throw;
      }
    }
    if (wait_for_end_of_input(pause_ms)) {
      return false;
    }
  }
}

}  // namespace

void run_worker(const shop_place& place, std::int64_t number, std::chrono::nanoseconds delay) {
  std::unique_ptr<durable::store> store;
  std::optional<durable::scheduler> checks;
  const handlers what(place, number);
  const bool started = persistently([&] {
    checks.reset();
    store = place.open_store();
    checks.emplace(*store, durable::scheduler_options{
                               .poll = poll_for(delay), .node = node_of_worker(number), .on_failure = tell});
    checks->on(check_kind,
               [&](durable::transaction& open, std::span<const durable::job> all) { what.verify(open, all); });
    checks->on(probe_kind,
               [&](durable::transaction& open, std::span<const durable::job> all) { what.probe(open, all); });
    checks->start();
  });
  if (!started) {
    return;
  }
  while (!wait_for_end_of_input(-1)) {
  }
  constexpr unsigned patience_s = 10;
  ::alarm(patience_s);  // whatever hangs: it does not outlive its parent by more
  checks->stop();
}

}  // namespace order_compensation
