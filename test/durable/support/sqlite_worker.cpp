#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"
#include "timing_wheel/error.hpp"

// A process on a file: sqlite_worker FILE COMMAND ARGUMENT. What it has committed it tells on its standard output, a
// line for each.

namespace {

using namespace timing_wheel::durable;  // NOLINT(google-build-using-namespace)

const std::vector<std::string> kinds = {"close"};

void tell(const std::string& key) {
  std::cout << key << '\n' << std::flush;  // the process may be killed
}

// Schedules a hundred checks, each in a transaction of its own.
void schedule_each(sqlite_store& store, const std::string& prefix) {
  for (int number = 0; number < 100; ++number) {
    const std::string key = prefix + std::to_string(number);
    store.transact([&](store_transaction& open) { open.schedule(request{.kind = "close", .key = key}); });
    tell(key);
  }
}

std::vector<upcoming> ten_rows(sqlite_store& store) {
  std::vector<upcoming> wanted;
  store.read_ahead({.until = instant::max(), .limit = 10, .kinds = kinds}, wanted);
  return wanted;
}

// Takes what is due until nothing is left, and leaves a check of another kind for each in the same transaction.
void take_all(sqlite_store& store) {
  for (auto wanted = ten_rows(store); !wanted.empty(); wanted = ten_rows(store)) {
    std::vector<claimed> got;
    store.transact([&](store_transaction& open) {
      got.clear();
      open.consume(wanted, got);
      for (const claimed& each : got) {
        open.schedule(request{.kind = "done", .key = each.key});
      }
    });
    for (const claimed& each : got) {
      tell(each.key);
    }
  }
}

// Claims what is free and completes it in a second transaction, until nothing is left. A lease of one that was killed
// ends soon.
void claim_all(sqlite_store& store) {
  for (auto wanted = ten_rows(store); !wanted.empty(); wanted = ten_rows(store)) {
    std::vector<claimed> got;
    store.transact(
        [&](store_transaction& open) { open.claim(wanted, open.now() + std::chrono::milliseconds(300), got); });
    for (const claimed& each : got) {
      ticket of{each.id, each.fence};
      store.transact([&](store_transaction& open) {
        open.complete({&of, 1});
        if (of.still_ours) {
          open.schedule(request{.kind = "done", .key = each.key});
        }
      });
    }
  }
}

// A node, until it is killed. The kind of a check says what its handler does. One handler runs at a time.
void be_a_node(sqlite_store& store, const std::string& name) {
  using namespace std::chrono_literals;
  scheduler checks(store, {.look_ahead = 200ms, .poll = 20ms, .sweep = 500ms, .lease = 300ms, .threads = 1});
  // Tells when it ran, by a clock that all processes share.
  checks.on("timed", [](const job& what) {
    const std::chrono::microseconds now =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch());
    tell(what.key() + " " + std::to_string(now.count()));
  });
  checks.on("good", [](const job& what) { tell(what.key()); });
  // Which of them kills their process cannot be seen by their kind.
  const auto mixed = [](const job& what) {
    if (what.payload() == "poison") {
      static_cast<void>(std::raise(SIGKILL));
    }
    tell(what.key());
  };
  checks.on("mixed", mixed, {.max_attempts = 3});
  // Stops its process, if that is called so.
  checks.on("slow", [&](const job& what) {
    tell("begins " + std::to_string(what.fence()));
    if (name == "stopped") {
      static_cast<void>(std::raise(SIGSTOP));
    }
  });
  checks.on("frozen", [](transaction& /*open*/, const job& /*what*/) { static_cast<void>(std::raise(SIGSTOP)); });
  checks.start();
  for (std::uint64_t lost = 0;; std::this_thread::sleep_for(5ms)) {
    if (checks.stats().lost_leases != lost) {
      lost = checks.stats().lost_leases;
      tell("lost a lease");
    }
  }
}

void run(sqlite_store& store, const std::string& command, const std::string& argument) {
  if (command == "schedule") {
    schedule_each(store, argument);
  } else if (command == "take") {
    take_all(store);
  } else if (command == "claim") {
    claim_all(store);
  } else if (command == "node") {
    be_a_node(store, argument);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    return 2;
  }
  alarm(120);  // it may have lost its test
  try {
    sqlite_store store(arguments[1]);
    store.migrate();
    run(store, arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
