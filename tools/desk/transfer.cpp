#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <iterator>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "common/program.hpp"
#include "common/progress.hpp"
#include "common/stop_signal.hpp"
#include "desk/commands.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

// Checks as lines of JSON, from one store to another.

namespace timing_wheel::desk {

namespace {

using durable::dead_check;
using durable::stored_check;

constexpr const char* format = "timing_wheel checks 1";

template <class Check>
json line_of(const Check& check, const char* state) {
  json line = {{"state", state}};
  set_kind(line, check.kind);
  set_bytes(line, "key", check.key);
  line["due_us"] = check.due.time_since_epoch().count();
  line["attempt"] = check.attempt;
  line["fence"] = check.fence;
  set_bytes(line, "payload", check.payload);
  return line;
}

// What a line of the file has.
struct batch {
  std::vector<stored_check> checks;
  std::vector<dead_check> dead;
  std::size_t bytes = 0;

  [[nodiscard]] std::size_t size() const { return checks.size() + dead.size(); }
};

struct totals {
  std::size_t checks = 0;
  std::size_t dead = 0;
};

class broken_line : public failure {
 public:
  broken_line(std::size_t number, const std::string& why)
      : failure(exit_status::usage, "line " + std::to_string(number) + ": " + why) {}
};

std::size_t hash_of(const std::string& kind, const std::string& key) {
  return std::hash<std::string>()(kind + '\0' + key);
}
// Young stores have drawn the same fences, and their checks may have the same keys.
std::size_t hash_of(const dead_check& check) {
  const auto number = [](instant when) { return std::to_string(when.time_since_epoch().count()); };
  return hash_of(check.kind, number(check.due) + '/' + number(check.died) + '/' + check.key);
}

// Whether tables take the deadline of a check: see TIMING_WHEEL_PLAUSIBLE.
bool is_plausible(std::int64_t due) {
  const auto is_in = [&](std::int64_t least, std::int64_t most) { return least <= due && due <= most; };
  return !is_in(1'000'000'000, 9'999'999'999) && !is_in(1'000'000'000'000, 9'999'999'999'999) &&
         !is_in(1'000'000'000'000'000'000, INT64_MAX - 1);
}

// What a node keeps of an error, so that UTF-8 stays that.
std::string kept_of(std::string error) {
  constexpr std::size_t longest = 65'536;
  std::size_t end = std::min(error.size(), longest);
  while (end < error.size() && end + 3 > longest && (static_cast<unsigned char>(error[end]) & 0xC0U) == 0x80) {
    --end;
  }
  error.resize(end);
  return error;
}

// The lines of an export. Each is checked as it is read, for what the tables of a server or a file refuse.
class reader {
 public:
  reader(std::istream& in, const desk& with) : in_(in), where_(with.where) {
    const json first = next();
    if (const auto found = first.find("format"); found == first.end() || *found != format) {
      throw broken_line(number_, "this is no export of timing-wheel");
    }
  }

  // Adds a line to `to`. \returns false at the end.
  bool read(batch& to) {
    const json line = next();
    try {
      if (line.contains("end")) {
        if (integer(line, "checks") != static_cast<std::int64_t>(seen_.checks) ||
            integer(line, "dead") != static_cast<std::int64_t>(seen_.dead)) {
          throw broken_line(number_, "the export had more or fewer checks than are here");
        }
        if ((in_ >> std::ws).peek() != std::istream::traits_type::eof()) {
          throw broken_line(number_ + 1, "there is something after the last line of the export");
        }
        refuse_twins();
        return false;
      }
      take(line, to);
    } catch (const json::exception&) {
      throw broken_line(number_, "a member is missing, or is none that an export has");
    } catch (const timer_error& error) {
      throw broken_line(number_, error.what());
    }
    return true;
  }
  // \throws broken_line of two checks with one kind and key, or of a dead one that is there twice.
  void refuse_twins() {
    std::sort(lines_.begin(), lines_.end());
    const auto twin = std::adjacent_find(lines_.begin(), lines_.end(),
                                         [](const auto& one, const auto& next) { return one.first == next.first; });
    if (twin != lines_.end()) {
      throw broken_line(twin[1].second, "its kind and key are those of line " + std::to_string(twin->second));
    }
  }
  [[nodiscard]] const totals& seen() const { return seen_; }

 private:
  json next() {
    std::string text;
    ++number_;
    if (!std::getline(in_, text)) {
      throw broken_line(number_, "the export ends before its last line: it was cut off");
    }
    json line = json::parse(text, nullptr, false);
    if (!line.is_object()) {
      throw broken_line(number_, "this is no JSON object");
    }
    return line;
  }
  [[nodiscard]] std::string bytes(const json& line, const std::string& name) const {
    if (const auto found = line.find(name + "_base64"); found != line.end()) {
      const std::optional<std::string> read = from_base64(found->get<std::string>());
      if (!read) {
        throw broken_line(number_, name + "_base64 is none");
      }
      return *read;
    }
    return line.at(name);
  }
  // A number that is no integer becomes none.
  [[nodiscard]] std::int64_t integer(const json& line, const char* name) const {
    const json& value = line.at(name);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
      throw broken_line(number_, std::string(name) + " is no integer of 64 bits");
    }
    return value.get<std::int64_t>();
  }
  template <class Check>
  void take(const json& line, Check& check) const {
    check.kind = bytes(line, "kind");
    check.key = bytes(line, "key");
    check.payload = bytes(line, "payload");
    check.due = instant(std::chrono::microseconds(integer(line, "due_us")));
    const std::int64_t attempt = integer(line, "attempt");
    check.fence = integer(line, "fence");
    constexpr std::int64_t most_attempts = 2'000'000'000;          // a claim counts on from there
    constexpr std::int64_t highest_fence = std::int64_t{1} << 62;  // a store draws higher ones from then on
    if (attempt < 0 || attempt > most_attempts || check.fence < 0 || check.fence > highest_fence) {
      throw broken_line(number_, "attempt is not in [0, 2000000000], or fence not in [0, 2^62]");
    }
    check.attempt = static_cast<int>(attempt);
    if (*check.kind.c_str() == '\0' || check.key.empty()) {
      throw broken_line(number_, "the kind or the key is empty, or the kind begins with a zero byte");
    }
    validate_any_kind(check.kind, where_);
  }
  void take(const json& line, batch& to) {
    const std::string state = line.at("state");
    if (state == "dead") {
      dead_check& check = to.dead.emplace_back();
      take(line, check);
      check.error = kept_of(bytes(line, "error"));
      check.died = instant(std::chrono::microseconds(integer(line, "died_us")));
      lines_.emplace_back(hash_of(check), number_);
      ++seen_.dead;
      to.bytes += check.payload.size();
    } else if (state == "pending" || state == "running") {
      stored_check& check = to.checks.emplace_back();
      take(line, check);
      if (!is_plausible(check.due.time_since_epoch().count())) {
        throw broken_line(number_,
                          "due_us is no time in microseconds: it looks like seconds, milliseconds or nanoseconds");
      }
      lines_.emplace_back(hash_of(check.kind, check.key), number_);
      ++seen_.checks;
      to.bytes += check.payload.size();
    } else {
      throw broken_line(number_, "the state is none of pending, running, dead");
    }
  }

  std::istream& in_;
  const place& where_;
  std::size_t number_ = 0;
  totals seen_;
  std::vector<std::pair<std::size_t, std::size_t>> lines_;  // the hash, and the number
};

// The dead checks of a store, 16 bytes for each: the fence, which a store draws once, and a hash.
class known_dead {
 public:
  explicit known_dead(durable::store& store) {
    durable::dead_range range{.limit = 1000, .with_payloads = false};
    for (bool more = true; more && !common::stop_asked();) {
      const std::vector<dead_check> page = store.list_dead(range);
      std::transform(page.begin(), page.end(), std::back_inserter(names_), name_of);
      more = page.size() == range.limit;
      range.after = more ? page.back().id : 0;
    }
    std::sort(names_.begin(), names_.end());
  }

  [[nodiscard]] bool has(const dead_check& check) const {
    return std::binary_search(names_.begin(), names_.end(), name_of(check));
  }

 private:
  using name = std::pair<std::int64_t, std::size_t>;

  static name name_of(const dead_check& check) { return {check.fence, hash_of(check)}; }

  std::vector<name> names_;
};

// Which of them the store has already: how many, and the first in words.
struct taken {
  std::size_t count = 0;
  std::string first = {};

  void add(const std::string& kind, const std::string& key, bool dead) {
    if (count++ < 5) {
      first += (first.empty() ? "" : ", ") + one_line(kind) + " " + one_line(key) + (dead ? " (dead)" : "");
    }
  }
  [[nodiscard]] failure refusal(const std::string& then) const {
    return {exit_status::refused, common::grouped(count) + (count == 1 ? " check is" : " checks are") +
                                      " there already" + (first.empty() ? "" : ", such as " + first) + "; " + then};
  }
};

// Reads a page of the file, of as many checks as a transaction writes.
bool fill(reader& from, batch& page) {
  constexpr std::size_t most = 1000;
  constexpr std::size_t most_bytes = std::size_t{8} << 20;
  page = {};
  while (page.size() < most && page.bytes < most_bytes) {
    if (!from.read(page)) {
      return false;
    }
  }
  return true;
}

class import_run {
  struct some_exist {};

 public:
  import_run(const desk& with, std::string file)
      : with_(with), file_(std::move(file)), told_(with.chosen.as_json), known_dead_(with.store) {}

  // Looks at all of a file before anything is written.
  void look_first() {
    std::ifstream in = open();
    reader from(in, with_);
    const bool any = with_.store.count({}, 1) > 0;
    taken there;
    batch page;
    for (bool more = true; more;) {
      if (common::stop_asked()) {
        throw failure(exit_status::refused, "stopped: nothing was imported");
      }
      more = fill(from, page);
      for (const stored_check& each : any ? page.checks : std::vector<stored_check>()) {
        if (with_.store.find(each.kind, each.key)) {
          there.add(each.kind, each.key, false);
        }
      }
      for (const dead_check& each : page.dead) {
        if (known_dead_.has(each)) {
          there.add(each.kind, each.key, true);
        }
      }
      tell("looked at", from.seen().checks + from.seen().dead);
    }
    all_ = from.seen();
    kept_ = with_.chosen.dry_run ? there.count : 0;
    if (there.count > 0 && !with_.chosen.keep_existing) {
      throw there.refusal("nothing was imported: --keep-existing leaves these out");
    }
  }
  void write() {
    std::ifstream opened;
    if (file_ != "-") {
      opened = open();
    }
    reader from(file_ == "-" ? with_.in : opened, with_);
    batch page;
    for (bool more = true; more;) {
      if (common::stop_asked()) {
        throw failure(exit_status::refused, "stopped: " + so_far());
      }
      try {
        more = fill(from, page);
        write(page, from);
      } catch (const broken_line& error) {
        throw failure(error.status(), std::string(error.what()) + "; " + so_far());
      } catch (const timer_error& error) {
        throw failure(exit_status::no_store, std::string(error.what()) + "; " + so_far());
      }
      tell("imported", done_.checks + done_.dead);
    }
  }
  [[nodiscard]] const totals& done() const { return done_; }
  [[nodiscard]] const totals& all() const { return all_; }
  [[nodiscard]] std::size_t kept() const { return kept_; }

 private:
  [[nodiscard]] std::ifstream open() const {
    std::ifstream in(file_);
    if (!in || std::filesystem::is_directory(file_)) {
      throw failure(exit_status::usage, "there is no file " + one_line(file_, 300));
    }
    return in;
  }
  [[nodiscard]] std::string so_far() const {
    return common::grouped(done_.checks + done_.dead) +
           " were imported before; to go on, import it again with --keep-existing";
  }
  void tell(const char* what, std::size_t count) {
    if (told_.due()) {
      told_.show(std::string(what) + " " + common::grouped(count));
    }
  }
  void write(batch& page, reader& from) {
    const std::size_t before = page.dead.size();
    taken there;
    std::erase_if(page.dead, [&](const dead_check& each) {
      const bool known = known_dead_.has(each);
      if (known) {
        there.add(each.kind, each.key, true);
      }
      return known;
    });
    std::size_t written = 0;
    try {
      written = write_page(page, there.count > 0);
    } catch (const some_exist&) {
      from.refuse_twins();
      for (const stored_check& each : page.checks) {
        if (with_.store.find(each.kind, each.key)) {
          there.add(each.kind, each.key, false);
        }
      }
      throw there.refusal(so_far());
    }
    kept_ += page.checks.size() - written + before - page.dead.size();
    done_.checks += written;
    done_.dead += page.dead.size();
  }
  [[nodiscard]] std::size_t write_page(const batch& page, bool some_dead_exist) {
    std::size_t written = 0;
    with_.store.transact([&](durable::store_transaction& open) {
      written = open.restore(page.checks, page.dead);
      if (!with_.chosen.keep_existing && (written < page.checks.size() || some_dead_exist)) {
        throw some_exist();
      }
      if (written + page.dead.size() > 0) {
        open.record({.by = with_.chosen.by.empty() ? operating_user() : with_.chosen.by,
                     .action = "import",
                     .subject = "file " + one_line(file_, 200),
                     .count = written + page.dead.size()});
      }
    });
    return written;
  }

  const desk& with_;
  const std::string file_;
  common::progress told_;
  const known_dead known_dead_;
  totals all_;
  totals done_;
  std::size_t kept_ = 0;
};

}  // namespace

exit_status export_all(const desk& with) {
  common::progress told(false);
  common::stop_on_signals();
  totals done;
  std::size_t running = 0;
  const auto write = [&](const json& line) {
    with.out << line.dump() << '\n';
    if (!with.out) {
      throw failure(exit_status::no_store, "cannot write the export: it is incomplete");
    }
    if (common::stop_asked()) {
      throw failure(exit_status::refused, "stopped: the export is incomplete");
    }
    if (told.due()) {
      told.show("exported " + common::grouped(done.checks + done.dead));
    }
  };
  write({{"format", format}, {"store", with.where.type}, {"at", time_text(with.store.now())}});
  with.store.read_all(
      [&](stored_check&& check) {
        ++done.checks;
        running += check.running ? 1U : 0U;
        write(line_of(check, check.running ? "running" : "pending"));
      },
      [&](dead_check&& check) {
        ++done.dead;
        json line = line_of(check, "dead");
        set_bytes(line, "error", check.error);
        line["died_us"] = check.died.time_since_epoch().count();
        write(line);
      });
  write({{"end", true}, {"checks", done.checks}, {"dead", done.dead}});
  if (!with.out.flush()) {
    throw failure(exit_status::no_store, "cannot write the export: it is incomplete");
  }
  told.clear();
  with.err << common::grouped(done.checks) << " checks and " << common::grouped(done.dead) << " dead ones exported";
  if (running > 0) {
    with.err << "; " << common::grouped(running) << " of them run, or their nodes have died: drain the nodes first, or "
             << "these run once more where they are imported";
  }
  with.err << '\n';
  if (!with.store.paused_kinds().empty() || !with.store.drained_nodes().empty()) {
    with.err << "pauses and drains are not in an export: before nodes run on the other store, pause and drain there\n";
  }
  return exit_status::done;
}

exit_status import_all(const desk& with) {
  const std::string& file = with.chosen.words.at(0);
  common::stop_on_signals();
  import_run run(with, file);
  std::error_code ignored;
  const bool is_read_once = file == "-" || is_other(std::filesystem::status(file, ignored));
  if (!is_read_once) {
    run.look_first();
  } else if (with.chosen.dry_run) {
    throw failure(exit_status::usage, "--dry-run needs a file: what comes from a pipe is read once");
  }
  if (!with.chosen.dry_run) {
    run.write();
  }
  const totals& told = with.chosen.dry_run ? run.all() : run.done();
  if (with.chosen.as_json) {
    with.out << json{{"checks", told.checks},
                     {"dead", told.dead},
                     {"kept", run.kept()},
                     {"dry_run", with.chosen.dry_run}}
                    .dump()
             << '\n';
  } else {
    with.out << common::grouped(told.checks) << " checks and " << common::grouped(told.dead) << " dead ones "
             << (with.chosen.dry_run ? "are in the file; nothing was changed" : "imported");
    if (run.kept() > 0) {
      with.out << "; " << common::grouped(run.kept())
               << (with.chosen.dry_run ? " are there already, and would stay" : " were there already, and stay");
    }
    with.out << '\n';
  }
  return exit_status::done;
}

}  // namespace timing_wheel::desk
