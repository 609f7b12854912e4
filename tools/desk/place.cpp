#include "desk/place.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/program.hpp"
#include "desk/text.hpp"
#ifdef TIMING_WHEEL_DESK_SQLITE
#include <sqlite3.h>

#include "timing_wheel/durable/sqlite_store.hpp"
#endif
#ifdef TIMING_WHEEL_DESK_POSTGRES
#include <libpq-fe.h>

#include "timing_wheel/durable/postgres_store.hpp"
#endif

namespace timing_wheel::desk {

namespace {

[[noreturn, maybe_unused]] void not_built(const char* what) {
  throw failure(exit_status::no_store, std::string("this program was built without ") + what);
}

#ifdef TIMING_WHEEL_DESK_SQLITE
// Looks without changing the file: a store would change the mode of its journal, also of one that is not ours.
void require_tables(const std::string& file) {
  sqlite3* on = nullptr;
  bool found = false;
  int result = sqlite3_open_v2(file.c_str(), &on, SQLITE_OPEN_READONLY, nullptr);
  if (result == SQLITE_OK) {
    sqlite3_busy_timeout(on, 1000);
    const auto note = [](void* into, int /*columns*/, char** /*values*/, char** /*names*/) {
      *static_cast<bool*>(into) = true;
      return 0;
    };
    result = sqlite3_exec(on, "SELECT 1 FROM sqlite_master WHERE name='timing_wheel_schema'", note, &found, nullptr);
  }
  const std::string words = sqlite3_errmsg(on);
  sqlite3_close(on);
  if (result != SQLITE_OK) {
    std::error_code error;
    const bool full = std::filesystem::space(file, error).available < 100'000 && !error;
    const bool lacks_memory =  // a program that writes makes it
        (result == SQLITE_READONLY || result == SQLITE_CANTOPEN) && !std::filesystem::exists(file + "-shm", error);
    throw failure(exit_status::no_store,
                  one_line(file, 300) + " cannot be read: " + words +
                      (full           ? "; its disk is full: free some space there"
                       : lacks_memory ? "; start a node, or let this user write in the folder: SQLite needs -shm"
                                      : ""));
  }
  if (!found) {
    throw failure(exit_status::no_store, "there are no tables of durable checks in " + one_line(file, 300) +
                                             "; timing-wheel migrate --create makes them");
  }
}
#endif

place open_file([[maybe_unused]] const std::string& file, [[maybe_unused]] bool create,
                [[maybe_unused]] const char* plan_words) {
#ifdef TIMING_WHEEL_DESK_SQLITE
  std::error_code ignored;
  const bool is_there = std::filesystem::is_regular_file(file, ignored);
  if (!is_there && !create) {
    throw failure(exit_status::no_store, "there is no file " + one_line(file, 300) + plan_words);
  }
  if (!create) {
    require_tables(file);
  }
  durable::sqlite_options wanted;
  wanted.read_only = is_there && ::access(file.c_str(), W_OK) != 0;
  return {std::make_unique<durable::sqlite_store>(file, wanted), "sqlite", file};
#else
  not_built("SQLite");
#endif
}

#ifdef TIMING_WHEEL_DESK_POSTGRES
// Host and name of the database, and no password.
std::string shown(const std::string& conninfo) {
  char* words = nullptr;
  PQconninfoOption* const all = PQconninfoParse(conninfo.c_str(), &words);
  PQfreemem(words);
  std::string text;
  for (const PQconninfoOption* each = all; each != nullptr && each->keyword != nullptr; ++each) {
    const std::string_view name = each->keyword;
    if (each->val != nullptr && (name == "host" || name == "port" || name == "dbname" || name == "service")) {
      text.append(text.empty() ? "" : " ").append(name).append("=").append(each->val);
    }
  }
  PQconninfoFree(all);
  return text;
}
#endif

place open_server([[maybe_unused]] const std::string& conninfo, [[maybe_unused]] const std::string& schema,
                  [[maybe_unused]] std::size_t connections) {
#ifdef TIMING_WHEEL_DESK_POSTGRES
  durable::postgres_options wanted;
  wanted.connections = connections;
  wanted.prepare = connections > 1;  // a command runs few statements twice, and a pooler takes none that is prepared
  wanted.connect_at_once = connections > 1;  // else the plan of a migration, the first call, would connect anew
  if (!schema.empty()) {
    wanted.schema = schema;
  }
  return {std::make_unique<durable::postgres_store>(conninfo, wanted), "postgres", shown(conninfo)};
#else
  not_built("PostgreSQL");
#endif
}

// As a command takes it, and not for an option.
std::string as_value(const std::string& bytes) {
  std::string word = one_line(bytes, 10'000);
  if (word.starts_with('-') || word.starts_with('+')) {
    word.replace(0, 1, word[0] == '-' ? "\\x2d" : "\\x2b");
  }
  return word;
}

std::string as_word(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/=,+%@";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
    return word;
  }
  std::string text = "'";
  for (const char each : word) {
    text.append(each == '\'' ? "'\\''" : std::string(1, each));
  }
  return text.append("'");
}

}  // namespace

std::string in_shell(const std::string& text) { return as_word(one_line(text, 10'000)); }

place open_place(const options& chosen) {
  constexpr std::string_view file = "sqlite:";
  constexpr std::string_view server = "postgres:";
  const std::size_t connections = chosen.command == "serve" ? serving_threads : 1;
  if (chosen.store.starts_with(file)) {
    return open_file(chosen.store.substr(file.size()), chosen.create && !chosen.plan,
                     chosen.create ? ", so all its tables are made without --plan" : "");
  }
  if (chosen.store.starts_with(server) && !chosen.store.starts_with("postgres://")) {
    return open_server(chosen.store.substr(server.size()), chosen.schema, connections);
  }
  if (chosen.store.find('=') == std::string::npos && chosen.store.find("://") == std::string::npos) {
    throw failure(exit_status::usage, "'" + one_line(chosen.store) +
                                          "' is no store: give sqlite:FILE, or a connection " +
                                          "string of PostgreSQL, such as \"host=db dbname=shop\"");
  }
  return open_server(chosen.store, chosen.schema, connections);
}

std::string command_line(const options& chosen, const std::string& command, const std::vector<std::string>& words,
                         const std::string& flags, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string line = common::program_name("timing-wheel") + " " + command;
  const auto add = [&](const std::string& word) { line.append(" ").append(in_shell(word)); };
  const bool is_secret = chosen.command == "serve" || chosen.store.find("password") != std::string::npos ||
                         chosen.store.find("://") != std::string::npos;
  if (!chosen.store_is_usual) {
    add(is_secret ? "STORE" : chosen.store);
  }
  for (const std::string& each : words) {
    std::string word = as_value(each);
    if (const std::size_t at = word.find('='); at != std::string::npos && chosen.store_is_usual) {
      word.replace(at, 1, "\\x3d");  // else it would look like a store
    }
    line.append(" ").append(as_word(word));
  }
  line.append(flags.empty() ? "" : " ").append(flags);
  for (const auto& [name, value] : values) {
    line.append(" --" + name + " ").append(as_word(as_value(value)));
  }
  if (!chosen.schema.empty()) {
    add("--schema");
    add(chosen.schema);
  }
  return line;
}

}  // namespace timing_wheel::desk
