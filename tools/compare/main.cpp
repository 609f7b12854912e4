#include <iostream>

#include "common/program.hpp"
#include "common/stop_signal.hpp"
#include "compare/options.hpp"
#include "compare/tool.hpp"

namespace timing_wheel::compare {
namespace {

int run(int argc, char** argv) {
  const options chosen = parse_options(argc, argv);
  if (!chosen.help.empty()) {
    std::cout << chosen.help;
    common::finish_output(std::cout);
    return 0;
  }
  common::stop_on_signals();
  return run_tool(chosen, std::cout, std::cerr);
}

}  // namespace
}  // namespace timing_wheel::compare

int main(int argc, char** argv) {
  return common::run_program("timing_wheel_compare", [&] { return timing_wheel::compare::run(argc, argv); });
}
