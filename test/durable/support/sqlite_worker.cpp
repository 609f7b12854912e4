#include <chrono>
#include <iostream>
#include <string>
#include <vector>

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
      open.take(wanted, got);
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
        if (of.held) {
          open.schedule(request{.kind = "done", .key = each.key});
        }
      });
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
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    return 2;
  }
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
