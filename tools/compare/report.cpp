#include "compare/report.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "compare/options.hpp"

namespace timing_wheel::compare {
namespace {

/// \returns the exit status, or 127 if it cannot be run.
int run(std::vector<std::string> command, bool quiet) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (quiet) {
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
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

report_script find_report_script() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path path = self.parent_path() / "report.py";
  if (error || !std::filesystem::exists(path)) {
    throw usage_error("--report: " + path.string() + ", which draws the pictures, is not there");
  }
  // The first may be another than the system's, without its packages.
  for (const char* const python : {"python3", "/usr/bin/python3"}) {
    if (run({python, path.string(), "--check"}, true) == 0) {
      return {python, path.string()};
    }
  }
  throw usage_error("--report: Python 3 with Matplotlib draws the pictures: apt-get install python3-matplotlib");
}

bool draw_report(const report_script& script, const std::string& json, const std::string& page) {
  return run({script.python, script.path, json, page}, false) == 0;
}

}  // namespace timing_wheel::compare
