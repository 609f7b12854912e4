#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "durable/support/scratch_folder.hpp"

namespace timing_wheel::test {

/// The samples of a page in the text format of Prometheus: what stands before the value, and the value.
inline std::map<std::string, std::string> samples_of(const std::string& page) {
  std::map<std::string, std::string> all;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) {
      const std::size_t space = line.rfind(' ');
      all[line.substr(0, space)] = line.substr(space + 1);
    }
  }
  return all;
}

/// Whether this machine has Prometheus' own checker.
inline bool has_promtool() {
#ifdef _WIN32
  return false;  // Wine sees Linux's, and cannot run it
#else
  return std::filesystem::exists("/usr/bin/promtool");
#endif
}

/// What it says of a page; nothing if all is well.
inline std::string promtool_says(const std::string& page) {
  const scratch_folder folder;
  const std::string file = (folder.path() / "page").string();
  std::ofstream(file) << page;
  const std::string command = "/usr/bin/promtool check metrics <" + file + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): of a path of our own
  std::string words;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    words += static_cast<char>(c);
  }
  const int status = pclose(pipe);
  return status == 0 ? words : words + " (status " + std::to_string(status) + ")";
}

}  // namespace timing_wheel::test
