#include <iostream>
#include <string>

#include "durable/support/private_postgres.hpp"

// A private server for tests in other languages: makes a database for each name that it reads, and prints its address.
// The server is gone when the input ends, or when the process dies.

int main() {
  const timing_wheel::test::private_postgres server({.loopback = true});
  for (std::string name; std::getline(std::cin, name);) {
    server.execute("CREATE DATABASE " + name);
    std::cout << "postgres://postgres@127.0.0.1:" << server.port() << '/' << name << std::endl;
  }
}
