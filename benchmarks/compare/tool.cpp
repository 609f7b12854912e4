#include "compare/tool.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "compare/output.hpp"
#include "compare/progress.hpp"
#include "compare/report.hpp"
#include "compare/rules.hpp"
#include "compare/sweep.hpp"

namespace timing_wheel::compare {
namespace {

std::ofstream create(const std::string& option, const std::string& path) {
  std::ofstream file(path, std::ios::app);  // what is there stays until there is something better
  if (!file) {
    throw usage_error(option + ": cannot write " + path + ": " + std::strerror(errno));
  }
  return file;
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

comparison compare_all(const options& chosen, progress& shown, const engine_runner& run) {
  comparison all;
  all.where = this_machine();
  shown.show("making the workload");
  all.plan = make_workload(chosen.workload);
  for (const engine_spec& spec : chosen.engines) {
    if (spec.type == engine_spec::kind::flat) {
      static_cast<void>(flat_slots(all.plan, spec));  // an error now, and not after minutes
    }
  }
  for (const engine_spec& spec : chosen.engines) {
    all.engines.push_back(
        run(all.plan, spec, chosen.trace, [&](double share) { shown.show("counting " + spec.text, share); }));
    shown.show("checking " + spec.text);
    append(all.problems, check(all.plan, spec, all.engines.back()));
    if (chosen.timed) {
      shown.show("timing " + spec.text);
      all.engines.back().timed = time_engine(all.plan, spec);
    }
  }
  append(all.problems, check_agreement(all.engines));
  return all;
}

void add_sweeps(const options& chosen, comparison& all, progress& shown) {
  const tell say = [&](const std::string& text) { shown.show(text); };
  all.by_delay = sweep_delays(all.plan, chosen.engines, all.problems, say);
  all.by_cancel = sweep_cancels(all.plan, chosen.workload, chosen.engines, all.problems, say);
  all.even = measure_break_even(all.plan, say);
}

bool write_file(const std::string& path, const comparison& all, std::ostream& err) {
  std::ofstream file(path, std::ios::trunc);
  write_json(file, all);
  if (!file.flush()) {
    err << "cannot write " << path << '\n';
    return false;
  }
  return true;
}

/// The script reads the counts from a file; without `--json`, from one that goes away.
bool write_report(const options& chosen, const report_script& script, const comparison& all, std::ostream& err) {
  const bool keep = chosen.json.has_value();
  const std::string json = keep ? *chosen.json : *chosen.report + ".json." + std::to_string(::getpid());
  const bool written = (keep || write_file(json, all, err)) && draw_report(script, json, *chosen.report);
  if (!keep) {
    std::error_code ignored;
    std::filesystem::remove(json, ignored);
  }
  if (!written) {
    err << "the report " << *chosen.report << " was not written\n";
  }
  return written;
}

}  // namespace

int run_tool(const options& chosen, std::ostream& out, std::ostream& err, const engine_runner& run) {
  report_script script;
  if (chosen.report) {
    script = find_report_script();
    create("--report", *chosen.report);
  }
  if (chosen.json) {
    create("--json", *chosen.json);
  }
  progress shown(chosen.quiet);
  comparison all = compare_all(chosen, shown, run);
  if (chosen.report) {
    add_sweeps(chosen, all, shown);
  }
  shown.clear();
  print_table(out, all);
  for (const engine_result& one : all.engines) {
    print_trace(out, one);
  }
  for (const std::string& problem : all.problems) {
    err << "timing_wheel_compare: " << problem << '\n';
  }
  bool good = all.problems.empty();
  good = (!chosen.json || write_file(*chosen.json, all, err)) && good;
  good = (!chosen.report || write_report(chosen, script, all, err)) && good;
  return good ? 0 : 1;
}

}  // namespace timing_wheel::compare
