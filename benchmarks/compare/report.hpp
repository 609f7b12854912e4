#pragma once

#include <filesystem>
#include <string>

namespace timing_wheel::compare {

/// The script that draws: `report.py` beside this program. \throws usage_error if it, or what it draws with, is not there.
[[nodiscard]] std::filesystem::path find_report_script();

/// Runs it on a JSON file. \returns whether it wrote the page; why not, it has said on standard error.
[[nodiscard]] bool draw_report(const std::filesystem::path& script, const std::string& json, const std::string& page);

}  // namespace timing_wheel::compare
