#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <istream>
#include <limits>
#include <ostream>
#include <thread>

#include "common/program.hpp"
#include "common/progress.hpp"
#include "common/stop_signal.hpp"
#include "desk/commands.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::desk {

namespace {

using durable::stored_check;

// So many are changed in a transaction: on SQLite nobody else writes meanwhile.
constexpr std::size_t in_transaction = 1000;
// No more are counted before a change: that would take longer than a statement may.
constexpr std::size_t most_counted = 1'000'000;

std::string number_of(std::size_t count) {
  return count > most_counted ? "more than " + common::grouped(most_counted) : common::grouped(count);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

std::string operating_user() {
  const passwd* const user = ::getpwuid(::getuid());
  return one_line((user != nullptr ? std::string(user->pw_name) : std::to_string(::getuid())) + "@" + host_name(), 200);
}

namespace {

// In the audit. Without any filter, all were meant, and `require_a_filter` has seen that somebody said so.
std::string subject_of(const options& chosen) {
  const std::string words = words_of_filter(chosen);
  return words.empty() ? "all" : words;
}

durable::audit_entry entry_of(const desk& with, const std::string& subject, std::size_t count) {
  return {.by = with.chosen.by.empty() ? operating_user() : with.chosen.by,
          .action = with.chosen.command,
          .kind = with.chosen.kind.value_or(""),
          .subject = subject + (with.chosen.due ? " to " + one_line(*with.chosen.due) : ""),
          .count = count};
}

// What was done with how many.
struct tally {
  std::size_t changed = 0;
  std::size_t refused = 0;  // they run, or their keys are taken
  std::size_t same = 0;     // are so already
  std::size_t missing = 0;  // were named, and are not there
  std::size_t left = 0;     // others have locked them, or they have ended meanwhile
  bool stopped = false;     // before all were changed
};

exit_status tell(const desk& with, const tally& done, const std::string& changed, const std::string& refused) {
  if (with.chosen.as_json) {
    json told{{"changed", done.changed}, {"refused", done.refused + done.missing}, {"dry_run", with.chosen.dry_run}};
    if (with.chosen.dry_run && done.changed > most_counted) {
      told["at_least"] = true;
    }
    if (done.stopped) {
      told["stopped"] = true;
    }
    with.out << told.dump() << '\n';
  } else if (with.chosen.dry_run) {
    with.out << number_of(done.changed) << " match; nothing was changed\n";
  } else {
    with.out << common::grouped(done.changed) << ' ' << changed;
    if (done.stopped) {
      with.out << "; stopped before the rest";
    }
    if (done.refused > 0) {
      with.out << "; " << common::grouped(done.refused) << ' ' << refused;
    }
    if (done.left > 0) {
      with.out << "; " << common::grouped(done.left) << " are locked by others, or have ended meanwhile";
    }
    with.out << '\n';
  }
  return done.stopped                   ? exit_status::refused
         : done.changed + done.same > 0 ? exit_status::done
         : done.refused + done.left > 0 ? exit_status::refused
                                        : exit_status::nothing_matched;
}

// Asks before more than one is changed.
void confirm(const desk& with, std::size_t count) {
  if (with.chosen.yes || count <= 1) {
    return;
  }
  if (::isatty(STDIN_FILENO) != 1) {
    throw failure(exit_status::refused,
                  number_of(count) + " match; nothing was changed: give --yes, or --dry-run to see how many");
  }
  const std::string which = words_of_filter(with.chosen);
  with.err << with.chosen.command << ' ' << number_of(count) << " checks" << (which.empty() ? "" : " (" + which + ")")
           << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(with.in, answer);
  if (answer != "y" && answer != "yes") {
    throw failure(exit_status::refused, "nothing was changed");
  }
}

void require_a_filter(const desk& with) {
  if (words_of_filter(with.chosen).empty() && !with.chosen.all) {
    const bool of_the_dead = with.chosen.command == "retry" || with.chosen.command == "delete";
    throw failure(exit_status::usage, with.chosen.command + " of which checks? Give " +
                                          (of_the_dead ? "ids of dead checks" : "a kind and a key") +
                                          ", or options such as --kind; --all means all there are");
  }
}

// Shows how far it is, until it is over, or Ctrl-C stops it between two transactions.
class steps {
 public:
  steps(const desk& with, std::size_t all) : all_(all), shown_(with.chosen.as_json) { common::stop_on_signals(); }

  void done(std::size_t count) {
    count_ += count;
    if (shown_.due()) {
      shown_.show(common::grouped(count_) + " of " + number_of(all_),
                  all_ == 0 ? 1 : std::min(1.0, static_cast<double>(count_) / static_cast<double>(all_)));
    }
  }
  [[nodiscard]] static bool go_on() { return !common::stop_asked(); }

 private:
  std::size_t all_;
  std::size_t count_ = 0;
  common::progress shown_;
};

// A transaction of several. \throws failure, with what was done before it, where a store throws.
template <class Work>
void transact_next(const desk& with, const tally& done, const Work& work) {
  try {
    with.store.transact(work);
  } catch (const timer_error& error) {
    if (done.changed == 0) {
      throw;
    }
    throw failure(exit_status::no_store, std::string(error.what()) + "; " + common::grouped(done.changed) +
                                             " were changed before, see timing-wheel audit");
  }
}

std::string check_words(const std::string& key) { return "key " + one_line(key, 300); }

// Changes the checks that `which` means, a thousand in a transaction. `change` does it, to those that it is given. If
// all of one kind are meant, it goes by their keys: else a server would seek the last page among all other kinds.
template <class Change>
tally change_all(const desk& with, const durable::check_filter& which, const Change& change) {
  const std::size_t all = with.store.count(which, most_counted + 1);
  if (with.chosen.dry_run) {
    return {all, 0};
  }
  if (all == 0) {
    return {};
  }
  confirm(with, all);
  steps progress(with, all);
  tally done;
  const bool only_one = all == 1 && !with.chosen.yes;  // nobody was asked about more
  durable::check_range range{.limit = only_one ? 1 : in_transaction, .which = which};
  if (!which.kind.empty() && !which.state && !which.due_before && !which.due_after) {
    range.from_key = "";
  }
  bool more = true;
  while (more && steps::go_on()) {
    tally changed;
    transact_next(with, done, [&](durable::store_transaction& open) {
      const std::vector<stored_check> page = open.list(range);
      const tally here = change(open, page);
      if (here.changed > 0) {
        open.record(entry_of(with, subject_of(with.chosen), here.changed));
      }
      changed = here;
      more = page.size() == in_transaction && !only_one;
      if (more && range.from_key) {
        range.from_key = page.back().key + '\0';
      } else if (more) {
        range.after = {page.back().due, page.back().id};
      }
    });
    done.changed += changed.changed;
    done.refused += changed.refused;
    done.same += changed.same;
    progress.done(in_transaction);
  }
  done.stopped = more;
  const std::size_t looked_at = done.changed + done.refused + done.same;
  done.left = more || looked_at > all ? 0 : all - looked_at;
  return done;
}

tally cancel_these(durable::store_transaction& open, const std::vector<stored_check>& some) {
  std::vector<durable::cancel_op> ops;
  ops.reserve(some.size());
  for (const stored_check& each : some) {
    ops.push_back({each.kind, each.key});
  }
  open.cancel(ops);
  tally done;
  for (const durable::cancel_op& each : ops) {
    done.changed += each.result == cancel_result::cancelled ? 1U : 0U;
    done.refused += each.result == cancel_result::running ? 1U : 0U;
  }
  return done;
}

// What has the deadline already, because it was moved before, stays; so does what is due, if it is `only_earlier`: by
// its deadline it is seen how late it is.
tally move_these(durable::store_transaction& open, const std::vector<stored_check>& some, instant due,
                 bool only_earlier) {
  std::vector<durable::reschedule_op> ops;
  ops.reserve(some.size());
  for (const stored_check& each : some) {
    if (each.running || (only_earlier ? each.due > due : each.due != due)) {
      ops.push_back({each.kind, each.key, due});
    }
  }
  open.reschedule(ops);
  tally done{.same = some.size() - ops.size()};
  for (const durable::reschedule_op& each : ops) {
    done.changed += each.result == durable::reschedule_result::moved ? 1U : 0U;
    done.refused += each.result == durable::reschedule_result::running ? 1U : 0U;
  }
  return done;
}

constexpr const char* they_run = "run, and stay";

// Of the one check that was named. \returns none if there is no kind and key.
template <class Change>
std::optional<tally> change_one(const desk& with, const Change& change) {
  const std::vector<std::string>& words = with.chosen.words;
  if (words.empty()) {
    require_a_filter(with);
    return std::nullopt;
  }
  if (words.size() == 1 || !words_of_filter(with.chosen).empty() || with.chosen.all) {
    throw failure(exit_status::usage, "give a kind and a key, or options such as --kind, and not both");
  }
  const auto [kind, key] = named_check(with.chosen, with.where);
  const std::optional<stored_check> found = with.store.find(kind, key);
  if (!found) {
    return tally{.missing = 1};
  }
  tally done;
  if (with.chosen.dry_run) {
    return found->running ? tally{0, 1} : tally{1, 0};
  }
  with.store.transact_within({.lock_wait = longest_lock}, [&](durable::store_transaction& open) {
    done = change(open, std::vector<stored_check>{*found});
    if (done.changed > 0) {
      durable::audit_entry line = entry_of(with, check_words(found->key), done.changed);
      line.kind = found->kind;
      open.record(line);
    }
  });
  return done;
}

exit_status move(const desk& with, instant due, const durable::check_filter& which, bool only_earlier) {
  const auto change = [&](durable::store_transaction& open, const std::vector<stored_check>& some) {
    return move_these(open, some, due, only_earlier);
  };
  const std::optional<tally> one = change_one(with, change);
  return tell(with, one ? *one : change_all(with, which, change), "moved to " + time_text(due), they_run);
}

std::int64_t read_id(const std::string& text) {
  const std::optional<std::int64_t> id = read_integer(text);
  if (!id || *id < 1) {
    throw failure(exit_status::usage, "'" + one_line(text) +
                                          "' is no id of a dead check: timing-wheel list --state dead "
                                          "shows them");
  }
  return *id;
}

// Changes the dead that were named, or that the options name. `change` \returns how many it has changed.
template <class Change>
tally change_dead(const desk& with, const Change& change) {
  tally done;
  const auto change_some = [&](const std::vector<std::int64_t>& ids, const std::string& subject) {
    if (ids.empty()) {
      return;
    }
    std::size_t changed = 0;
    transact_next(with, done, [&](durable::store_transaction& open) {
      changed = change(open, ids);
      if (changed > 0) {
        open.record(entry_of(with, subject, changed));
      }
    });
    done.changed += changed;
    done.refused += ids.size() - changed;
  };
  if (!with.chosen.words.empty()) {
    if (!words_of_filter(with.chosen).empty() || with.chosen.all) {
      throw failure(exit_status::usage, "give ids, or options such as --kind, and not both");
    }
    std::vector<std::int64_t> ids;
    std::transform(with.chosen.words.begin(), with.chosen.words.end(), std::back_inserter(ids), read_id);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    const std::size_t missing = std::erase_if(ids, [&](std::int64_t id) {
      const auto found = with.store.list_dead({.limit = 1, .after = id - 1, .with_payloads = false});
      return found.empty() || found[0].id != id;
    });
    if (missing != 0 && !with.chosen.is_request) {
      with.err << missing << " of these ids " << (missing == 1 ? "is" : "are") << " not there\n";
    }
    std::string subject = "dead";
    for (const std::int64_t id : ids) {
      subject += (subject.size() > 200 ? "" : " " + std::to_string(id));
    }
    done.missing = missing;
    if (with.chosen.dry_run) {
      done.changed = ids.size();
      return done;
    }
    confirm(with, ids.size());
    change_some(ids, subject);
    return done;
  }
  require_a_filter(with);
  tell_pattern(with);
  const durable::dead_filter which = dead_filter_of(with.chosen, with.where);
  std::size_t all = 0;
  std::size_t looked_at = 0;
  for (const durable::dead_group& each : with.store.count_dead(which, most_counted + 1, most_counted + 1)) {
    looked_at += each.count;
    all += has_pattern(with.chosen, each.error) ? each.count : 0;
  }
  all = looked_at > most_counted ? looked_at : all;  // others may have the pattern, too
  if (with.chosen.dry_run) {
    return {all, 0};
  }
  // What dies from now on is not meant.
  durable::dead_range first{.limit = 1, .which = which, .newest_first = true, .with_payloads = false};
  const auto newest = list_dead(with.store, with.chosen, first);
  const std::int64_t last = newest.empty() ? 0 : newest[0].id;
  confirm(with, all);
  steps progress(with, all);
  // The newest first: of two with one key, that one is revived.
  durable::dead_range range{
      .limit = in_transaction, .after = last + 1, .which = which, .newest_first = true, .with_payloads = false};
  bool more = true;
  while (more && steps::go_on()) {
    std::vector<std::int64_t> ids;
    for (const durable::dead_check& each : list_dead(with.store, with.chosen, range)) {
      ids.push_back(each.id);
    }
    change_some(ids, subject_of(with.chosen));
    more = ids.size() == in_transaction;
    progress.done(ids.size());
  }
  done.stopped = more;
  return done;
}

// One that nobody has is most likely mistyped. A role may lack the right to look.
bool is_known(durable::store& store, const std::string& kind) try {
  const auto nodes = store.nodes().value_or(std::vector<durable::node_info>());
  return store.count({.kind = kind}, 1) != 0 ||
         !store.list_dead({.limit = 1, .which = {.kind = kind}, .with_payloads = false}).empty() ||
         std::any_of(nodes.begin(), nodes.end(), [&](const durable::node_info& of) { return serves(of, kind); });
} catch (const timer_error&) {
  return true;
}

template <class Change>
exit_status change_kind(const desk& with, const char* changed, const char* same, const Change& change) {
  const std::string& kind = with.chosen.words.at(0);
  validate_any_kind(kind, with.where);
  bool done = false;
  with.store.transact([&](durable::store_transaction& open) {
    done = change(open, kind);
    if (done) {
      durable::audit_entry line = entry_of(with, "", 1);
      line.kind = kind;
      open.record(line);
    }
  });
  if (with.chosen.as_json) {
    with.out << json{{"changed", done ? 1 : 0}}.dump() << '\n';
  } else {
    with.out << one_line(kind) << (done ? changed : same) << '\n';
  }
  return done ? exit_status::done : exit_status::nothing_matched;
}

}  // namespace

exit_status cancel(const desk& with) {
  const std::optional<tally> one = change_one(with, cancel_these);
  return tell(with, one ? *one : change_all(with, filter_of(with.chosen, with.where, with.store.now()), cancel_these),
              "cancelled", they_run);
}

exit_status reschedule(const desk& with) {
  const instant now = with.store.now();
  return move(with, read_time("--due", with.chosen.due.value(), now), filter_of(with.chosen, with.where, now), false);
}

exit_status run_now(const desk& with) {
  const instant now = with.store.now();
  durable::check_filter which = filter_of(with.chosen, with.where, now);
  which.due_after = std::max(which.due_after.value_or(now), now);
  return move(with, now, which, true);
}

exit_status retry(const desk& with) {
  const tally done = change_dead(with, [](durable::store_transaction& open, const std::vector<std::int64_t>& ids) {
    return open.revive_dead(ids);
  });
  return tell(with, done, "revived", "stay: another check has their key, or they are there no more");
}

exit_status remove(const desk& with) {
  const tally done = change_dead(with, [](durable::store_transaction& open, const std::vector<std::int64_t>& ids) {
    return open.delete_dead(ids);
  });
  return tell(with, done, "deleted", "are not there");
}

exit_status pause(const desk& with) {
  const exit_status ended =
      change_kind(with, " is paused", " was paused already",
                  [](durable::store_transaction& open, const std::string& kind) { return open.pause(kind); });
  if (const std::string& kind = with.chosen.words.at(0); !is_known(with.store, kind)) {
    with.err << "there is no check of the kind " << one_line(kind) << ", and no node has a handler for it\n";
  }
  return ended;
}

exit_status resume(const desk& with) {
  return change_kind(with, " goes on", " was not paused",
                     [](durable::store_transaction& open, const std::string& kind) { return open.resume(kind); });
}

namespace {

std::optional<durable::drained_node> drained_of(durable::store& store, const std::string& node) {
  for (durable::drained_node& each : store.drained_nodes()) {
    if (each.node == node) {
      return std::move(each);
    }
  }
  return std::nullopt;
}

// The node as a server knows it; none if it is not known there, or if the store knows no nodes. A node that came back
// with other kinds is there twice for a while: the one that has been there last counts.
std::optional<durable::node_info> node_of(durable::store& store, const std::string& node) {
  std::optional<durable::node_info> latest;
  for (durable::node_info& each : store.nodes().value_or(std::vector<durable::node_info>())) {
    if (each.name == node && (!latest || latest->until < each.until)) {
      latest = std::move(each);
    }
  }
  return latest;
}

// What the operator waits for. None: for nothing any more.
std::optional<std::string> still_busy(const desk& with, const std::string& node, exit_status& ends_with) {
  constexpr std::chrono::seconds silence(15);
  const std::optional<durable::drained_node> of = drained_of(with.store, node);
  const instant now = with.store.now();
  ends_with = exit_status::refused;
  if (!of) {
    with.err << "somebody has ended the drain\n";
    return std::nullopt;
  }
  if (of->held == std::size_t{0}) {
    ends_with = exit_status::done;
    return std::nullopt;
  }
  if (of->held && now - of->told > silence) {
    with.err << one_line(node) << " has told nothing since " << time_text(of->told) << ": it has died or hangs, with "
             << common::grouped(*of->held) << " checks. Other nodes run these when their leases have ended\n";
    return std::nullopt;
  }
  if (of->held) {
    return one_line(node) + " still runs " + common::grouped(*of->held) + " checks";
  }
  const std::optional<durable::node_info> known = node_of(with.store, node);
  if (known && known->until <= now) {
    with.err << one_line(node)
             << " has left without a word, so nobody knows what it runs. Other nodes run its checks when "
             << "their leases have ended; it claims nothing if it comes back\n";
    return std::nullopt;
  }
  return (known ? "the node " : "no node of the name ") + one_line(node) + (known ? " has not" : " has") +
         " answered yet";
}

exit_status wait_until_empty(const desk& with, const std::string& node) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(with.chosen.wait.value_or(1e9));
  exit_status ends_with = exit_status::refused;
  std::string told;
  common::stop_on_signals();
  for (;;) {
    const std::optional<std::string> busy = still_busy(with, node, ends_with);
    if (!busy) {
      return ends_with;
    }
    if (std::chrono::steady_clock::now() >= end || common::stop_asked()) {
      with.err << *busy << "; it stays drained\n";
      return exit_status::refused;
    }
    if (!with.chosen.as_json && *busy != told) {
      with.err << *busy << '\n' << std::flush;
      told = *busy;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// A node whose drain has ended is back within a poll, if it runs. A store that knows no nodes cannot tell.
bool comes_back(const desk& with, const std::string& node) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (;;) {
    const std::optional<durable::node_info> known = node_of(with.store, node);
    if (!with.store.nodes() || (known && known->until > with.store.now())) {
      return true;
    }
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace

exit_status drain(const desk& with) {
  const std::string& node = with.chosen.words.at(0);
  const bool ends = with.chosen.end;
  if (!ends && with.store.nodes() && !node_of(with.store, node) && !drained_of(with.store, node)) {
    throw failure(exit_status::nothing_matched,
                  "there is no node '" + one_line(node) + "': timing-wheel status lists them");
  }
  durable::validate_node(node);
  bool done = false;
  with.store.transact([&](durable::store_transaction& open) {
    done = ends ? open.end_drain(node) : open.drain(node);
    if (done) {
      durable::audit_entry line = entry_of(with, "node " + one_line(node, 300), 1);
      line.action = ends ? "end drain" : "drain";
      open.record(line);
    }
  });
  exit_status ended = ends && !done ? exit_status::nothing_matched : exit_status::done;
  if (!ends && with.chosen.wait != 0.0) {
    ended = wait_until_empty(with, node);
  }
  const bool is_missing = ends && done && with.chosen.wait != 0.0 && !comes_back(with, node);
  if (is_missing) {
    with.err << one_line(node) << " may claim again, but no node of that name has come back: does it run?\n";
    ended = exit_status::refused;
  }
  if (with.chosen.as_json) {
    json told{{"changed", done ? 1 : 0}};
    if (!ends) {
      const std::optional<durable::drained_node> now = drained_of(with.store, node);
      told["held"] = now && now->held ? json(*now->held) : json();
    }
    with.out << told.dump() << '\n';
  } else if (ends && !is_missing) {
    with.out << one_line(node) << (done ? " claims again" : " was not drained") << '\n';
  } else if (ended == exit_status::done) {
    with.out << one_line(node) << (with.chosen.wait == 0.0 ? " is drained\n" : " is drained and empty\n");
  }
  return ended;
}

exit_status migrate(const desk& with) {
  const durable::migration_plan plan = with.store.plan_migration();
  if (plan.from.empty() && !with.chosen.create) {
    throw failure(exit_status::no_store, "there are no tables of durable checks; --create makes them");
  }
  const bool is_done = plan.statements.empty();
  const std::string steps =
      "the tables " + (plan.from.empty() ? "to version " : "from version " + plan.from + " to ") + plan.to;
  if (!with.chosen.plan && !is_done) {
    if (!plan.additive && !with.chosen.yes) {
      throw failure(exit_status::refused, "nothing was changed: to bring " + steps +
                                              ", stop all programs that use them, make a backup, and give --yes");
    }
    with.store.migrate();
    if (!with.store.plan_migration().statements.empty()) {
      throw failure(exit_status::refused, "nothing was changed: only the role that owns the tables may bring " + steps);
    }
    with.store.transact([&](durable::store_transaction& open) { open.record(entry_of(with, steps, 0)); });
  }
  if (with.chosen.as_json) {
    with.out << json{{"from", plan.from},
                     {"to", plan.to},
                     {"additive", plan.additive},
                     {"statements", plan.statements},
                     {"changed", with.chosen.plan || is_done ? 0 : 1}}
                    .dump()
             << '\n';
  } else if (is_done) {
    with.out << "the tables are of version " << plan.from << ": there is nothing to do\n";
  } else if (with.chosen.plan) {
    for (const std::string& each : plan.statements) {
      with.out << each << ";\n";
    }
    with.out << "-- This brings " << steps
             << (plan.additive ? ". Nodes may run meanwhile\n" : ". Stop all programs first\n");
  } else {
    with.out << "brought " << steps << '\n';
  }
  return exit_status::done;
}

}  // namespace timing_wheel::desk
