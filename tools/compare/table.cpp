#include <algorithm>

#include "compare/families.hpp"
#include "compare/output.hpp"

namespace timing_wheel::compare {
namespace {

using kind = engine_spec::kind;

/// Three significant digits, or the whole number.
std::string short_number(double number) {
  return common::with_decimals(number, number >= 100 || number == 0 ? 0 : number >= 10 ? 1 : 2);
}

/// Columns as wide as their widest cell; the first is aligned to the left.
class table {
 public:
  explicit table(std::vector<std::string> head) : rows_{std::move(head)} {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void print(std::ostream& out) const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string space(widths[i] - row[i].size(), ' ');
        line += i == 0 ? row[i] + space : "  " + space + row[i];
      }
      out << line << '\n';
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string latest(const engine_result& one) {
  return one.fired == 0 ? "nothing fired"
                        : short_number(std::chrono::duration<double, std::milli>(one.lateness.max).count());
}

std::vector<std::string> row_of(const engine_result& one, bool timed) {
  const auto per_second = one.wakeups_per_second();
  const auto timers = static_cast<double>(std::max<std::uint64_t>(one.added, 1));
  std::vector<std::string> row = {one.spec.text,
                                  grouped(one.fired),
                                  short_number(static_cast<double>(one.moves) / timers),
                                  short_number(static_cast<double>(one.looks) / timers),
                                  grouped(one.wakeups),
                                  per_second ? short_number(*per_second) : "-",
                                  grouped(one.empty_wakeups),
                                  one.spec.type == kind::heap ? "-" : grouped(one.flush_max),
                                  latest(one),
                                  short_number(one.bytes_per_timer())};
  if (timed) {
    row.push_back(one.timed ? short_number(one.timed->ns_per_operation) : "-");
    row.push_back(one.timed ? short_number(one.timed->longest_step_us) : "-");
  }
  return row;
}

void print_levels(std::ostream& out, const engine_result& one) {
  table levels({"  " + one.spec.text, "tick", "moves down", "flushes", "largest flush"});
  for (std::size_t i = 0; i < one.levels.size(); ++i) {
    const level_stats& level = one.levels[i];
    levels.add({"  level " + std::to_string(i + 1),
                format_duration(one.spec.tick * static_cast<std::int64_t>(level.tick_length)), grouped(level.moves),
                grouped(level.flushes), grouped(level.largest_flush)});
  }
  levels.print(out);
}

/// What an engine does by design that the others do not.
std::string note_on(const engine_result& one) {
  switch (one.spec.type) {
    case kind::noncascading:
      return "late by design: a timer fires from its level, up to " +
             short_number(100 * static_cast<double>(noncascading_step) / (one.slots - 1.0)) + " % of its delay late";
    case kind::session:
      return "late by design: up to " + format_duration(one.spec.tick) + ", the tick of its buckets";
    case kind::sorted:
      return "a tick compares the earliest deadline of a slot, which is no look at a timer";
    case kind::threads:
      return std::to_string(one.levels.size()) + " threads, whose races are left out";
    default:
      return "";
  }
}

void print_break_even(std::ostream& out, const break_even& even) {
  out << "\nbreak-even, " << even.size << " slots: a move costs " << short_number(std::max(even.ns_per_move, 0.0))
      << " ns, a look " << short_number(std::max(even.ns_per_look, 0.0)) << " ns\n";
  for (const break_even_run& run : even.runs) {
    out << "  " << short_number(run.timers_per_tick) << " timers per tick: rounds take less time "
        << (run.crossing > 0 ? "up to " + grouped(static_cast<std::uint64_t>(run.crossing)) + " ticks" : "nowhere")
        << '\n';
  }
}

}  // namespace

void print_table(std::ostream& out, const comparison& all) {
  const bool timed = std::any_of(all.engines.begin(), all.engines.end(), [](const auto& one) { return one.timed; });
  out << grouped(all.plan.timers.size()) << " timers, delays " << all.plan.delays << ", arrivals " << all.plan.arrivals
      << ", cancelled " << all.plan.cancel << ", window " << format_duration(all.plan.window) << ", seed "
      << all.plan.seed << "; virtual time\n\n";
  std::vector<std::string> head = {"engine",     "fired", "moves/timer",   "looks/timer", "wake-ups",
                                   "wake-ups/s", "empty", "largest flush", "latest ms",   "bytes/timer"};
  if (timed) {
    head.insert(head.end(), {"ns/operation", "longest step us"});
  }
  table rows(std::move(head));
  for (const engine_result& one : all.engines) {
    rows.add(row_of(one, timed));
  }
  rows.print(out);
  for (const engine_result& one : all.engines) {
    if (const std::string note = note_on(one); !note.empty()) {
      out << "  " << one.spec.text << ": " << note << '\n';
    }
  }
  for (const engine_result& one : all.engines) {
    if (one.levels.size() > 1) {
      out << '\n';
      print_levels(out, one);
    }
  }
  if (all.even) {
    print_break_even(out, *all.even);
  }
  out << '\n';
  for (const std::string& problem : all.problems) {
    out << "WRONG: " << problem << '\n';
  }
  if (!all.interrupted_by.empty()) {
    out << "interrupted by " << all.interrupted_by << ": engines counted until then: " << all.engines.size() << '\n';
  }
  if (all.problems.empty() && !all.engines.empty()) {
    out << "every engine fired the same timers, each in the tick that its rule says, none early; every count is what "
           "the rules say\n";
  }
}

void print_trace(std::ostream& out, const engine_result& result) {
  if (!result.traced) {
    return;
  }
  out << '\n' << result.spec.text << ", each wake-up and each move, in ticks; timers count from 0\n";
  auto move = result.traced->moves.begin();
  std::size_t idle = 0;
  const auto tell_idle = [&] {
    if (idle != 0) {
      out << "  … " << idle << " wake-ups that find nothing\n";
    }
    idle = 0;
  };
  for (const traced_wakeup& one : result.traced->wakeups) {
    if (one.handled == 0) {
      ++idle;
      continue;
    }
    tell_idle();
    out << "  " << one.when << ": handles " << one.handled;
    for (const std::uint32_t timer : one.fired) {
      out << ", fires " << timer;
    }
    for (; move != result.traced->moves.end() && move->when == one.when; ++move) {
      out << ", moves " << move->timer << " from level " << move->from + 1 << " to " << move->to + 1;
    }
    out << '\n';
  }
  tell_idle();
}

}  // namespace timing_wheel::compare
