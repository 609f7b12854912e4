#include "compare/tool.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <ostream>

#include "common/program.hpp"
#include "common/progress.hpp"
#include "compare/cascades_against_rounds.hpp"
#include "compare/output.hpp"
#include "compare/rules.hpp"

namespace timing_wheel::compare {
namespace {

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Ends the work in the middle.
struct interruption {};

/// Shows how far the work is, or ends it.
class watch {
 public:
  watch(bool quiet, const std::atomic<bool>& stop) : shown_(quiet), stop_(stop) {}

  template <class... Shown>
  void show(const Shown&... what) {
    if (stop_.load(std::memory_order_relaxed)) {
      throw interruption();
    }
    shown_.show(what...);
  }

 private:
  common::progress shown_;
  const std::atomic<bool>& stop_;
};

void count_engines(const options& chosen, comparison& all, watch& shown, const engine_runner& run) {
  for (const engine_spec& spec : chosen.engines) {
    static_cast<void>(shape_of(all.plan, spec));  // an error now, and not after minutes
  }
  for (const engine_spec& spec : chosen.engines) {
    shown.show("counting " + spec.text);
    all.engines.push_back(
        run(all.plan, spec, chosen.trace, [&](double share) { shown.show("counting " + spec.text, share); }));
    append(all.problems, check(all.plan, spec, all.engines.back()));
    if (chosen.timed) {
      shown.show("timing " + spec.text);
      all.engines.back().timed =
          time_engine(all.plan, spec, true, [&](double share) { shown.show("timing " + spec.text, share); });
    }
  }
}

void add_sweeps(const options& chosen, comparison& all, watch& shown) {
  const tell say = [&](const std::string& text) { shown.show(text); };
  all.by_delay = sweep_delays(all.plan, chosen.engines, all.problems, say);
  all.by_cancel = sweep_cancels(all.plan, chosen.workload, chosen.engines, all.problems, say);
  all.even = measure_break_even(all.plan, say);
}

comparison compare_all(const options& chosen, const engine_runner& run, const std::atomic<bool>& stop) {
  watch shown(chosen.quiet, stop);
  comparison all;
  try {
    all.plan = make_workload(chosen.workload, [&](double share) { shown.show("making the workload", share); });
    count_engines(chosen, all, shown, run);
    if (chosen.report) {
      add_sweeps(chosen, all, shown);
    }
  } catch (const interruption&) {
    all.interrupted_by = common::stop_signal_name();
  }
  append(all.problems, check_agreement(all.engines));
  return all;
}

/// Tells a failure and goes on, so that an output that fails does not spoil the others. \returns whether all is well.
template <class Work>
bool attempt(std::ostream& err, Work work) {
  try {
    work();
    return true;
  } catch (const common::failure& error) {
    err << common::program_name("timing_wheel_compare") << ": " << error.what() << '\n';
    return false;
  }
}

void write_json_file(const std::string& path, const comparison& all) {
  common::write_file(path, [&](std::ostream& file) { write_json(file, all); });
}

/// \returns the exit status, or 127 if it cannot be run.
int run_command(std::vector<std::string> command, bool quiet) {
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

/// What draws: `report.py` beside this program. \throws usage_error telling what to install if it, or a Python that has
/// Matplotlib, is not there.
std::string find_report_script() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path path = self.parent_path() / "report.py";
  if (error || !std::filesystem::exists(path)) {
    throw usage_error("--report: " + path.string() + ", which draws the pictures, is not there");
  }
  if (run_command({"python3", path.string(), "--check"}, true) != 0) {
    throw usage_error("--report: Python 3 with Matplotlib draws the pictures: apt-get install python3-matplotlib");
  }
  return path.string();
}

/// The script reads the counts from a file; without `--json`, from one that goes away.
void write_report(const options& chosen, const std::string& script, const comparison& all) {
  const bool keep = chosen.json.has_value();
  const std::string json = keep ? *chosen.json : *chosen.report + ".json." + std::to_string(::getpid());
  if (!keep) {
    write_json_file(json, all);
  }
  const bool drawn = run_command({"python3", script, json, *chosen.report}, false) == 0;
  if (!keep) {
    std::error_code ignored;
    std::filesystem::remove(json, ignored);
  }
  if (!drawn) {
    throw common::failure("the report " + *chosen.report + " was not written");
  }
}

/// The files first: a reader of the table that goes away may end this program.
/// \returns whether every output was written, but for the report of a part, which there is not.
bool write_outputs(const options& chosen, const std::string& script, const comparison& all, std::ostream& out,
                   std::ostream& err) {
  bool good = !chosen.json || attempt(err, [&] { write_json_file(*chosen.json, all); });
  if (chosen.report && !all.interrupted_by.empty()) {
    err << "the report " << *chosen.report << " was not written, because not all of it was counted\n";
  } else if (chosen.report) {
    good = good && attempt(err, [&] { write_report(chosen, script, all); });
  }
  const bool printed = attempt(err, [&] {
    print_table(out, all);
    for (const engine_result& one : all.engines) {
      print_trace(out, one);
    }
    common::finish_output(out);
  });
  return printed && good;
}

}  // namespace

int run_tool(const options& chosen, std::ostream& out, std::ostream& err, const engine_runner& run,
             const std::atomic<bool>& stop) {
  std::string script;
  if (chosen.report) {
    script = find_report_script();
    common::check_target("--report", *chosen.report);
  }
  if (chosen.json) {
    common::check_target("--json", *chosen.json);
  }
  const comparison all = compare_all(chosen, run, stop);
  const bool written = write_outputs(chosen, script, all, out, err);
  for (const std::string& problem : all.problems) {
    err << common::program_name("timing_wheel_compare") << ": " << problem << '\n';
  }
  if (!written || !all.problems.empty()) {
    return common::exit_failed;
  }
  return all.interrupted_by.empty() ? 0 : common::exit_stopped();
}

}  // namespace timing_wheel::compare
