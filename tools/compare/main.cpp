#include <exception>
#include <iostream>
#include <new>

#include "common/program.hpp"
#include "common/stop_signal.hpp"
#include "compare/options.hpp"
#include "compare/tool.hpp"

namespace timing_wheel::compare {
namespace {

int run(int argc, char** argv) {
  common::report_large_files();
  const options chosen = parse_options(argc, argv);
  if (!chosen.help.empty()) {
    std::cout << chosen.help;
    common::finish_output(std::cout);
    return 0;
  }
  common::stop_on_signals();
  return run_tool(chosen, std::cout, std::cerr);
}

int fail(const char* message, int status) {
  std::cerr << common::program_name("timing_wheel_compare") << ": " << message << '\n';
  return status;
}

int run_or_fail(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const usage_error& error) {
    return fail(error.what(), common::exit_usage);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory for this workload", common::exit_failed);
  } catch (const std::exception& error) {
    return fail(error.what(), common::exit_failed);
  }
}

}  // namespace
}  // namespace timing_wheel::compare

int main(int argc, char** argv) { return timing_wheel::compare::run_or_fail(argc, argv); }
