// Counts what a check costs: statements, rows that are read, commits, bytes that are written, steps of the database's
// machine, and round trips to a server. Time is made by hand, so the figures are the same on every machine. budget.py
// holds them against costs.json.
//
//     durable_costs          writes what it has counted, as JSON

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <ostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "durable/costs/counted_store.hpp"
#include "timing_wheel/durable/forwarding_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace {

using namespace timing_wheel::durable;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using timing_wheel::durable::test::cost;
using timing_wheel::durable::test::counted_kind;
using timing_wheel::durable::test::counted_store;

// ---- what is counted

/// The n-th check. Keys are in no order, as those of most users.
request check(std::string kind, std::int64_t number, due_time due) {
  char key[19];
  std::snprintf(key, sizeof key, "%018llx", static_cast<unsigned long long>(number) * 0x9E3779B97F4A7C15ULL);
  return {.kind = std::move(kind), .key = key, .payload = std::string(48, 'p'), .due = due};
}

std::vector<request> checks(const std::string& kind, std::int64_t first, std::int64_t count, due_time due) {
  std::vector<request> all;
  for (std::int64_t number = first; number < first + count; ++number) {
    all.push_back(check(kind, number, due));
  }
  return all;
}

constexpr std::int64_t batch = 500;
constexpr std::size_t one_list = batch;
constexpr std::int64_t present = 4000;  // checks that are there before, due in a day

/// Schedulers in virtual time on the store.
class driven {
 public:
  explicit driven(counted_store& on, int count = 1) : on_(on) {
    for (int number = 0; number < count; ++number) {
      nodes_.push_back(std::make_unique<node>(on, "node " + std::to_string(number)));
    }
  }

  scheduler& operator*() { return nodes_.front()->checks; }
  scheduler* operator->() { return &nodes_.front()->checks; }
  void each(const std::function<void(scheduler&)>& work) {
    for (const auto& one : nodes_) {
      work(one->checks);
    }
  }
  void pass(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 1ms) {
      on_.pass(1ms);
      for (const auto& one : nodes_) {
        one->timer.advance_by(1ms);
      }
    }
  }

 private:
  // What a node tells every five seconds costs by time, and not by check.
  struct silent_store : timing_wheel::durable::forwarding_store {
    explicit silent_store(store& real) : timing_wheel::durable::forwarding_store(real) {}
    void tell_runs(std::string_view /*node*/, const run_counts& /*since*/) override {}
  };
  struct node {
    node(counted_store& on, const std::string& name)
        // A transaction takes as many jobs as it may, however slow the machine is.
        : seen(on.where()), checks(seen, timer, {.transaction_time = 1h, .node = name}) {}
    timing_wheel::manual_timer timer;
    silent_store seen;
    scheduler checks;
  };

  counted_store& on_;
  std::vector<std::unique_ptr<node>> nodes_;
};

cost schedule_alone(counted_store& on) {
  driven node(on);
  const cost before = on.so_far();
  for (std::int64_t number = 0; number < 200; ++number) {
    node->schedule(check("close", number, 1h));
  }
  return (on.so_far() - before) / 200;
}

cost schedule_500(counted_store& on) {
  driven node(on);
  const cost before = on.so_far();
  for (std::int64_t number = 0; number < 4 * batch; number += batch) {
    node->schedule(checks("close", number, batch, 1h));
  }
  return (on.so_far() - before) / (4 * batch);
}

cost schedule_with_the_order(counted_store& on) {
  const cost before = on.so_far();
  for (std::int64_t number = 0; number < 200; ++number) {
    on.order(check("close", number, 1h));
  }
  return (on.so_far() - before) / 200;
}

cost cancelled(counted_store& on) {
  driven node(on);
  const cost before = on.so_far();
  for (std::int64_t number = 0; number < 200; ++number) {
    const request asked = check("close", number, 1h);
    node->schedule(asked);
    node->cancel(asked.kind, asked.key);
  }
  return (on.so_far() - before) / 200;
}

/// From the deadline of four batches until all is over.
cost fired(counted_store& on, const std::function<void(scheduler&)>& add_handler) {
  driven node(on);
  add_handler(*node);
  for (std::int64_t number = 0; number < 4 * batch; number += batch) {
    node->schedule(checks("close", number, batch, 10s));
  }
  node->start();
  node.pass(5s);
  const cost before = on.so_far();
  node.pass(10s);
  if (node->stats().done != 4 * batch) {
    throw std::runtime_error("not all were done");
  }
  return (on.so_far() - before) / (4 * batch);
}

cost leased(counted_store& on) {
  return fired(on, [](scheduler& node) { node.on("close", [](const job& /*what*/) {}); });
}

cost transactional(counted_store& on) {
  std::int64_t number = 0;
  return fired(on, [&](scheduler& node) {
    node.on("close", [&](transaction& open, const job& /*what*/) { on.update_order(open, ++number); });
  });
}

cost transactional_batch(counted_store& on) {
  std::int64_t number = 0;
  return fired(on, [&](scheduler& node) {
    node.on("close", [&](transaction& open, std::span<const job> some) {
      for ([[maybe_unused]] const job& what : some) {
        on.update_order(open, ++number);
      }
    });
  });
}

cost idle_second(counted_store& on) {
  driven node(on);
  node->on("close", [](const job& /*what*/) {});
  node->on("other", [](transaction& /*open*/, const job& /*what*/) {});
  node->start();
  node.pass(2s);
  const cost before = on.so_far();
  node.pass(10s);  // in one of them PostgreSQL cleans a page
  return (on.so_far() - before) / 10;
}

// Nodes that have their parts of the shares.
void begin(driven& nodes, const std::function<void(scheduler&)>& add_handler) {
  nodes.each([&](scheduler& node) {
    add_handler(node);
    node.start();
  });
  nodes.pass(10s);
}

void add_leased(scheduler& node) {
  node.on("close", [](const job& /*what*/) {});
}

void add_transactional(scheduler& node) {
  node.on("close", [](transaction& /*open*/, const job& /*what*/) {});
}

cost idle_second_of(counted_store& on, int count) {
  driven nodes(on, count);
  begin(nodes, add_leased);
  const cost before = on.so_far();
  nodes.pass(10s);
  return (on.so_far() - before) / (10 * count);
}

// Without what they do when idle, by nodes that have run some before and know how long it takes. All are due between 6
// and 15 seconds from now.
cost fired_by(counted_store& on, int count, const std::vector<request>& all, void (*add_handler)(scheduler&)) {
  driven nodes(on, count);
  begin(nodes, add_handler);
  std::int64_t before_all = 0;
  nodes.each([&](scheduler& node) {
    node.schedule(checks("close", 1'000'000 + before_all, 20, 500ms));  // it is told of them at once, and others later
    before_all += 20;
  });
  nodes.pass(22s);  // past the first sweep; the second comes after all that is counted
  const cost started = on.so_far();
  nodes.pass(10s);
  const cost idle = on.so_far() - started;
  for (std::span<const request> left = all; !left.empty(); left = left.subspan(std::min(left.size(), one_list))) {
    nodes->schedule(left.first(std::min(left.size(), one_list)));
  }
  nodes.pass(5s);
  const cost before = on.so_far();
  nodes.pass(10s);
  std::uint64_t done = 0;
  nodes.each([&](scheduler& node) { done += node.stats().done; });
  if (done != all.size() + static_cast<std::size_t>(before_all)) {
    throw std::runtime_error("not all were done");
  }
  return (on.so_far() - before - idle) / static_cast<double>(all.size());
}

std::vector<request> one_at_a_time() {
  std::vector<request> all;
  for (std::int64_t number = 0; number < 200; ++number) {
    all.push_back(check("close", number, 6s + number * 40ms));
  }
  return all;
}

cost look(counted_store& on) {
  const std::vector<std::string> kinds = {"close", "other"};
  std::vector<upcoming> found;
  const read_range ahead{.until = on.where().now() + 1s, .limit = 1000, .kinds = kinds};
  const auto once = [&] {
    const cost before = on.so_far();
    on.where().read_ahead(ahead, found);
    if (!found.empty()) {
      throw std::runtime_error("the look was not empty");
    }
    return on.so_far() - before;
  };
  on.where().read_ahead(ahead, found);
  const cost first = once();
  const cost second = once();
  // A server writes a record of its own every few seconds.
  return first.bytes_written < second.bytes_written ? first : second;
}

void fill(counted_store& on, const std::string& kind, std::int64_t count, due_time due) {
  for (std::int64_t number = 0; number < count; number += batch) {
    const std::vector<request> asked = checks(kind, 1'000'000 + number, batch, due);
    std::vector<append_op> ops;
    for (const request& one : asked) {
      ops.push_back({&one});
    }
    on.where().transact([&](store_transaction& open) { open.append(ops); });
  }
}

cost beside_others(counted_store& on, cost (*operation)(counted_store&)) {
  fill(on, "close", present, 24h);
  return operation(on);
}

struct operation {
  std::string name;
  std::function<cost(counted_store&)> counted;
};

const std::vector<operation> operations = {
    {"schedule, alone", [](counted_store& on) { return beside_others(on, schedule_alone); }},
    {"schedule, 500 at a time", [](counted_store& on) { return beside_others(on, schedule_500); }},
    {"schedule, in the order's transaction",
     [](counted_store& on) { return beside_others(on, schedule_with_the_order); }},
    {"schedule and cancel, alone", [](counted_store& on) { return beside_others(on, cancelled); }},
    {"claim, run and complete", [](counted_store& on) { return beside_others(on, leased); }},
    {"transactional, with the user's statement", [](counted_store& on) { return beside_others(on, transactional); }},
    {"transactional, in batches", [](counted_store& on) { return beside_others(on, transactional_batch); }},
    {"an idle second", [](counted_store& on) { return beside_others(on, idle_second); }},
    {"an empty look, no row", look},
    {"an empty look, 100 000 rows in the future",
     [](counted_store& on) {
       fill(on, "close", 100'000, 24h);
       return look(on);
     }},
    {"an empty look, 10 000 due rows of another kind",
     [](counted_store& on) {
       fill(on, "foreign", 10'000, -1h);
       return look(on);
     }},
};

/// Of a store that nodes divide: what they do for a check, and for none, must not grow with their number, which
/// budget.py sees to. So many are due at once that each node has whole batches: 125 checks in each of the 64 shares.
std::vector<operation> of_nodes() {
  std::vector<operation> some;
  for (const int count : {1, 2, 4}) {
    const auto add = [&](const char* name, const std::function<cost(counted_store&)>& counted) {
      some.push_back({name + (", " + std::to_string(count)) + (count == 1 ? " node" : " nodes"), counted});
    };
    add("a node's idle second", [=](counted_store& on) { return idle_second_of(on, count); });
    add("claim, run and complete, one at a time",
        [=](counted_store& on) { return fired_by(on, count, one_at_a_time(), add_leased); });
    add("claim, run and complete, 8 000 at once",
        [=](counted_store& on) { return fired_by(on, count, checks("close", 0, 16 * batch, 8s), add_leased); });
    add("transactional, one at a time",
        [=](counted_store& on) { return fired_by(on, count, one_at_a_time(), add_transactional); });
  }
  return some;
}

/// Three digits after the point: an exact fraction of 200 or 2 000.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return std::strtod(text, nullptr);
}

void count_all(const counted_kind& which, std::ostream& out) {
  out << "  " << std::quoted(which.name) << ": {\n    \"version\": " << std::quoted(which.version())
      << ",\n    \"costs\": {";
  const char* before = "\n";
  std::vector<operation> all = operations;
  if (which.divided) {
    const std::vector<operation> more = of_nodes();
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const operation& each : all) {
    const std::unique_ptr<counted_store> on = which.make();
    const cost of = each.counted(*on);
    out << before << "      " << std::quoted(each.name) << ": {";
    const char* between = "";
    for (const auto& [figure, value] : {std::pair{"statements", of.statements}, std::pair{"rows_read", of.rows_read},
                                        std::pair{"commits", of.commits}, std::pair{"bytes_written", of.bytes_written},
                                        std::pair{"steps", of.steps}, std::pair{"round_trips", of.round_trips}}) {
      out << between << std::quoted(figure) << ": " << rounded(value);
      between = ", ";
    }
    out << '}';
    before = ",\n";
  }
  out << "\n    }\n  }";
}

}  // namespace

int main() {
  std::vector<const counted_kind*> kinds;
#ifdef TIMING_WHEEL_COSTS_SQLITE
  kinds.push_back(&timing_wheel::durable::test::counted_in_sqlite);
#endif
#ifdef TIMING_WHEEL_COSTS_POSTGRES
  kinds.push_back(&timing_wheel::durable::test::counted_in_postgres);
#endif
  try {
    std::ostringstream out;  // all at once: a child of fork would write what it finds in a buffer, too
    out.precision(15);
    const char* before = "{\n";
    for (const counted_kind* which : kinds) {
      out << before;
      count_all(*which, out);
      before = ",\n";
    }
    std::cout << out.str() << "\n}\n";
  } catch (const std::exception& failed) {
    std::cerr << "durable_costs: " << failed.what() << '\n';
    return 1;
  }
  return 0;
}
