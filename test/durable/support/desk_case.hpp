#pragma once

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "durable/support/scratch_folder.hpp"
#include "durable/support/store_calls.hpp"
#ifdef TIMING_WHEEL_TEST_SQLITE
#include "timing_wheel/durable/sqlite_store.hpp"
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
#include "durable/support/postgres_case.hpp"
#endif

// The program for operators, on a store of each database.

namespace timing_wheel::durable::test {

using nlohmann::json;
using words = std::vector<std::string>;

// A store, and what names it on a command line.
struct desk_place {
  std::shared_ptr<durable::store> store;
  std::string named;
  words options = {};
};

#ifdef TIMING_WHEEL_TEST_SQLITE
inline desk_place desk_on_a_file(const timing_wheel::test::scratch_folder& folder) {
  return {std::make_shared<sqlite_store>(folder.file()), "sqlite:" + folder.file()};
}
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
inline desk_place desk_on_a_server(const timing_wheel::test::scratch_folder& /*folder*/) {
  const postgres_options options = options_in(new_schema());
  return {std::make_shared<postgres_store>(server().conninfo(), options),
          server().conninfo(),
          {"--schema", options.schema}};
}
#endif

struct desk_way {
  const char* name;
  desk_place (*make)(const timing_wheel::test::scratch_folder&);
};
inline constexpr desk_way desk_ways[] = {
#ifdef TIMING_WHEEL_TEST_SQLITE
    {"Sqlite", desk_on_a_file},
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
    {"Postgres", desk_on_a_server},
#endif
};
inline std::string name_of_way(const testing::TestParamInfo<desk_way>& of) { return of.param.name; }

struct ended {
  int status = 0;
  std::string out;
  std::string err;

  [[nodiscard]] json read() const { return json::parse(out); }
  [[nodiscard]] std::vector<json> lines() const {
    std::vector<json> all;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) {
      all.push_back(json::parse(line));
    }
    return all;
  }
};

inline std::string in_quotes(const std::string& word) {
  std::string quoted = "'";
  for (const char each : word) {
    quoted += each == '\'' ? "'\\''" : std::string(1, each);
  }
  return quoted + "'";
}

class desk_case : public testing::TestWithParam<desk_way> {
 public:
  desk_case() { store.migrate(); }

  // Without a terminal. Its process is in the file "pid".
  [[nodiscard]] ended run_alone(const words& arguments) const { return run_alone_in(folder, arguments); }
  [[nodiscard]] static ended run_alone_in(const timing_wheel::test::scratch_folder& folder, const words& arguments,
                                          const std::string& program = TIMING_WHEEL_DESK) {
    std::string command = "echo $$ >" + in_quotes(folder.file("pid")) + "; unset TIMING_WHEEL_STORE; exec " + program;
    for (const std::string& each : arguments) {
      command += " " + in_quotes(each);
    }
    const std::string errors = folder.file("errors");
    FILE* const pipe = ::popen((command + " </dev/null 2>" + in_quotes(errors)).c_str(), "r");
    ended all;
    for (int each = std::fgetc(pipe); each != EOF; each = std::fgetc(pipe)) {
      all.out += static_cast<char>(each);
    }
    const int status = ::pclose(pipe);
    all.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream in(errors);
    for (std::string line; std::getline(in, line);) {
      // libgcov names each file of counts that it may not write.
      all.err += line.starts_with("profiling:") ? "" : line + '\n';
    }
    return all;
  }
  // A command on the store.
  [[nodiscard]] ended run(words arguments, const std::string& program = TIMING_WHEEL_DESK) const {
    return run_alone_in(folder, on(made, std::move(arguments)), program);
  }
  [[nodiscard]] static words on(const desk_place& place, words arguments) {
    arguments.insert(arguments.begin() + 1, place.named);
    arguments.insert(arguments.end(), place.options.begin(), place.options.end());
    return arguments;
  }
  // As Ctrl-C does, to what another thread runs.
  void interrupt() const {
    pid_t process = 0;
    std::ifstream(folder.file("pid")) >> process;
    ASSERT_GT(process, 0);
    ::kill(process, SIGINT);
  }
  [[nodiscard]] bool on_server() const { return !made.options.empty(); }
  void put_many(int count, const std::string& kind = "close", due_time due = 1h) const {
    std::vector<request> all;
    for (int number = 0; number < count; ++number) {
      all.push_back({.kind = kind, .key = "order-" + std::to_string(number), .payload = {}, .due = due});
    }
    put(store, all);
  }
  void bury_one(const std::string& key, const std::string& error) const {
    put(store, asked(key));
    bury(store, claim(store).at(0), error);
  }
  // \returns what runs the program so that it may not write the file, which is in use. Root may write everything: so
  // somebody else runs it, who may not look into each home.
  [[nodiscard]] std::string only_reads_the_file() const {
    const std::string copy = folder.file("timing-wheel");
    std::filesystem::copy_file(TIMING_WHEEL_DESK, copy);
    for (const char* end : {"", "-wal", "-shm"}) {
      ::chmod((folder.file() + end).c_str(), 0444);
    }
    ::chmod(folder.path().c_str(), 0755);
    return (::geteuid() == 0 ? "setpriv --reuid=65534 " : "") + copy;
  }
  [[nodiscard]] bool has_webhooks() const {
    return run_alone({"serve", "--help"}).out.find("--deliver") != std::string::npos;
  }
  // From a store that can only be read.
  void expect_no_delivery(const desk_place& place, const std::string& program) const {
    std::ofstream(folder.file("key")) << "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    std::ofstream(folder.file("kinds")) << R"({"close": {"url": "http://127.0.0.1:9/", "key_file": "key"}})";
    const words serve = {"serve", "--listen", "127.0.0.1:0", "--deliver", folder.file("kinds")};
    const ended done = run_alone_in(folder, on(place, serve), "timeout 20 " + program);
    EXPECT_EQ(done.status, 3) << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err, testing::HasSubstr("--deliver: a server that delivers checks writes to the store, and this "
                                             "store can only be read: "));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  [[nodiscard]] std::size_t audited() const {
    std::size_t count = 0;
    for (const audit_entry& each : store.audit(1000)) {
      count += each.count;
    }
    return count;
  }

  const timing_wheel::test::scratch_folder folder;
  const desk_place made = GetParam().make(folder);
  durable::store& store = *made.store;
  const std::string schema = on_server() ? made.options.at(1) : "";
};

}  // namespace timing_wheel::durable::test
