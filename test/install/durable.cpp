#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <timing_wheel/durable/memory_store.hpp>
#include <timing_wheel/durable/postgres_store.hpp>
#include <timing_wheel/durable/scheduler.hpp>
#include <timing_wheel/durable/sqlite_store.hpp>
#include <timing_wheel/error.hpp>
#include <timing_wheel/manual_timer.hpp>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

namespace {

// What a user writes for any store and any clock.
int count_runs(durable::scheduler& checks, int& ran) {
  checks.on("verify", [&ran](const durable::job&) { ++ran; });
  checks.start();
  checks.schedule({.kind = "verify", .key = "order-17", .payload = "2 units", .due = 20ms});
  return ran;
}

bool in_virtual_time() {
  timing_wheel::manual_timer timer;
  durable::memory_store store(timer);
  durable::scheduler checks(store, timer);
  int ran = 0;
  const int before = count_runs(checks, ran);
  timer.advance_by(1s);
  return before == 0 && ran == 1;
}

bool in_a_file(const std::string& file) {
  durable::sqlite_store store(file);
  store.migrate();
  durable::scheduler checks(store);
  int ran = 0;
  count_runs(checks, ran);
  while (store.find("verify", "order-17")) {
    std::this_thread::sleep_for(1ms);
  }
  checks.stop();
  return ran == 1;
}

// There is no server here: it is enough that libpq is found, and says so.
bool without_a_server() {
  try {
    const durable::postgres_store store("host=/nowhere", {.connect_timeout = 1s});
    return false;
  } catch (const timing_wheel::timer_error& error) {
    return error.code().category() == durable::postgres_category();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool good = argc == 2 && in_virtual_time() && in_a_file(argv[1]) && without_a_server();
  std::cout << (good ? "durable: good\n" : "durable: bad\n");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
