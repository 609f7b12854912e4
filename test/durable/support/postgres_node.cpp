#include <unistd.h>

#include <chrono>
#include <iostream>

#include "durable/support/postgres_ledger.hpp"

// A node in a process of its own: postgres_node CONNINFO LEASE_MS. It ends with its standard input.

int main(int count, char** arguments) {
  if (count != 3) {
    return 2;
  }
  try {
    const std::chrono::milliseconds lease(std::stoi(arguments[2]));
    timing_wheel::durable::test::node here(
        arguments[1], lease, {},
        {.statement_timeout = std::chrono::seconds(2), .transaction_timeout = std::chrono::hours(1)});
    char ignored = 0;
    while (read(STDIN_FILENO, &ignored, 1) > 0) {
    }
  } catch (const std::exception& error) {
    std::cerr << "postgres_node: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
