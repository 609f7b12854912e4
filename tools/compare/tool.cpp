#include "compare/tool.hpp"

#include <unistd.h>

#include <filesystem>
#include <ostream>

#include "common/program.hpp"
#include "common/progress.hpp"
#include "compare/break_even.hpp"
#include "compare/output.hpp"
#include "compare/report.hpp"
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
    if (spec.type == engine_spec::kind::flat) {
      static_cast<void>(flat_slots(all.plan, spec));  // an error now, and not after minutes
    }
  }
  for (const engine_spec& spec : chosen.engines) {
    shown.show("counting " + spec.text);
    all.engines.push_back(
        run(all.plan, spec, chosen.trace, [&](double share) { shown.show("counting " + spec.text, share); }));
    append(all.problems, check(all.plan, spec, all.engines.back()));
    if (chosen.timed) {
      shown.show("timing " + spec.text);
      all.engines.back().timed = time_engine(all.plan, spec);
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
  all.where = this_machine();
  try {
    shown.show("making the workload");
    all.plan = make_workload(chosen.workload);
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

/// The script reads the counts from a file; without `--json`, from one that goes away.
void write_report(const options& chosen, const report_script& script, const comparison& all) {
  const bool keep = chosen.json.has_value();
  const std::string json = keep ? *chosen.json : *chosen.report + ".json." + std::to_string(::getpid());
  if (!keep) {
    write_json_file(json, all);
  }
  const bool drawn = draw_report(script, json, *chosen.report);
  if (!keep) {
    std::error_code ignored;
    std::filesystem::remove(json, ignored);
  }
  if (!drawn) {
    throw common::failure("the report " + *chosen.report + " was not written");
  }
}

/// \returns whether every output was written, but for the report of a part, which there is not.
bool write_outputs(const options& chosen, const report_script& script, const comparison& all, std::ostream& out,
                   std::ostream& err) {
  const bool printed = attempt(err, [&] {
    print_table(out, all);
    for (const engine_result& one : all.engines) {
      print_trace(out, one);
    }
    common::finish_output(out);
  });
  const bool kept = !chosen.json || attempt(err, [&] { write_json_file(*chosen.json, all); });
  if (chosen.report && !all.interrupted_by.empty()) {
    err << "the report " << *chosen.report << " was not written, because not all of it was counted\n";
    return printed && kept;
  }
  const bool drawn = !chosen.report || (kept && attempt(err, [&] { write_report(chosen, script, all); }));
  return printed && kept && drawn;
}

}  // namespace

int run_tool(const options& chosen, std::ostream& out, std::ostream& err, const engine_runner& run,
             const std::atomic<bool>& stop) {
  report_script script;
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
