#include "desk/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "common/program.hpp"
#include "desk/commands.hpp"

namespace timing_wheel::desk {

namespace {

constexpr const char* store_variable = "TIMING_WHEEL_STORE";

// Which options a command has.
enum flags : unsigned {
  takes_json = 1,
  takes_filter = 2,  // of checks
  takes_dead = 4,    // a filter of dead checks
  takes_change = 8,  // --dry-run and --yes
  takes_limit = 16,
  takes_due = 32,
  takes_watch = 64,
  takes_network = 128,
  takes_drain = 256,
  takes_file = 512,
  takes_plan = 1024,
  takes_after = 2048,
};

struct command {
  const char* name;
  exit_status (*run)(const desk&);
  const char* words;  // after the store
  std::size_t least;  // how many words
  std::size_t most;
  unsigned flags;
  const char* tells;
};

constexpr std::size_t any_number = 1'000'000;

constexpr std::array commands = {
    command{"status", status, "", 0, 0, takes_json | takes_watch,
            "What there is: kinds with their counts, what waits for how long, and nodes."},
    command{"list", list, "", 0, 0, takes_json | takes_filter | takes_dead | takes_limit | takes_after,
            "The checks that the options name, the latest deadline first; with --state dead the dead ones, the newest "
            "first."},
    command{"show", show, "KIND KEY", 2, 2, takes_json, "All that is known of a check."},
    command{"why", why, "KIND KEY", 2, 2, takes_json, "Why a check has not run, in words, and what to do."},
    command{"cancel", cancel, "[KIND KEY]", 0, 2, takes_json | takes_filter | takes_change,
            "Cancels a check, or all that the options name. A running check stays."},
    command{"reschedule", reschedule, "[KIND KEY]", 0, 2, takes_json | takes_filter | takes_change | takes_due,
            "Gives a check, or all that the options name, the deadline --due. A running check stays."},
    command{"run-now", run_now, "[KIND KEY]", 0, 2, takes_json | takes_filter | takes_change,
            "Makes a check due now, or all that the options name. A running check stays."},
    command{"retry", retry, "[ID...]", 0, any_number, takes_json | takes_dead | takes_change,
            "Makes dead checks pending again, due now. One whose key another check has by now stays."},
    command{"delete", remove, "[ID...]", 0, any_number, takes_json | takes_dead | takes_change, "Deletes dead checks."},
    command{"pause", pause, "KIND", 1, 1, takes_json, "From its next poll on, no node runs a check of the kind."},
    command{"resume", resume, "KIND", 1, 1, takes_json, "Ends a pause."},
    command{
        "drain", drain, "NODE", 1, 1, takes_json | takes_drain,
        "From its next poll on, the node claims nothing, also after a restart. Waits until it runs nothing any more."},
    command{
        "export", export_all, "", 0, 0, 0,
        "Writes all checks and all dead ones to standard output, as they are at one moment: a line of JSON for each."},
    command{"import", import_all, "FILE", 1, 1, takes_json | takes_file,
            "Reads what export has written; - is standard input. Refused if a check is there already."},
    command{"migrate", migrate, "", 0, 0, takes_json | takes_plan,
            "Brings the tables of an older release up to date; with --plan it only says how."},
    command{"audit", audit, "", 0, 0, takes_json | takes_limit, "Who has changed what, the newest first."},
    command{"check", check, "", 0, 0, takes_json, "What is wrong with the installation; ends with 4 if something is."},
    command{
        "serve", serve, "", 0, 0, takes_network,
        "A page that shows and steers the checks, and an HTTP API. Without --token-file it serves this machine only, "
        "and changes nothing."},
};

const command* command_of(const std::string& name) {
  const auto* const found =
      std::find_if(commands.begin(), commands.end(), [&](const command& each) { return each.name == name; });
  return found == commands.end() ? nullptr : found;
}

std::string words_of(const command& of) { return std::string("STORE") + (*of.words == '\0' ? "" : " ") + of.words; }

// Of a command, with all its words: the parser knows one list of them only.
class usage_line : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const command* const of = command_of(app->get_name());
    return of == nullptr ? Formatter::make_usage(app, std::move(name))
                         : "Usage: " + name + " " + words_of(*of) + " [OPTIONS]\n";
  }
};

bool is_store(const std::string& word) {
  return word.starts_with("sqlite:") || word.starts_with("postgres:") || word.starts_with("postgresql:") ||
         word.find('=') != std::string::npos;
}

// CLI11 reads a positional such as "[17]" as a list. A byte before it that no list has keeps it whole.
constexpr char no_list = '\1';
bool looks_like_a_list(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of(no_list), word.size()));
  return word.starts_with('[') && word.ends_with(']');
}
std::string without_mark(std::string word) {
  if (word.starts_with(no_list) && looks_like_a_list(word)) {
    word.erase(0, 1);
  }
  return word;
}

// That of CLI11 takes what is no number.
CLI::Validator seconds(double least, double most) {
  return {[=](const std::string& text) {
            double read = 0;
            return CLI::detail::lexical_cast(text, read) && read >= least && read <= most
                       ? std::string()
                       : "Value " + one_line(text) + " not in range [" + CLI::detail::to_string(least) + " - " +
                             CLI::detail::to_string(most) + "]";
          },
          "FLOAT"};
}

void add_options(CLI::App& app, const command& of, options& chosen) {
  app.add_option(
      "STORE", chosen.words,
      "sqlite:FILE, or a connection string of PostgreSQL, such as \"host=db dbname=shop\" or postgresql://...; "
      "if TIMING_WHEEL_STORE names it, it may be left out");
  app.add_option("--schema", chosen.schema, "the schema of the tables in PostgreSQL (timing_wheel)");
  const auto flag = [&](unsigned which) { return (of.flags & which) != 0; };
  if (flag(takes_json)) {
    app.add_flag("--json", chosen.as_json, "for programs: see docs/desk.md");
  }
  if (flag(takes_filter) || flag(takes_dead)) {
    app.add_option("--kind", chosen.kind, "of this kind");
    app.add_option("--key", chosen.key_prefix, "with a key that begins so");
  }
  if (flag(takes_filter)) {
    app.add_option(
        "--state", chosen.state,
        std::string("pending, due, waiting, running, retrying or suspect") + (flag(takes_dead) ? "; or dead" : ""));
    app.add_option("--due-before", chosen.due_before,
                   "with a deadline before: 2026-11-23T18:00:00Z, now, 30min or -2h");
    app.add_option("--due-after", chosen.due_after, "with a deadline after");
  }
  if (flag(takes_dead)) {
    app.add_option("--error", chosen.error, "dead ones with exactly this error");
    app.add_option("--pattern", chosen.pattern, "dead ones whose error is this but for its ids, as --groups shows it");
  }
  if (flag(takes_change)) {
    app.add_flag("--all", chosen.all, "all there are, if no other option names some");
    app.add_flag("--dry-run", chosen.dry_run, "only say how many there are");
    app.add_flag("-y,--yes", chosen.yes, "do not ask before more than one is changed");
  }
  if (flag(takes_limit)) {
    if (flag(takes_dead)) {
      app.add_flag("--groups", chosen.groups, "with --state dead: how many there are by kind and error");
    }
    app.add_option("--limit", chosen.limit, "how many, at most (50)")->check(CLI::Range(std::size_t{1}, any_number));
  }
  if (flag(takes_after)) {
    app.add_flag("--earliest", chosen.earliest, "begin with the earliest deadline, or with the first that died");
    app.add_option("--after", chosen.after, "go on behind this cursor, which a list that reached its limit has told");
  }
  if (flag(takes_due)) {
    app.add_option("--due", chosen.due, "the new deadline: 2026-11-23T18:00:00Z, now, or 30min from now on")
        ->required();
  }
  if (flag(takes_watch)) {
    app.add_flag("--metrics", chosen.as_metrics, "for Prometheus, such as a text file of its node exporter");
    app.add_flag("--watch", chosen.watch, "again and again, on a terminal, until you press Ctrl-C");
    app.add_option("--every", chosen.every, "with --watch: how often, in seconds (1)")->check(seconds(0.1, 3600));
  }
  if (flag(takes_file)) {
    app.add_flag("--keep-existing", chosen.keep_existing, "leave out what is there already");
    app.add_flag("--dry-run", chosen.dry_run, "only look at the file, and for what is there already");
  }
  if (flag(takes_plan)) {
    app.add_flag("--create", chosen.create, "make the tables, if the store has none");
    app.add_flag("--plan", chosen.plan, "only show the statements, and whether nodes may run meanwhile");
    app.add_flag("-y,--yes", chosen.yes, "also if older programs cannot use the tables afterwards");
  }
  if (flag(takes_drain)) {
    app.add_flag("--end", chosen.end, "let it claim again");
    app.add_option("--wait", chosen.wait, "seconds to wait, at most; 0: do not wait")->check(seconds(0, 1e9));
  }
  if (flag(takes_network)) {
    app.add_option("--listen", chosen.listen, "address and port (127.0.0.1:8080); port 0 is one that is free");
    app.add_option("--token-file", chosen.token_file,
                   "a line NAME TOKEN, or NAME TOKEN UNTIL, for each person or program that may see and change; needed "
                   "for changes, and to listen on an address that is not of this machine alone");
    app.add_option("--host", chosen.hosts, "a name, with its port, by which clients call it, such as that of a proxy")
        ->allow_extra_args(false);
#ifdef TIMING_WHEEL_DESK_WEBHOOKS
    auto* const deliver =
        app.add_option("--deliver", chosen.deliver,
                       "a file of JSON that names an address for each kind: run the checks of these kinds by a POST "
                       "to it")
            ->check([](const std::string& file) { return file.empty() ? "needs the name of a file" : ""; });
    app.add_option("--node", chosen.node,
                   "with --deliver: the name of this node, which it keeps after a restart; no other one may have it")
        ->needs(deliver)
        ->check([](const std::string& name) { return name.empty() || !is_text(name) ? "needs a name" : ""; });
    app.add_option("--lease", chosen.lease,
                   "with --deliver: if this server dies, how long its checks wait for another one, in seconds (30)")
        ->needs(deliver)
        ->check(seconds(1, 86400));
#endif
    app.add_flag("--read-only", chosen.read_only, "refuse all changes");
    app.add_flag("--redact", chosen.redact, "show no payload");
    app.add_option("--time-limit", chosen.time_limit,
                   "seconds for a client to send a request, or to take an answer (10)")
        ->check(seconds(0.1, 3600));
  }
  for (CLI::Option* const each : app.get_options()) {
    if (each->get_items_expected_max() > 0) {
      each->transform(without_mark);
    }
  }
}

// What is typed as a command prints it becomes its bytes: no argument can have a zero byte.
void unescape(const command& of, options& chosen) {
  for (std::optional<std::string>* const each : {&chosen.kind, &chosen.key_prefix, &chosen.error, &chosen.pattern}) {
    if (*each) {
      *each = unescaped(**each);
    }
  }
  if ((of.flags & takes_file) == 0) {
    std::transform(chosen.words.begin(), chosen.words.end(), chosen.words.begin(), unescaped);
  }
}

// The first word is the store, unless the environment has it and it looks like none.
void take_store(const command& of, options& chosen) {
  const char* const usual = std::getenv(store_variable);
  if (!chosen.words.empty() && (usual == nullptr || is_store(chosen.words.front()))) {
    chosen.store = chosen.words.front();
    chosen.words.erase(chosen.words.begin());
  } else if (usual != nullptr) {
    chosen.store = usual;
    chosen.store_is_usual = true;
  }
  const std::string usage = std::string(of.name) + " " + words_of(of);
  if (chosen.store.empty()) {
    throw failure(exit_status::usage, "no store is named: " + usage + ", or set " + store_variable);
  }
  if (chosen.words.size() < of.least || chosen.words.size() > of.most) {
    throw failure(exit_status::usage, "usage: " + usage);
  }
}

}  // namespace

options parse_options(int argc, const char* const* argv) {
  options chosen;
  CLI::App app("Shows and steers the durable checks of a store.", common::program_name("timing-wheel"));
  if (argc > 1 && *argv[1] != '-' && command_of(argv[1]) == nullptr) {
    throw failure(exit_status::usage, "there is no command '" + one_line(argv[1]) + "': see --help");
  }
  app.require_subcommand(1);
  app.set_version_flag("--version", TIMING_WHEEL_VERSION);
  app.formatter(std::make_shared<usage_line>());
  app.footer(
      "Ends with 0 if it is done, 1 if nothing matched, 2 if it was called wrongly, 3 if the store cannot be reached "
      "or\n"
      "read, and 4 if the change was refused. timing-wheel COMMAND --help tells more.");
  for (const command& each : commands) {
    add_options(*app.add_subcommand(each.name, each.tells), each, chosen);
  }
  try {
    std::vector<std::string> words;  // the last one first, as CLI11 takes them
    for (int at = argc - 1; at > 0; --at) {
      words.push_back((looks_like_a_list(argv[at]) ? std::string(1, no_list) : "") + argv[at]);
    }
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    const auto subs = app.get_subcommands();
    chosen.help = subs.empty() ? app.help() : subs.front()->help(app.get_name());
    return chosen;
  } catch (const CLI::CallForVersion&) {
    chosen.help = app.version() + "\n";
    return chosen;
  } catch (const CLI::ParseError& error) {
    throw failure(exit_status::usage, error.what());
  }
  chosen.command = app.get_subcommands().front()->get_name();
  const command& of = *command_of(chosen.command);
  chosen.run = of.run;
  take_store(of, chosen);
  unescape(of, chosen);
  return chosen;
}

}  // namespace timing_wheel::desk
