#include "compare/report.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "compare/options.hpp"

namespace timing_wheel::compare {
namespace {

/// \returns the exit status, or 127 if it cannot be run.
int run(std::vector<std::string> command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawnp(&child, arguments.front(), nullptr, nullptr, arguments.data(), environ) != 0) {
    return 127;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return 127;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

std::filesystem::path find_report_script() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::path script = self.parent_path() / "report.py";
  if (error || !std::filesystem::exists(script)) {
    throw usage_error("--report: " + script.string() + ", which draws the pictures, is not there");
  }
  if (run({"python3", script.string(), "--check"}) != 0) {
    throw usage_error("--report: Python 3 with Matplotlib draws the pictures: apt-get install python3-matplotlib");
  }
  return script;
}

bool draw_report(const std::filesystem::path& script, const std::string& json, const std::string& page) {
  return run({"python3", script.string(), json, page}) == 0;
}

}  // namespace timing_wheel::compare
