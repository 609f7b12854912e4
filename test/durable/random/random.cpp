// Random programs on real SQL: ./dev durable-random.
//
//     durable_random --store memory|sqlite|postgres [--first SEED] SEEDS
//     durable_random --store memory|sqlite|postgres --seed SEED [--steps STEPS]
//
// The second runs one again, and tells what happens in it.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "durable/random/program.hpp"

namespace {

namespace test = timing_wheel::durable::test;

std::unique_ptr<test::ground> ground_of(const std::string& store) {
#ifdef TIMING_WHEEL_RANDOM_SQLITE
  if (store == "sqlite") {
    return test::sqlite_ground();
  }
#endif
#ifdef TIMING_WHEEL_RANDOM_POSTGRES
  if (store == "postgres") {
    return test::postgres_ground();
  }
#endif
  return store == "memory" ? test::memory_ground() : nullptr;
}

int show(test::ground& on, std::uint64_t seed, int steps) {
  const test::verdict said = test::run_program(on, seed, steps);
  for (const std::string& each : said.events) {
    std::cout << each << '\n';
  }
  std::cout << (said.wrong.empty() ? "as it must be" : said.wrong.front()) << '\n';
  return said.wrong.empty() ? 0 : 1;
}

int run(test::ground& on, const std::string& store, std::uint64_t first, std::uint64_t seeds) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  auto shown = begin;
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    if (const std::string failure = test::shortest_failure(on, store, first + i, test::steps_by_default);
        !failure.empty()) {
      ++failed;
      std::cout << failure << std::flush;
    }
    if (clock::now() - shown > std::chrono::seconds(5)) {
      shown = clock::now();
      std::cerr << i + 1 << " of " << seeds << " programs, "
                << static_cast<double>(i + 1) / std::chrono::duration<double>(shown - begin).count() << "/s\n";
    }
  }
  std::cout << seeds - failed << " programs agreed" << (failed == 0 ? "" : ", " + std::to_string(failed) + " did not")
            << '\n';
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, std::string> options;
  int at = 1;
  for (; at + 1 < count && arguments[at][0] == '-'; at += 2) {
    options[arguments[at]] = arguments[at + 1];
  }
  const auto number = [&](const char* name, std::uint64_t otherwise) {
    return options.count(name) != 0 ? std::strtoull(options[name].c_str(), nullptr, 10) : otherwise;
  };
  const std::string store = options["--store"];
  const auto on = ground_of(store);
  if (on == nullptr || (options.count("--seed") == 0) == (at == count)) {
    std::cerr << "durable_random --store memory|sqlite|postgres [--first SEED] SEEDS, or with --seed SEED [--steps "
                 "STEPS]\n";
    return 2;
  }
  if (options.count("--seed") != 0) {
    return show(*on, number("--seed", 0), static_cast<int>(number("--steps", test::steps_by_default)));
  }
  return run(*on, store, number("--first", 0), std::strtoull(arguments[at], nullptr, 10));
}
