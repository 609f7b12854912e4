#include <exception>
#include <iostream>
#include <new>

#include "compare/options.hpp"
#include "compare/tool.hpp"

int main(int argc, char** argv) {
  namespace compare = timing_wheel::compare;
  try {
    const compare::options chosen = compare::parse_options(argc, argv);
    if (!chosen.help.empty()) {
      std::cout << chosen.help;
      return 0;
    }
    return compare::run_tool(chosen, std::cout, std::cerr);
  } catch (const compare::usage_error& error) {
    std::cerr << "timing_wheel_compare: " << error.what() << '\n';
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr << "timing_wheel_compare: not enough memory for this workload\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "timing_wheel_compare: " << error.what() << '\n';
    return 1;
  }
}
