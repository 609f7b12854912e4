#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "common/program.hpp"
#include "desk/commands.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::desk {
namespace {

int fail(const char* message, exit_status status) {
  std::cout.flush();
  std::cerr << common::program_name("timing-wheel") << ": " << message << '\n';
  return static_cast<int>(status);
}

// What was asked for is wrong; else the store is not there, or refuses.
exit_status status_of(const std::error_code& code) {
  constexpr int busy = 5;  // of SQLite: another program has locked the file
  const bool is_locked = std::string_view(code.category().name()) == "sqlite" && (code.value() & 0xff) == busy;
  return code == durable::errc::invalid_request || code == durable::errc::kind_too_long ||
                 code == durable::errc::key_too_long
             ? exit_status::usage
         : code == durable::errc::row_locked || is_locked ? exit_status::refused
                                                          : exit_status::no_store;
}

int run(int argc, char** argv) {
  common::report_large_files();
  const options chosen = parse_options(argc, argv);
  if (!chosen.help.empty()) {
    std::cout << chosen.help;
    common::finish_output(std::cout);
    return 0;
  }
  const place where = open_place(chosen);
  const desk with{chosen, *where.store, where, std::cin, std::cout, std::cerr};
  exit_status ended = exit_status::no_store;
  try {
    ended = chosen.run(with);
  } catch (const timer_error& error) {
    return fail(with_lockers(with, error).c_str(), status_of(error.code()));
  }
  common::finish_output(std::cout);
  return static_cast<int>(ended);
}

int run_or_fail(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const failure& error) {
    return fail(error.what(), error.status());
  } catch (const timer_error& error) {
    return fail(error.what(), status_of(error.code()));
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", exit_status::no_store);
  } catch (const std::exception& error) {
    return fail(error.what(), exit_status::no_store);
  }
}

}  // namespace
}  // namespace timing_wheel::desk

int main(int argc, char** argv) { return timing_wheel::desk::run_or_fail(argc, argv); }
