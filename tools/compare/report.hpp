#pragma once

#include <string>

namespace timing_wheel::compare {

/// What draws: `report.py` beside this program, and a Python that has Matplotlib.
struct report_script {
  std::string python;
  std::string path;
};

/// \throws usage_error telling what to install if one of the two is not there.
[[nodiscard]] report_script find_report_script();

/// Draws what is in a JSON file. \returns whether the page was written; why not, the script has said on standard error.
[[nodiscard]] bool draw_report(const report_script& script, const std::string& json, const std::string& page);

}  // namespace timing_wheel::compare
