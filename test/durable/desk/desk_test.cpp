// The command line for operators, run as a program on a store of each database.

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <iterator>

#include "durable/support/desk_case.hpp"
#include "durable/support/small_disk.hpp"
#include "support/build.hpp"
#include "support/prometheus_page.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#ifdef TIMING_WHEEL_TEST_SQLITE
#include "durable/support/sqlite_case.hpp"
#endif

namespace timing_wheel::durable::test {
namespace {

class Desk : public desk_case {  // NOLINT(readability-identifier-naming): a suite
 public:
  // As somebody does by hand, or another release.
  void on_database(const std::string& statements) const { on_database(made, statements); }
  static void on_database(const desk_place& on, const std::string& statements) {
#ifdef TIMING_WHEEL_TEST_POSTGRES
    if (!on.options.empty()) {
      sql_session(server().conninfo() + " options='-c search_path=" + on.options.at(1) + "'").execute(statements);
    }
#endif
#ifdef TIMING_WHEEL_TEST_SQLITE
    if (on.options.empty()) {
      const users_database file(on.named.substr(on.named.find(':') + 1));
      EXPECT_EQ(file.run(statements), SQLITE_OK) << sqlite3_errmsg(file.get());
    }
#endif
  }
  // Whether what another thread runs has opened the file.
  [[nodiscard]] bool has_open(const std::string& file) const {
    std::string pid;
    std::ifstream(folder.file("pid")) >> pid;
    std::error_code gone;
    const std::filesystem::directory_iterator all("/proc/" + pid + "/fd", gone);
    return std::any_of(begin(all), end(all), [&](const auto& each) {
      std::error_code closed;
      return std::filesystem::read_symlink(each.path(), closed) == file;
    });
  }
  // How much memory what another thread runs has needed so far.
  [[nodiscard]] long peak_kib() const {
    std::string pid;
    std::ifstream(folder.file("pid")) >> pid;
    std::ifstream in("/proc/" + pid + "/status");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("VmHWM:")) {
        return std::stol(line.substr(6));
      }
    }
    return 0;
  }
};
INSTANTIATE_TEST_SUITE_P(On, Desk, testing::ValuesIn(desk_ways), name_of_way);
#ifdef TIMING_WHEEL_TEST_SQLITE
using DeskOnFile = Desk;  // NOLINT(readability-identifier-naming): a suite
INSTANTIATE_TEST_SUITE_P(On, DeskOnFile, testing::Values(desk_ways[0]), name_of_way);
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
using DeskOnServer = Desk;  // NOLINT(readability-identifier-naming): a suite
INSTANTIATE_TEST_SUITE_P(On, DeskOnServer, testing::Values(*std::rbegin(desk_ways)), name_of_way);
#endif

TEST_P(Desk, StatusTellsOfEachKindAndNode) {
  put(store, "held");
  claim(store);
  put(store, "late", store.now() - 90s);
  put(store, request{.kind = "other", .key = "a", .payload = {}, .due = 1h});
  bury_one("dies", "no");  // takes "late", which has the earlier deadline
  put(store, "late", store.now() - 90s);
  store.pause("other");
  static_cast<void>(store.renew_shares("node-1", words{"other", "third"}, 1h));
  const ended done = run({"status", "--json"});
  EXPECT_EQ(done.status, 0) << done.err;
  const json all = done.read();
  ASSERT_EQ(all["kinds"].size(), 2U);
  const json& close = all["kinds"][0];
  EXPECT_EQ(close["kind"], "close");
  EXPECT_EQ(close["pending"].get<int>() + close["running"].get<int>(), 3);
  EXPECT_GE(close["due"], 2);
  EXPECT_GE(close["waiting"], 1);
  EXPECT_EQ(close["retrying"], 0);
  EXPECT_EQ(close["dead"], 1);
  EXPECT_GE(close["oldest_due_s"], 89.0);
  EXPECT_LT(close["oldest_due_s"], 200.0);
  EXPECT_EQ(close["wait_p99_s"], close["oldest_due_s"]);
  EXPECT_LE(close["wait_p50_s"], close["oldest_due_s"]);
  EXPECT_FALSE(close["paused"]);
  EXPECT_EQ(close["live_handlers"], on_server() ? json(0) : json());
  EXPECT_TRUE(all["kinds"][1]["paused"]);
  EXPECT_EQ(all["kinds"][1]["oldest_due_s"], 0.0);
  EXPECT_EQ(all["kinds"][1]["live_handlers"], on_server() ? json(1) : json());
  EXPECT_EQ(all["nodes"].size(), on_server() ? 1U : 0U);
  if (on_server()) {
    EXPECT_EQ(all["nodes"][0]["node"], "node-1");
    EXPECT_TRUE(all["nodes"][0]["alive"]);
    EXPECT_EQ(all["nodes"][0]["shares"], 64);
  }
  EXPECT_EQ(all["store"]["tables"], on_server() ? "2.7" : "2.0");
  EXPECT_EQ(close["dead_last_minute"], 1);
  const json no_rates = {{"begun_per_s", 0.0}, {"ended_per_s", 0.0}, {"failed_per_s", 0.0}};
  EXPECT_EQ(all["rates"], on_server() ? no_rates : json()) << "no node has told of a run";
  store.tell_runs("node-1", {.begun = 1200, .ended = 600, .failed = 3});
  const json rates = run({"status", "--json"}).read()["rates"];
  EXPECT_EQ(rates, json({{"begun_per_s", 20.0}, {"ended_per_s", 10.0}, {"failed_per_s", 0.05}}));
  const std::string counts = on_server() ? "run_count" : "timing_wheel_run_count";
  on_database("UPDATE " + counts + " SET told=told-61000000");
  EXPECT_EQ(run({"status", "--json"}).read()["rates"], no_rates) << "that was more than a minute ago";
  store.tell_runs("node-1", {.begun = 1200, .ended = 600, .failed = 3});
  const ended text = run({"status"});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("in the last minute 1 of the dead checks have died"));
  EXPECT_THAT(text.out, HasSubstr("in the last minute, runs per second: 20 begun, 10 ended, 0.05 failed\n"));
  EXPECT_THAT(text.out, HasSubstr("oldest waits"));
  EXPECT_THAT(text.out, testing::ContainsRegex("the check of the earliest deadline that waits: close .*, due .* ago"));
  EXPECT_THAT(text.out, HasSubstr(on_server() ? "no live node has a handler" : "handlers are busy"));
}

TEST_P(Desk, StatusWritesMetrics) {
  put(store, "late", store.now() - 90s);
  put(store, request{.kind = "other", .key = "a", .payload = {}, .due = 1h});
  const ended done = run({"status", "--metrics"});
  EXPECT_EQ(done.status, 0) << done.err;
  auto samples = timing_wheel::test::samples_of(done.out);
  EXPECT_EQ(samples["timing_wheel_durable_store_waiting{kind=\"close\"}"], "1");
  EXPECT_EQ(samples["timing_wheel_durable_store_waiting{kind=\"other\"}"], "0");
  EXPECT_EQ(samples["timing_wheel_durable_store_live_handlers{kind=\"other\"}"], on_server() ? "0" : "");
  EXPECT_EQ(samples["timing_wheel_durable_store_pending{kind=\"other\"}"], "1");
  EXPECT_GE(std::stod(samples["timing_wheel_durable_store_oldest_waiting_seconds{kind=\"close\"}"]), 89.0);
  EXPECT_EQ(samples["timing_wheel_durable_store_oldest_waiting_seconds{kind=\"other\"}"], "0");
  if (timing_wheel::test::has_promtool()) {
    EXPECT_EQ(timing_wheel::test::promtool_says(done.out), "");
  }
}

TEST_P(Desk, ListShowsWhatTheOptionsName) {
  put_many(3);
  put(store, request{.kind = "other", .key = "b\"\x01", .payload = "four", .due = 2h});
  bury_one("dead-1", "no");
  bury_one("dead-2", "gone");
  const auto keys = [&](words more) {
    more.insert(more.begin(), {"list", "--json"});
    const ended done = run(more);
    EXPECT_EQ(done.status, done.out.empty() ? 1 : 0) << done.err;
    words found;
    for (const json& each : done.lines()) {
      found.push_back(each.value("key", each.value("key_base64", "")));
    }
    return found;
  };
  EXPECT_THAT(keys({}), ElementsAre("YiIB", "order-2", "order-1", "order-0"));
  EXPECT_THAT(keys({"--limit", "2"}), ElementsAre("YiIB", "order-2"));
  EXPECT_THAT(keys({"--earliest", "--limit", "2"}), ElementsAre("order-0", "order-1"));
  EXPECT_THAT(keys({"--kind", "close", "--key", "order-2"}), ElementsAre("order-2"));
  EXPECT_THAT(keys({"--due-after", "90min"}), ElementsAre("YiIB"));
  EXPECT_THAT(keys({"--due-before", "now"}), IsEmpty());
  EXPECT_THAT(keys({"--state", "running"}), IsEmpty());
  EXPECT_THAT(keys({"--state", "dead"}), ElementsAre("dead-2", "dead-1"));
  EXPECT_THAT(keys({"--state", "dead", "--earliest"}), ElementsAre("dead-1", "dead-2"));
  EXPECT_THAT(keys({"--state", "dead", "--error", "no"}), ElementsAre("dead-1"));
  const std::vector<json> groups = run({"list", "--state", "dead", "--groups", "--json"}).lines();
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0]["error"], "gone");
  EXPECT_EQ(groups[0]["count"], 1);
  const json line = run({"list", "--json", "--kind", "other"}).lines().at(0);
  EXPECT_EQ(line["state"], "pending");
  EXPECT_EQ(line["attempt"], 0);
  EXPECT_EQ(line["payload_bytes"], 4);
  EXPECT_TRUE(line["lease"].is_null());
  EXPECT_THAT(line["due"].get<std::string>(), testing::MatchesRegex("20..-..-..T..:..:..(\\.......)?Z|19.*"));
  const ended text = run({"list", "--kind", "other"});
  EXPECT_THAT(text.out, HasSubstr("b\"\\x01")) << "a terminal obeys no key";
}

TEST_P(Desk, ListGoesOnFromPageToPage) {
  put_many(2500);
  const std::vector<json> all = run({"list", "--json", "--limit", "100000"}).lines();
  ASSERT_THAT(all, SizeIs(2500));
  EXPECT_THAT(run({"list", "--limit", "2501"}).err, IsEmpty());
  const std::string cursor = all[2399]["cursor"];
  EXPECT_EQ(run({"list", "--limit", "2400"}).err,
            "no more than 2 400 are shown: give a higher --limit, or go on with --after " + cursor + "\n");
  const std::vector<json> rest = run({"list", "--json", "--limit", "200", "--after", cursor}).lines();
  ASSERT_THAT(rest, SizeIs(100));
  EXPECT_EQ(rest[0]["id"], all[2400]["id"]);
  EXPECT_EQ(run({"list", "--after", rest[99]["cursor"]}).status, 1);
}

TEST_P(Desk, ListsOfTheDeadGoOnAndSayWhereTheyEnd) {
  for (const char* key : {"a", "b", "c"}) {
    bury_one(key, std::string("no ") + key);
  }
  const words dead = {"list", "--state", "dead", "--limit", "2"};
  const auto with = [&](words all, const words& more) {
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const std::string cursor = with(dead, {"--json"}).lines().at(1)["cursor"];
  EXPECT_THAT(with(dead, {}).err, HasSubstr("go on with --after " + cursor + "\n"));
  const std::vector<json> rest = with(dead, {"--json", "--after", cursor}).lines();
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_EQ(rest[0]["key"], "a");
  EXPECT_THAT(with(dead, {"--groups", "--json"}).err, HasSubstr("no more than 2 are shown"));
  EXPECT_EQ(run({"delete", cursor}).status, 0);
  EXPECT_EQ(run({"audit", "--limit", "1"}).err, "no more than 1 are shown: give a higher --limit\n");
}

TEST_P(Desk, TakesNamesAsItPrintsThem) {
  const std::string kind =
      on_server() ? "long, and with \\x41, as no program here may have it, but another one may" : "\xfeK";
  const std::string key("\x00\xff", 2);
  const stored_check pending{.kind = kind, .key = key, .payload = {}, .due = store.now() + 1h};
  const dead_check dead{.kind = kind, .key = key, .payload = {}, .error = "no"};
  store.transact([&](store_transaction& open) { open.restore({&pending, 1}, {&dead, 1}); });
  const std::string k =
      on_server() ? "long, and with \\x5cx41, as no program here may have it, but another one may" : "\\xfeK";
  const std::string named = "\\x00\\xff";
  EXPECT_THAT(run({"list"}).out, HasSubstr(k + "  " + named));
  for (const words& each : {words{"list", "--kind", k, "--key", "\\x00"},
                            {"list", "--kind", k, "--key", named, "--state", "dead"},
                            {"show", k, named},
                            {"why", k, named},
                            {"pause", k},
                            {"resume", k},
                            {"run-now", k, named},
                            {"reschedule", "--kind", k, "--key", named, "--due", "1h"},
                            {"cancel", k, named},
                            {"retry", "--kind", k, "--key", named},
                            {"cancel", "--kind", k}}) {
    EXPECT_EQ(run(each).status, 0) << each[0];
  }
  EXPECT_EQ(store.count({}, 1), 0U);
}

TEST_P(Desk, ShowTellsAllOfACheck) {
  put(store, asked("json", 1h, R"({"units":2})"));
  put(store, asked("text", 1h, "<script>alert(1)</script>"));
  put(store, asked("bytes", 1h, std::string("\x00\xFFz", 3)));
  EXPECT_THAT(run({"show", "close", "json"}).out, HasSubstr("\"units\": 2"));
  EXPECT_THAT(run({"show", "close", "text"}).out, HasSubstr("<script>alert(1)</script>"));
  EXPECT_THAT(run({"show", "close", "bytes"}).out, HasSubstr("00 ff 7a"));
  const json bytes = run({"show", "close", "bytes", "--json"}).read();
  ASSERT_EQ(bytes.size(), 1U);
  EXPECT_EQ(bytes[0]["payload_base64"], "AP96");
  EXPECT_EQ(bytes[0]["payload_bytes"], 3);
  bury_one("a", "broken");
  put(store, "a", 1h);
  const json both = run({"show", "close", "a", "--json"}).read();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0]["state"], "pending");
  EXPECT_EQ(both[1]["state"], "dead");
  EXPECT_EQ(both[1]["error"], "broken");
  EXPECT_EQ(run({"show", "close", "nobody"}).status, 1);
  put(store, asked("big", 1h, std::string(std::size_t{1} << 20, '\0')));
  EXPECT_THAT(run({"show", "close", "big"}).out, HasSubstr("1048576 bytes"));
  EXPECT_LT(run({"show", "close", "big"}).out.size(), 30'000U);
  EXPECT_EQ(run({"show", "close", "big", "--json"}).read()[0]["payload_base64"].get<std::string>().size(), 1'398'104U);
  put(store, asked("sneaky", 1h, R"({"a":"\u009b2J"})"));
  EXPECT_THAT(run({"show", "close", "sneaky"}).out, HasSubstr("\\u009b2J")) << "a terminal obeys no payload";
  put(store, asked("deep", 1h, std::string(200'000, '[')));
  put(store, asked("nested", 1h, std::string(5000, '[') + std::string(5000, ']')));
  EXPECT_LT(run({"show", "close", "nested"}).out.size(), 11'000U);
  EXPECT_EQ(run({"show", "close", "deep"}).status, 0);
}

TEST_P(Desk, WhyTellsWhatACheckWaitsFor) {
  const auto why = [&](const std::string& key) {
    const ended done = run({"why", "close", key});
    EXPECT_EQ(done.status, key == "nobody" ? 1 : 0) << done.err;
    return done.out;
  };
  put(store, "held");
  claim(store);
  EXPECT_THAT(why("held"), HasSubstr("A node has claimed it, attempt 1"));
  put(store, "lost");
  claim(store, -1s);
  EXPECT_THAT(why("lost"), HasSubstr("has died or hangs"));
  EXPECT_EQ(why("lost").find("A node claims it within") == std::string::npos, on_server()) << "no node lives there";
  put(store, "again");
  for (const claimed& each : claim(store)) {
    if (each.key == "again") {
      retry(store, each, store.now() + 1h, 2);
    }
  }
  EXPECT_THAT(why("again"), HasSubstr("Attempt 2 has failed"));
  put(store, "later", 1h);
  EXPECT_THAT(why("later"), HasSubstr("It is not due yet"));
  put(store, "late", store.now() - 2h);
  EXPECT_THAT(why("late"), HasSubstr("due since"));
  EXPECT_THAT(why("late"), HasSubstr(on_server() ? "No live node has a handler" : "run now: all threads may be busy"));
  put(store, "as late", store.find("close", "late")->due);
  EXPECT_THAT(why("late"),
              HasSubstr("1 check of its kind with the same or an earlier deadline also waits; 2 checks of it run."));
  EXPECT_EQ(run({"why", "close", "late"}).out.find("make the handlers faster") == std::string::npos, on_server())
      << "nobody's";
  cancel(store, "as late");
  store.pause("close");
  EXPECT_THAT(why("late"), HasSubstr("Its kind is paused"));
  store.resume("close");
  EXPECT_THAT(why("nobody"), HasSubstr("There is no such check"));
  cancel(store, "late");
  bury_one("dies", "the bank said no");
  EXPECT_THAT(why("dies"), HasSubstr("after 1 attempts: the bank said no"));
}

#ifdef TIMING_WHEEL_TEST_POSTGRES
TEST_P(DeskOnServer, WhyNamesTheTransactionInTheWay) {
  put(store, "a");
  const std::string table = schema + ".check";
  const std::string row = table + " WHERE key='a' FOR ";
  const sql_session culprit(server().conninfo() + " application_name=psql");
  const sql_session another(server().conninfo());
  const std::string named = "process " + culprit.ask("SELECT pg_backend_pid()") + " of postgres (psql";
  culprit.execute("BEGIN; SELECT FROM " + row + "UPDATE");
  const ended done = run({"why", "close", "a"});
  EXPECT_THAT(done.out, HasSubstr(named));
  EXPECT_THAT(done.out, HasSubstr("idle in transaction"));
  {
    scheduler node(store, {.poll = 20ms, .node = "old", .on_failure = [](const failure&) {}});
    node.on("close", [](const job& /*what*/) {});
    node.start();
    wait_until([&] { return store.nodes().value_or(std::vector<node_info>()).size() == 1; });
    put(store, "later");
    wait_until([&] { return node.stats().done == 1; });
    EXPECT_THAT(run({"why", "close", "a"}).out, HasSubstr("Most likely it is old, which has the check"));
  }
  culprit.execute("ROLLBACK; BEGIN; SELECT FROM " + row + "SHARE");
  another.execute("BEGIN; SELECT FROM " + row + "SHARE");
  EXPECT_THAT(run({"why", "close", "a"}).out, HasSubstr(named)) << "of several";
  another.execute("ROLLBACK");
  put(store, "free");
  culprit.execute("ROLLBACK; BEGIN; SELECT FROM " + row + "UPDATE");
  {
    const sql_session third(server().conninfo());
    const std::string waits = third.ask("SELECT pg_backend_pid()");
    std::thread queue([&] { third.execute("BEGIN; SELECT FROM " + row + "UPDATE; ROLLBACK"); });
    wait_until([&] { return another.ask("SELECT cardinality(pg_blocking_pids(" + waits + "))") == "1"; });
    EXPECT_THAT(run({"why", "close", "free"}).out, Not(HasSubstr(named))) << "that is in the way of another one";
    culprit.execute("ROLLBACK");
    queue.join();
  }
  culprit.execute("BEGIN; LOCK TABLE " + table + " IN EXCLUSIVE MODE");
  EXPECT_THAT(run({"why", "close", "a"}).out, HasSubstr(named)) << "of the table";
  culprit.execute("ROLLBACK; BEGIN; SELECT pg_advisory_lock(7)");
  const std::string waiting = another.ask("SELECT pg_backend_pid()");
  std::thread handler(
      [&] { another.execute("BEGIN; DELETE FROM " + table + "; SELECT pg_advisory_lock(7); ROLLBACK"); });
  const sql_session watcher(server().conninfo());
  wait_until([&] { return watcher.ask("SELECT cardinality(pg_blocking_pids(" + waiting + "))") == "1"; });
  const ended chain = run({"why", "close", "a"});
  culprit.execute("ROLLBACK; SELECT pg_advisory_unlock(7)");
  handler.join();
  EXPECT_THAT(chain.out, HasSubstr(named)) << "of a handler that waits";
  EXPECT_THAT(chain.out, Not(HasSubstr("process " + waiting)));
  const sql_session node(server().conninfo() + " application_name=timing_wheel");
  const std::string session = node.ask("SELECT pg_backend_pid()");
  culprit.execute("SELECT pg_advisory_lock(8)");
  std::thread elsewhere([&] { node.execute("SELECT pg_advisory_lock(8)"); });
  wait_until([&] { return watcher.ask("SELECT cardinality(pg_blocking_pids(" + session + "))") == "1"; });
  EXPECT_THAT(run({"why", "close", "a"}).out, HasSubstr(named)) << "of a node that waits with another check";
  culprit.execute("SELECT pg_advisory_unlock(8)");
  elsewhere.join();
}
#endif

TEST_P(Desk, CancelsAndMovesOneCheck) {
  put(store, "a", 1h);
  put(store, "held");
  claim(store);
  EXPECT_EQ(run({"reschedule", "close", "a", "--due", "2h"}).status, 0);
  put(store, "late", store.now() - 1h);
  EXPECT_EQ(run({"run-now", "close", "late"}).status, 0) << "it is late already, and stays so";
  EXPECT_LT(store.find("close", "late")->due, store.now() - 59min);
  cancel(store, "late");
  EXPECT_GT(store.find("close", "a")->due, store.now() + 119min);
  EXPECT_EQ(run({"run-now", "close", "a"}).status, 0);
  EXPECT_LE(store.find("close", "a")->due, store.now());
  EXPECT_EQ(run({"cancel", "close", "a", "--dry-run"}).status, 0);
  EXPECT_TRUE(store.find("close", "a"));
  EXPECT_EQ(run({"cancel", "close", "a"}).status, 0);
  EXPECT_FALSE(store.find("close", "a"));
  EXPECT_EQ(run({"cancel", "close", "a"}).status, 1);
  const ended running = run({"cancel", "close", "held", "--json"});
  EXPECT_EQ(running.status, 4);
  EXPECT_EQ(running.read()["refused"], 1);
  const std::vector<audit_entry> lines = store.audit(10);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0].action, "cancel");
  EXPECT_EQ(lines[0].kind, "close");
  EXPECT_EQ(lines[0].subject, "key a");
  EXPECT_THAT(lines[0].by, HasSubstr("@"));
}

TEST_P(Desk, ChangesAllThatAFilterNamesInSeveralTransactions) {
  put_many(2500);
  put_many(10, "other");
  put(store, "held");
  claim(store);
  const ended refused = run({"cancel", "--kind", "close"});
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("2 501 match; nothing was changed"));
  EXPECT_EQ(run({"cancel", "--kind", "close", "--dry-run", "--json"}).read()["changed"], 2501);
  EXPECT_EQ(run({"cancel"}).status, 2) << "of which?";
  EXPECT_EQ(store.count({}, 10'000), 2511U);
  EXPECT_EQ(run({"reschedule", "--kind", "close", "--due", "3h", "--yes", "--json"}).read(),
            json::parse(R"({"changed":2500,"refused":1,"dry_run":false})"));
  EXPECT_EQ(store.count({.due_after = store.now() + 2h}, 10'000), 2500U);
  EXPECT_EQ(audited(), 2500U);
  EXPECT_EQ(run({"run-now", "--key", "order-1", "--yes"}).status, 0);
  EXPECT_EQ(store.count({.state = check_state::waiting}, 10'000), 1112U);
  EXPECT_EQ(run({"cancel", "--kind", "close", "--yes", "--json"}).read()["changed"], 2500);
  EXPECT_EQ(store.count({.kind = "close"}, 10'000), 1U);
  EXPECT_EQ(run({"cancel", "--all", "--yes"}).status, 0);
  EXPECT_EQ(store.count({}, 10'000), 1U);
  EXPECT_EQ(audited(), 2500U + 1112 + 2500 + 10);
}

// A terminal with somebody before it.
class terminal {
 public:
  terminal() : hand_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(::grantpt(hand_), 0);
    EXPECT_EQ(::unlockpt(hand_), 0);
    name_ = ::ptsname(hand_);
    line_ = ::open(name_.c_str(), O_RDWR | O_NOCTTY);  // so that it stays as it is between two programs
  }
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;
  ~terminal() {
    ::close(line_);
    ::close(hand_);
  }

  // For `run_alone_in`.
  [[nodiscard]] std::string program() const {
    return R"(sh -c 'exec "$0" "$@" <)" + name_ + " >" + name_ + " 2>&1' " TIMING_WHEEL_DESK;
  }
  void type(std::string_view text) const {
    EXPECT_EQ(::write(hand_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // What was shown since the last call, until `last` was; or for 20 s.
  [[nodiscard]] std::string read(const std::string& last) const {
    std::string all;
    pollfd shown{hand_, POLLIN, 0};
    char some[4096];
    while (all.find(last) == std::string::npos && ::poll(&shown, 1, 20'000) == 1) {
      all.append(some, static_cast<std::size_t>(std::max<ssize_t>(0, ::read(hand_, some, sizeof some))));
    }
    return all;
  }

 private:
  int hand_;
  int line_ = -1;
  std::string name_;
};

TEST_P(Desk, AsksOnATerminalBeforeItChangesMoreThanOne) {
  put_many(3);
  const terminal screen;
  const auto cancel_all = [&] { return run({"cancel", "--kind", "close"}, screen.program()).status; };
  const std::string asks = "cancel 3 checks (kind close)? [y/N] ";
  for (const char* no : {"n\n", "\n", "yes please\n", "\x04"}) {  // the last one ends the input
    screen.type(no);
    EXPECT_EQ(cancel_all(), 4) << no;
    EXPECT_THAT(screen.read("nothing was changed"), HasSubstr(asks + "timing-wheel: nothing was changed"));
  }
  EXPECT_EQ(store.count({}, 10), 3U);
  screen.type("y\n");
  EXPECT_EQ(cancel_all(), 0);
  EXPECT_THAT(screen.read("3 cancelled"), HasSubstr(asks + "3 cancelled"));
  EXPECT_EQ(store.count({}, 10), 0U);
}

TEST_P(Desk, WatchesOnATerminalUntilCtrlC) {
  const terminal screen;
  std::string first;
  std::string second;
  std::thread hand([&] {
    first = screen.read("no check");
    put(store, "late", store.now() - 90s);
    second = screen.read("close");
    interrupt();
  });
  EXPECT_EQ(run({"status", "--watch", "--every", "0.1"}, screen.program()).status, 0);
  hand.join();
  const std::string clears = "\x1b[H\x1b[2J";
  EXPECT_THAT(first, testing::StartsWith(clears + (on_server() ? "postgres " : "sqlite ")));
  EXPECT_THAT(second, HasSubstr(clears)) << "each look takes the place of the one before";
}

TEST_P(Desk, TwoOperatorsAtATimeChangeEachCheckOnce) {
  constexpr int count = 3000;
  put_many(count);
  const words cancel_all = {"cancel", "--kind", "close", "--yes", "--json"};
  int by_other = 0;
  std::thread other([&] {
    // A folder of its own for what it says.
    const timing_wheel::test::scratch_folder elsewhere;
    by_other = run_alone_in(elsewhere, on(made, cancel_all)).read()["changed"];
  });
  const int by_one = run(cancel_all).read()["changed"];
  other.join();
  EXPECT_EQ(by_one + by_other, count);
  EXPECT_EQ(store.count({}, 1), 0U);
  EXPECT_EQ(audited(), std::size_t{count});
}

TEST_P(Desk, ALockThatSomebodyHoldsIsSaidSo) {
  put(store, "a", 1h);
  store.transact([&](store_transaction& open) {
    ASSERT_THAT(open.list({.limit = 1}), SizeIs(1));
    const ended done = run({"cancel", "close", "a"});
    EXPECT_EQ(done.status, 4) << done.err;
    EXPECT_THAT(done.err, HasSubstr("lock"));
    EXPECT_EQ(done.out, "");
    if (on_server()) {
      const ended all = run({"cancel", "--all", "--yes"});
      EXPECT_EQ(all.status, 4);
      EXPECT_EQ(all.out, "0 cancelled; 1 are locked by others, or have ended meanwhile\n");
    }
  });
  EXPECT_EQ(run({"cancel", "close", "a"}).status, 0);
}

#ifdef TIMING_WHEEL_TEST_POSTGRES
TEST_P(DeskOnServer, AServerThatGoesAwayInTheMiddleLeavesWhatWasDone) {
  constexpr std::size_t count = 30'000;
  put_many(count);
  std::thread hand([&] {
    wait_until([&] { return store.count({}, count) < count; });
    const sql_session admin(server().conninfo());
    admin.execute("BEGIN; LOCK TABLE " + schema + ".audit IN EXCLUSIVE MODE");
    const std::string waits = " FROM pg_stat_activity WHERE wait_event_type='Lock'";
    wait_until([&] { return server().ask("SELECT count(*)" + waits) != "0"; });
    static_cast<void>(server().ask("SELECT pg_terminate_backend(pid)" + waits));
    admin.execute("COMMIT");
  });
  const ended done = run({"cancel", "--all", "--yes"});
  hand.join();
  EXPECT_EQ(done.status, 3) << done.out;
  EXPECT_THAT(done.err, HasSubstr(" were changed before, see timing-wheel audit"));
  EXPECT_GT(store.count({}, count), 0U);
  EXPECT_EQ(audited(), count - store.count({}, count));
}

TEST_P(DeskOnServer, ARoleThatMayOnlyReadChangesNothing) {
  put(store, "a", 1h);
  server().execute("CREATE ROLE " + schema + "_reads LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + schema +
                   "_reads; GRANT SELECT ON ALL TABLES IN SCHEMA " + schema + " TO " + schema + "_reads");
  const std::string reads = made.named + " user=" + schema + "_reads";
  const ended done = run_alone({"cancel", reads, "close", "a", "--schema", schema});
  EXPECT_EQ(done.status, 3);
  EXPECT_THAT(done.err, HasSubstr("permission denied"));
  EXPECT_TRUE(store.find("close", "a"));
  EXPECT_THAT(run_alone({"check", reads, "--schema", schema}).out,
              testing::AllOf(HasSubstr("ok     this role may only look; "), Not(HasSubstr("lacks rights"))));
}

TEST_P(DeskOnServer, CheckNamesTheRightsThatARoleLacks) {
  const std::string role = schema + "_shop";
  server().execute("CREATE ROLE " + role + " LOGIN");
  const auto says = [&] {
    const ended done = run_alone({"check", made.named + " user=" + role, "--schema", schema});
    return std::to_string(done.status) + " " + done.err + done.out;
  };
  EXPECT_THAT(says(),
              testing::StartsWith("3 timing-wheel: looking at the tables: permission denied for schema " + schema));
  server().execute("GRANT USAGE ON SCHEMA " + schema + " TO " + role + "; GRANT SELECT ON " + schema + ".version," +
                   schema + ".node," + schema + ".share TO " + role);
  EXPECT_THAT(says(), testing::AllOf(testing::StartsWith("4 "),
                                     HasSubstr("WRONG  this role lacks rights that a node needs: SELECT on check, "
                                               "INSERT on check, UPDATE on check, DELETE on check, SELECT on dead, "
                                               "INSERT on dead, UPDATE on dead, DELETE on dead, INSERT on node, "
                                               "UPDATE on node, DELETE on node, INSERT on share, UPDATE on share, "
                                               "UPDATE on drained_node, INSERT on long_run, UPDATE on long_run, "
                                               "DELETE on long_run, SELECT on failed_run, INSERT on failed_run, "
                                               "UPDATE on failed_run, DELETE on failed_run, INSERT on run_count, "
                                               "UPDATE on run_count, DELETE on run_count, USAGE on fence\n"),
                                     HasSubstr("ok     this role may look, and cannot make all changes of this "
                                               "program: it lacks SELECT on audit, INSERT on audit, INSERT on "
                                               "paused_kind, DELETE on paused_kind, INSERT on drained_node"),
                                     HasSubstr("WRONG  the checks cannot be looked at: ")));
}

// Not even a read gets through.
TEST_P(DeskOnServer, NamesTheSessionThatHasLockedATable) {
  const sql_session culprit(server().conninfo());
  culprit.execute("SET application_name=migration; BEGIN; LOCK TABLE " + schema + ".check");
  const desk_place impatient = {nullptr, made.named + " options='-c lock_timeout=200'", made.options};
  for (const words& each : {words{"list"}, {"why", "close", "a"}}) {
    const ended done = run_alone(on(impatient, each));
    EXPECT_EQ(done.status, 4) << done.out;
    EXPECT_THAT(done.err, HasSubstr("SELECT pg_terminate_backend("));
    EXPECT_THAT(done.err, testing::ContainsRegex("A table is locked: process [0-9]+ of .*migration.*LOCK TABLE"));
  }
  const ended checked = run({"check"});
  EXPECT_EQ(checked.status, 4);
  EXPECT_THAT(checked.out,
              testing::ContainsRegex("WRONG  a table is locked.*migration.*\n +-> .*pg_terminate_backend"));
  EXPECT_THAT(checked.out, Not(HasSubstr("autovacuum"))) << "to look further would wait";
}

// As the server does when a statement takes too long.
TEST_P(DeskOnServer, NamesTheSessionThatHasLockedATableIfTheServerEndsTheStatement) {
  const sql_session culprit(server().conninfo());
  culprit.execute("SET application_name=migration; BEGIN; LOCK TABLE " + schema + ".check");
  std::atomic<bool> over = false;
  std::thread hand([&] {
    const sql_session admin(server().conninfo());
    while (!over) {
      admin.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type='Lock'");
      std::this_thread::sleep_for(20ms);
    }
  });
  for (const words& each : {words{"status"}, {"list"}, {"why", "close", "a"}}) {
    const ended done = run(each);
    EXPECT_EQ(done.status, 3) << done.out;
    EXPECT_THAT(done.err, HasSubstr("57014"));
    EXPECT_THAT(done.err, testing::ContainsRegex("A table is locked: process [0-9]+ of .*migration.*LOCK TABLE"));
    EXPECT_THAT(done.err, HasSubstr("SELECT pg_terminate_backend(" + std::to_string(culprit.backend()) + ")"));
  }
  over = true;
  hand.join();
}

// `pg_dump -x` leaves out what everybody may read, and what nobody may call.
TEST_P(DeskOnServer, CheckFindsWhatABackupWithoutPrivilegesLacks) {
  const std::string role = schema + "_node";
  server().execute("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + role +
                   "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + role + "; GRANT ALL ON SEQUENCE " +
                   schema + ".fence TO " + role);
  const auto wrong = [&] { return run_alone({"check", made.named + " user=" + role, "--schema", schema}).out; };
  EXPECT_THAT(wrong(), testing::AllOf(HasSubstr("ok     this role has the rights of a node"),
                                      Not(HasSubstr("every role may call"))));
  server().execute("REVOKE SELECT ON " + schema + ".paused_kind," + schema + ".addition FROM PUBLIC," + role +
                   "; GRANT EXECUTE ON FUNCTION " + schema + ".cancel(text,text)," + schema + ".drain TO PUBLIC");
  EXPECT_THAT(run_alone({"check", made.named, "--schema", schema}).out,
              HasSubstr("WRONG  every role may call cancel, drain, and so change all checks"));
  server().execute("GRANT SELECT ON " + schema + ".addition TO " + role);
  EXPECT_THAT(wrong(), HasSubstr("this role lacks rights that a node needs: SELECT on paused_kind\n"));
}

TEST_P(DeskOnServer, CheckSeesThatCommitsOfARoleDoNotWait) {
  const auto says = [&](const std::string& commits) {
    return run_alone(
               {"check", made.named + " options='-c synchronous_commit=" + commits + "'", made.options.at(0), schema})
        .out;
  };
  EXPECT_THAT(says("on"), Not(HasSubstr("synchronous_commit")));
  EXPECT_THAT(says("off"), HasSubstr("WRONG  synchronous_commit is off for this role"));
}

// What a transaction that fails has written is dead rows at once.
TEST_P(DeskOnServer, CheckFindsATableThatNobodyVacuums) {
  const std::string reset = "ALTER TABLE " + schema + ".check RESET (autovacuum_enabled)";
  const std::string vacuum = "VACUUM " + schema + ".check";
  EXPECT_THAT(run({"check"}).out, HasSubstr("ok     autovacuum is on\n"));
  on_database("ALTER TABLE \"check\" SET (autovacuum_enabled=off)");
  on_database(
      "BEGIN; INSERT INTO \"check\"(due,kind,key,payload) SELECT n,'close',convert_to(n::text,'UTF8'),'' FROM "
      "generate_series(1,100001) n; ROLLBACK");
  const std::string counted = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname='check' AND schemaname=";
  const auto dead = [&] { return server().ask(counted + "'" + schema + "'"); };
  EXPECT_TRUE(wait_until([&] { return dead() == "100001"; })) << "a session tells its figures when it ends";
  const ended done = run({"check"});
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_THAT(done.out, HasSubstr("WRONG  autovacuum is off: the table grows without end\n       -> " + reset + "\n"));
  EXPECT_THAT(done.out, HasSubstr("WRONG  100001 dead row versions beside 0 live ones, "));
  EXPECT_THAT(done.out, HasSubstr("bytes with indexes\n       -> " + vacuum + "; see "));
  on_database(reset);
  on_database(vacuum);
  EXPECT_TRUE(wait_until([&] { return dead() == "0"; }));
  EXPECT_THAT(run({"check"}).out, AllOf(HasSubstr("ok     autovacuum is on\n"),
                                        HasSubstr("ok     0 dead row versions beside 0 live ones")));
}

// The program finds a function that has the name of the server's clock first.
TEST_P(DeskOnServer, CheckFindsATransactionThatIsOpenForLong) {
  const auto after = [&](const std::string& minutes) {
    on_database("CREATE OR REPLACE FUNCTION " + schema + ".now() RETURNS timestamptz STABLE LANGUAGE sql AS " +
                "'SELECT pg_catalog.now()+interval ''" + minutes + "min'''");
    return run_alone({"check", made.named + " options='-c search_path=" + schema + ",pg_catalog'", "--schema", schema});
  };
  const sql_session culprit(server().conninfo());
  culprit.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 'a report'");
  const std::string process = std::to_string(culprit.backend());
  EXPECT_THAT(after("9").out, Not(HasSubstr("has had a transaction open")));
  const ended done = after("11");
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_THAT(done.out, HasSubstr("WRONG  process " + process + " of postgres has had a transaction open for 66"));
  EXPECT_THAT(done.out,
              HasSubstr("SELECT 'a report'\n       -> end it: SELECT pg_terminate_backend(" + process + ")\n"));
}

TEST_P(DeskOnServer, CheckFindsThatFewConnectionsAreLeft) {
  EXPECT_THAT(run({"check"}).out, testing::ContainsRegex("ok     [0-9]+ of 100 connections are used"));
  std::vector<std::unique_ptr<sql_session>> others;
  while (others.size() < 81) {
    others.push_back(std::make_unique<sql_session>(server().conninfo()));
  }
  const ended done = run({"check"});
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_THAT(done.out, testing::ContainsRegex("WRONG  [89][0-9] of 100 connections are used\n +-> raise max_conn"));
}

TEST_P(DeskOnServer, AServerThatIsNotThereHasOneClearAnswer) {
  const std::string closed = "host=127.0.0.1 port=1";
  const words typed[] = {{"status", closed}, {"serve", closed, "--listen", "127.0.0.1:0"}};
  on_threads(2, [&](int each) {
    const timing_wheel::test::scratch_folder own;
    const ended done = run_alone_in(own, typed[each], "timeout 20 " TIMING_WHEEL_DESK);
    EXPECT_EQ(done.status, 3);
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err, testing::StartsWith("timing-wheel: connecting: connection to server at \"127.0.0.1\", port "
                                              "1 failed: Connection refused"));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  });
}

TEST_P(DeskOnServer, AStandbyTellsWhatItKnows) {
  private_postgres primary;
  postgres_store on_primary(primary.conninfo());
  on_primary.migrate();
  put(on_primary, "late", on_primary.now() - 90s);
  const std::unique_ptr<private_postgres> standby = primary.standby();
  const ended checked = run_alone({"check", standby->conninfo()});
  EXPECT_THAT(checked.out, HasSubstr("ok     this is a standby")) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("WRONG  1 checks of close wait"));
  const ended told = run_alone({"why", standby->conninfo(), "close", "late"});
  EXPECT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("No live node has a handler for its kind"));
  if (has_webhooks()) {
    expect_no_delivery({nullptr, standby->conninfo()}, TIMING_WHEEL_DESK);
  }
}
#endif

TEST_P(Desk, RetriesAndDeletesTheDead) {
  for (const auto& [key, error] : {std::pair("a", "no"), {"b", "no"}, {"c", "gone"}, {"d", "no"}}) {
    bury_one(key, error);
  }
  put(store, "b", 1h);
  const ended done = run({"retry", "--error", "no", "--yes"});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.out, HasSubstr("2 revived; 1 stay"));
  EXPECT_THAT(store.list_dead(9), SizeIs(2));
  const std::string id = std::to_string(store.list_dead(9).at(1).id);
  EXPECT_EQ(run({"retry", id}).status, 0);
  EXPECT_EQ(run({"retry", id}).status, 1) << "it is there no more";
  EXPECT_EQ(run({"delete", "--kind", "other", "--yes"}).status, 1);
  EXPECT_EQ(run({"delete", "--all", "--yes"}).status, 0);
  EXPECT_THAT(store.list_dead(9), IsEmpty());
  EXPECT_EQ(audited(), 4U);
  EXPECT_EQ(run({"retry", "seven"}).status, 2);
  EXPECT_EQ(run({"delete", "0"}).status, 2);
  EXPECT_EQ(run({"delete", "77", "78", "--dry-run", "--json"}).read()["changed"], 0);
  for (const char* key : {"x", "y"}) {
    bury_one(key, "--timeout of the bank");
  }
  const std::vector<dead_check> two = store.list_dead(9);
  ASSERT_THAT(two, SizeIs(2));
  const auto named = [&](const std::string& more) {
    return run({"delete", std::to_string(two[0].id), std::to_string(two[1].id), more});
  };
  EXPECT_EQ(named("--json").status, 4) << "nobody has confirmed";
  EXPECT_EQ(named("--all").status, 2) << "ids, or options";
  EXPECT_THAT(store.list_dead(9), SizeIs(2));
  EXPECT_EQ(named("--yes").status, 0);
  bury_one("z", "--timeout of the bank");
  EXPECT_EQ(run({"delete", "--error", "--timeout of the bank", "--yes"}).status, 0);
  bury_one("hex", "bad byte \\xc3 here");
  EXPECT_THAT(run({"list", "--state", "dead"}).out, HasSubstr("bad byte \\x5cxc3 here"));
  EXPECT_EQ(run({"delete", "--error", "bad byte \\x5cxc3 here", "--yes"}).status, 0) << "as a list prints it";
  bury_one("lines", "two\nlines");
  EXPECT_EQ(run({"delete", "--error", "two\\x0alines", "--yes"}).status, 0) << "as a list prints it";
}

// Those of many transactions.
TEST_P(Desk, OfTwoDeadChecksOfAKeyTheNewerIsRevived) {
  std::vector<dead_check> all(1500);
  for (std::size_t number = 0; number < all.size(); ++number) {
    all[number].kind = "close";
    all[number].payload = "old";
    all[number].due = all[number].died = store.now();
    all[number].key = "order-" + std::to_string(number % (all.size() - 1));
  }
  all.back().payload = "new";
  store.transact([&](store_transaction& open) { open.restore({}, all); });
  EXPECT_THAT(run({"retry", "--all", "--yes"}).out, HasSubstr("1 499 revived; 1 stay"));
  EXPECT_EQ(store.find("close", "order-0")->payload, "new");
  EXPECT_EQ(store.audit(1).at(0).subject, "all");
}

TEST_P(Desk, AWordInBracketsIsNoList) {
  put_many(18);
  put(store, request{.kind = "[close]", .key = "[order-17]", .payload = {}, .due = 1h});
  EXPECT_EQ(run({"cancel", "close", "[order-17]"}).status, 1);
  EXPECT_THAT(run({"list", "--kind", "[close]"}).out, HasSubstr("[order-17]"));
  EXPECT_EQ(run({"cancel", "[close]", "[order-17]", "--json"}).read()["changed"], 1);
  EXPECT_EQ(run({"pause", "[close]"}).status, 0);
  EXPECT_EQ(store.paused_kinds().at(0).kind, "[close]");
  EXPECT_THAT(run({"export"}).err, HasSubstr("pauses and drains are not in an export"));
  EXPECT_EQ(store.count({}, 99), 18U);
}

TEST_P(Desk, PausesAndResumesAKindAndShowsTheAudit) {
  EXPECT_EQ(run({"audit"}).status, 1);
  EXPECT_EQ(run({"pause", "close"}).status, 0);
  EXPECT_EQ(run({"pause", "close"}).status, 1);
  EXPECT_THAT(run({"pause", "colse"}).err, HasSubstr("there is no check of the kind colse"));
  EXPECT_EQ(run({"resume", "colse"}).status, 0);
  put(store, "a");
  EXPECT_EQ(run({"pause", "close"}).err, "");
  ASSERT_THAT(store.paused_kinds(), SizeIs(1));
  EXPECT_EQ(run({"resume", "close"}).status, 0);
  EXPECT_EQ(run({"resume", "close"}).status, 1);
  EXPECT_EQ(run({"pause", ""}).status, 2);
  const std::vector<json> lines = run({"audit", "--json"}).lines();
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[0]["action"], "resume");
  EXPECT_EQ(lines[3]["kind"], "close");
}

TEST_P(Desk, SaysWhichNodeRunsACheckForLongAndSinceWhen) {
  put(store, "hangs");
  const claimed held = claim(store).at(0);
  EXPECT_TRUE(run({"show", "close", "hangs", "--json"}).read()[0]["run"].is_null());
  std::vector<long_run> told(1);
  told[0].id = held.id;
  told[0].fence = held.fence;
  told[0].begun = store.now() - 12min;
  store.tell_long_runs("node-a", told);
  EXPECT_THAT(run({"show", "close", "hangs"}).out, testing::ContainsRegex("run +on node-a since .* 12 min ago"));
  EXPECT_EQ(run({"show", "close", "hangs", "--json"}).read()[0]["run"]["node"], "node-a");
  EXPECT_EQ(run({"list", "--json"}).lines().at(0)["run"]["node"], "node-a");
  EXPECT_THAT(run({"list", "--state", "running"}).out, testing::ContainsRegex("lease ends +node .*\n.* node-a "));
  EXPECT_THAT(run({"why", "close", "hangs"}).out,
              testing::AllOf(HasSubstr("The node node-a has called its handler at "), HasSubstr("12 min ago")));
  complete(store, held);
  EXPECT_EQ(run({"show", "close", "hangs"}).status, 1);
}

// From the node that has run it to the operator.
TEST_P(Desk, SaysWhyACheckRunsAgain) {
  put(store, "fails");
  scheduler checks(store, {.poll = 10ms, .node = "node-a", .on_failure = [](const failure&) {}});
  checks.on("close", [](const job& /*what*/) -> outcome { return retry_after(1h, "no stock of 17\n"); });
  checks.start();
  const words shown = {"show", "close", "fails", "--json"};
  EXPECT_TRUE(wait_until([&] { return run(shown).read()[0]["error"] == "no stock of 17\n"; }));
  checks.stop();
  EXPECT_THAT(run({"show", "close", "fails"}).out,
              testing::ContainsRegex("error +no stock of 17.*\n +of attempt 1 on node-a, told"));
  EXPECT_THAT(run({"why", "close", "fails"}).out,
              testing::AllOf(HasSubstr("Attempt 1 has failed on the node node-a: no stock of 17"),
                             HasSubstr("It runs again at")));
  EXPECT_THAT(run({"status"}).out, HasSubstr("failed and run again: 1; their errors:\n-> "));
  EXPECT_THAT(run({"list", "--state", "retrying"}).out, HasSubstr("no stock of 17"));
  EXPECT_EQ(run({"list", "--json"}).lines().at(0)["error"], "no stock of 17\n");
}

TEST_P(Desk, DrainsANodeUntilItIsEmptyAndStartsItAgain) {
  std::atomic<bool> may_end = false;
  const auto hold = [&](const job& /*what*/) { wait_until([&] { return may_end.load(); }); };
  scheduler old(store, {.poll = 20ms, .node = "old", .on_failure = [](const failure&) {}});
  old.on("close", hold);
  old.start();
  put(store, "runs");
  wait_until([&] { return old.stats().running == 1; });
  EXPECT_THAT(run({"why", "close", "runs"}).out,
              HasSubstr(on_server() ? "Most likely it is old, which has the check" : "or begins soon.\n"));
  if (on_server()) {
    EXPECT_EQ(run({"drain", "nobody"}).status, 1);
    EXPECT_THAT(store.drained_nodes(), IsEmpty());
  }
  EXPECT_EQ(run({"drain", "old", "--wait", "0", "--json"}).read()["changed"], 1);
  wait_until([&] { return store.drained_nodes().at(0).held.has_value(); });
  const ended busy = run({"drain", "old", "--wait", "0.1", "--json"});
  EXPECT_EQ(busy.status, 4);
  EXPECT_EQ(busy.read(), json::parse(R"({"changed":0,"held":1})"));
  EXPECT_THAT(busy.err, HasSubstr("old still runs 1 checks; it stays drained"));
  put(store, "waits");
  scheduler other(store, {.poll = 20ms, .node = "other", .on_failure = [](const failure&) {}});
  other.on("close", [](const job& /*what*/) {});
  other.start();
  wait_until([&] { return !store.find("close", "waits"); });
  // It counts what it has done when the server's answer is there.
  EXPECT_TRUE(wait_until([&] { return other.stats().done == 1; })) << "another node runs it";
  may_end = true;
  const ended done = run({"drain", "old"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("old is drained and empty"));
  EXPECT_THAT(run({"status"}).out, HasSubstr("old is drained since"));
  EXPECT_THAT(run({"status"}).out, testing::ContainsRegex("\nold +drained +"));
  const json drained = run({"status", "--json"}).read();
  EXPECT_EQ(drained["drained"][0]["held"], 0);
  const json& last = drained["nodes"].back();
  EXPECT_TRUE(last["node"] == "old" && last["drained"] && last["alive"].is_null()) << last;
  EXPECT_EQ(drained["nodes"].size(), on_server() ? 2U : 1U);
  EXPECT_THAT(run({"drain", "old", "--end"}).out, HasSubstr("old claims again"));
  EXPECT_EQ(run({"drain", "old", "--end"}).status, 1);
  other.stop();
  put(store, "again");
  wait_until([&] { return !store.find("close", "again"); });
  EXPECT_TRUE(wait_until([&] { return old.stats().done == 2; }));
  const std::vector<audit_entry> lines = store.audit(10);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].action, "end drain");
  EXPECT_EQ(lines[1].subject, "node old");
}

#ifdef TIMING_WHEEL_TEST_POSTGRES
// Which alone knows nodes.
TEST_P(DeskOnServer, ADrainDoesNotTakeANodeThatIsSilentForEmpty) {
  const auto is_there = [&](const char* kind, std::chrono::milliseconds hold) {
    static_cast<void>(store.renew_shares("old", words{kind}, hold));
  };
  is_there("mail", 1ms);  // killed, and back with other kinds
  is_there("close", 1h);
  const ended waits = run({"drain", "old", "--wait", "0.3"});
  EXPECT_EQ(waits.status, 4);
  EXPECT_THAT(waits.err, HasSubstr("the node old has not answered yet"));
  is_there("close", 1ms);
  std::this_thread::sleep_for(5ms);
  const ended silent = run({"drain", "old", "--wait", "0.3"});
  EXPECT_EQ(silent.status, 4);
  EXPECT_THAT(silent.err, HasSubstr("nobody knows what it runs"));
  EXPECT_THAT(run({"status"}).out, testing::ContainsRegex("\nold +not for .*, drained "));
  const ended gone = run({"drain", "old", "--end"});
  EXPECT_EQ(gone.status, 4);
  EXPECT_THAT(gone.err, HasSubstr("no node of that name has come back"));
  put(store, "late");
  EXPECT_EQ(run({"status", "--json"}).read()["kinds"][0]["why"], "its nodes are silent");
  EXPECT_THAT(run({"check"}).out, HasSubstr("the nodes that have a handler are silent"));
  EXPECT_THAT(run({"why", "close", "late"}).out, HasSubstr("they have just died, or hang"));
}
#endif

// To a store of another database, if there is one.
class DeskTransfer : public Desk {  // NOLINT(readability-identifier-naming): a suite
 public:
  DeskTransfer() { to.store->migrate(); }

  [[nodiscard]] ended import(words more = {}) const {
    more.insert(more.begin(), {"import", file});
    return run_alone(on(to, std::move(more)));
  }
  void export_it() const {
    const ended done = run({"export"});
    ASSERT_EQ(done.status, 0) << done.err;
    std::ofstream(file) << done.out;
  }

  const timing_wheel::test::scratch_folder other_folder;
  const desk_place to =
      (GetParam().name == desk_ways[0].name ? *std::rbegin(desk_ways) : desk_ways[0]).make(other_folder);
  const std::string file = folder.file("checks.jsonl");
};
INSTANTIATE_TEST_SUITE_P(On, DeskTransfer, testing::ValuesIn(desk_ways), name_of_way);

TEST_P(DeskTransfer, ExportsAndImportsAllThatACheckHas) {
  const std::string bytes("\x00\xFF\n", 3);
  put(store, asked("again", 1h, bytes));
  move(store, "again", store.now());
  retry(store, claim(store).at(0), store.now() + 2h, 3);
  put_many(1500);
  put(store, "held");
  const claimed held = claim(store).at(0);
  bury_one(bytes, "the bank said " + bytes);
  export_it();
  EXPECT_EQ(import({"--dry-run", "--json"}).read(), json::parse(R"({"checks":1502,"dead":1,"kept":0,"dry_run":true})"));
  EXPECT_EQ(to.store->count({}, 10), 0U);
  const ended done = import();
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("1 502 checks and 1 dead ones imported"));
  const stored_check was = store.find("close", "again").value();
  const stored_check is = to.store->find("close", "again").value();
  EXPECT_EQ(std::tie(is.payload, is.due, is.attempt, is.fence), std::tie(was.payload, was.due, was.attempt, was.fence));
  EXPECT_EQ(is.payload, bytes);
  EXPECT_EQ(to.store->find("close", "held")->running, false);
  const dead_check dead = to.store->list_dead(9).at(0);
  EXPECT_EQ(dead.key, bytes);
  EXPECT_EQ(dead.error, store.list_dead(9).at(0).error);
  EXPECT_EQ(dead.died, store.list_dead(9).at(0).died);
  EXPECT_GT(claim(*to.store).at(0).fence, std::max(held.fence, dead.fence)) << "fences rise";
  EXPECT_EQ(to.store->audit(9).at(0).action, "import");
}

TEST_P(DeskTransfer, IsRefusedWhereChecksAre) {
  put_many(3);
  bury_one("dies", "no");
  export_it();
  put(*to.store, asked("order-1", 1h, "mine"));
  const ended refused = import();
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("1 check is there already, such as close order-1; nothing was imported"));
  EXPECT_EQ(to.store->count({}, 10), 1U);
  EXPECT_THAT(to.store->list_dead(9), IsEmpty());
  EXPECT_THAT(import({"--keep-existing", "--dry-run"}).out, HasSubstr("1 are there already, and would stay"));
  EXPECT_EQ(to.store->count({}, 10), 1U);
  EXPECT_EQ(import({"--keep-existing", "--json"}).read()["kept"], 1);
  EXPECT_EQ(to.store->count({}, 10), 3U);
  EXPECT_EQ(to.store->find("close", "order-1")->payload, "mine");
  EXPECT_THAT(import().err, HasSubstr("4 checks are there already"));
  std::ifstream in(file);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const std::size_t died = all.find("\"died_us\":");
  std::ofstream(file) << all.substr(0, died) << "\"died_us\":1" << all.substr(all.find_first_of(",}", died));
  EXPECT_EQ(import({"--keep-existing", "--dry-run", "--json"}).read()["kept"], 3) << "another one died then";
  std::ofstream(file) << all;
  EXPECT_EQ(import({"--keep-existing", "--json"}).read()["dead"], 0);
  EXPECT_THAT(to.store->list_dead(9), SizeIs(1)) << "also the dead come once";
}

TEST_P(DeskTransfer, AFileThatIsBrokenIsNotImported) {
  put_many(3);
  export_it();
  words lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  const auto says = [&](const words& wrong, const char* text) {
    std::ofstream out(file);
    for (const std::string& each : wrong) {
      out << each << '\n';
    }
    out.close();
    const ended done = import();
    EXPECT_EQ(done.status, 2) << done.out;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_EQ(to.store->count({}, 10), 0U);
  };
  says({}, "line 1");
  says({"{}"}, "line 1: this is no export");
  says({R"({"format":7})"}, "line 1: this is no export");
  says({lines[0], lines[1]}, "line 3: the export ends before its last line");
  says({lines[0], lines[1], lines[4]}, "line 3: the export had more or fewer checks");
  says({lines[0], "[", lines[4]}, "line 2: this is no JSON object");
  says({lines[0], R"({"state":"pending","kind":"close"})"}, "line 2: a member is missing");
  says({lines[0], R"({"state":"pending","kind":7})"}, "line 2: a member is missing");
  says({lines[0], R"({"state":"pending","kind":"","key":"a","due_us":1,"attempt":0,"fence":0,"payload":""})"},
       "line 2");
  const auto line_with = [](const std::string& number) {
    return R"({"state":"pending","kind":"close","key":"a","payload":"",)" + number + "}";
  };
  for (const char* number : {R"("due_us":1e300,"attempt":0,"fence":0)", R"("due_us":1,"attempt":4294967296,"fence":0)",
                             R"("due_us":1,"attempt":0.5,"fence":0)", R"("due_us":1,"attempt":0,"fence":-1)",
                             R"("due_us":1,"attempt":0,"fence":9223372036854775807)"}) {
    says({lines[0], line_with(number)}, "line 2: ");
  }
  says({lines[0], line_with(R"("due_us":1,"attempt":2000000001,"fence":0)")},
       "line 2: attempt is not in [0, 2000000000]");
  says({lines[0], R"({"end":true,"checks":"x","dead":0})"}, "line 2: checks is no integer");
  for (const char* due : {"1764010800", "1764010800000", "1764010800000000000"}) {
    says({lines[0], line_with(R"("attempt":0,"fence":0,"due_us":)" + std::string(due))},
         "line 2: due_us is no time in");
  }
  words twins = {lines[0], line_with(R"("due_us":1,"attempt":0,"fence":0)")};
  for (int number = 0; number < 1500; ++number) {
    twins.push_back(lines[1]);
    twins.back().replace(lines[1].find("order-0"), 7, "other-" + std::to_string(number));
  }
  twins.push_back(twins[1]);
  twins.push_back(R"({"end":true,"checks":1502,"dead":0})");
  says(twins, "line 1503: its kind and key are those of line 2");
  const std::string dead =
      R"({"state":"dead","kind":"close","key":"a","payload":"","due_us":1,"attempt":1,"fence":7,"error":"","died_us":)";
  says({lines[0], dead + "2}", dead + "3}", dead + "2}", R"({"end":true,"checks":0,"dead":3})"},
       "line 4: its kind and key are those of line 2");
}

// By a trigger of somebody's, here.
TEST_P(DeskTransfer, SaysHowManyItHasWrittenIfTheStoreRefusesOne) {
  put_many(1500);
  const ended all = run({"export"});
  std::ofstream(file) << all.out;
  const std::string key = "'" + all.lines().at(1400)["key"].get<std::string>() + "'";
  on_database(to, to.options.empty()
                      ? "CREATE TRIGGER no BEFORE INSERT ON timing_wheel_check WHEN new.key=CAST(" + key +
                            " AS BLOB) BEGIN "
                            "SELECT RAISE(ABORT,'not this one'); END"
                      : "ALTER TABLE \"check\" ADD CONSTRAINT not_this_one CHECK(key<>" + key + ")");
  const ended done = import();
  EXPECT_EQ(done.status, 3) << done.out;
  EXPECT_THAT(done.err, testing::ContainsRegex("not.this.one.*; 1 000 were imported before"));
  EXPECT_EQ(to.store->count({}, 10'000), 1000U);
}

// By SQL, or under other limits of a store.
TEST_P(DeskTransfer, TakesWhatIsLongerThanTheUsualLimits) {
  const std::string key(300, 'k');
  std::string error = "x";
  for (int times = 0; times < 1'500'000; ++times) {
    error += "\u00e9";
  }
  const std::vector<stored_check> checks(
      1, {.kind = std::string(70, 'k'), .key = key, .payload = std::string(2 << 20, 'p')});
  const std::vector<dead_check> dead(1, {.kind = "close", .key = key, .payload = {}, .error = error});
  store.transact([&](store_transaction& open) { EXPECT_EQ(open.restore(checks, dead), 1U); });
  export_it();
  const ended done = import();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(to.store->find(checks[0].kind, key)->payload, checks[0].payload);
  EXPECT_EQ(to.store->list_dead(9).at(0).error, error.substr(0, 65535));
}

TEST_P(DeskTransfer, ReadsAPipeOnce) {
  put_many(3);
  export_it();
  const std::string fed = "sh -c 'cat " + file + " | \"$0\" \"$@\"' " TIMING_WHEEL_DESK;
  const ended done = run_alone_in(folder, on(to, {"import", "/dev/stdin"}), fed);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(to.store->count({}, 10), 3U);
  const ended dry = run_alone_in(folder, on(to, {"import", "/dev/stdin", "--dry-run"}), fed);
  EXPECT_THAT(dry.err, HasSubstr("--dry-run needs a file"));
}

// The operator presses Ctrl-C when the program has opened the file, which takes long to look at.
TEST_P(DeskTransfer, CtrlCBeforeItWritesImportsNothing) {
  put_many(1);
  const std::vector<json> lines = run({"export"}).lines();
  std::ofstream out(file);
  out << lines[0] << '\n';
  for (int number = 0; number < 100'000; ++number) {
    out << lines[1] << '\n';
  }
  out.close();
  std::thread hand([&] {
    wait_until([&] { return has_open(file); });
    interrupt();
  });
  const ended done = import();
  hand.join();
  EXPECT_EQ(done.status, 4);
  EXPECT_THAT(done.err, HasSubstr("stopped: nothing was imported"));
  EXPECT_EQ(to.store->count({}, 1), 0U);
}

// Each run schedules the next one in its own transaction: at each moment there are as many checks as at the first.
TEST_P(DeskTransfer, AnExportIsOfOneMomentThoughANodeRuns) {
  constexpr std::size_t count = 400;
  scheduler checks(store, {.poll = 10ms, .on_failure = [](const failure&) {}});
  checks.on("close", [](transaction& open, const job& what) {
    open.schedule({.kind = "close", .key = std::string(what.key()) + "'", .payload = {}, .due = 1ms});
  });
  put_many(count, "close", 0s);
  checks.start();
  int beside_runs = 0;
  for (int times = 0; times < 100 && beside_runs < 3; ++times) {
    const std::uint64_t before = checks.stats().done;
    export_it();
    beside_runs += checks.stats().done > before ? 1 : 0;
    std::ifstream in(file);
    std::set<std::string> keys;
    for (std::string line; std::getline(in, line);) {
      const std::string key = json::parse(line).value("key", "");
      keys.insert(key.substr(0, key.find('\'')));
    }
    keys.erase("");
    EXPECT_THAT(keys, SizeIs(count));
  }
  EXPECT_EQ(beside_runs, 3);
  checks.stop();
}

TEST_P(Desk, CheckFindsWhatIsWrong) {
  EXPECT_THAT(run({"check"}).out, Not(HasSubstr("close")));
  store.pause("close");
  bury_one("dies", "no");
  const ended done = run({"check", "--json"});
  EXPECT_EQ(done.status, 4);
  words wrong;
  for (const json& each : done.read()) {
    const std::string what = each["what"];
    if (each["wrong"] && what.find("fsync") == std::string::npos && what.find("MB are free") == std::string::npos) {
      wrong.push_back(what);  // but for a server that does not sync, and a small /dev/shm
    }
  }
  EXPECT_THAT(wrong, ElementsAre("close is paused", "1 checks of close are dead"));
  if (!on_server()) {
    const std::string limited = "prlimit --fsize=8192 " TIMING_WHEEL_DESK;
    EXPECT_THAT(run_alone_in(folder, {"check", made.named}, limited).out,
                HasSubstr("WRONG  the file takes no write: "));
  }
}

TEST_P(Desk, CheckFindsClocksApart) {
  EXPECT_THAT(run({"check"}).out, HasSubstr("ok     the clock here differs from the store's by "));
  words typed = {"check", made.named};
  if (on_server()) {  // the program finds a function that has the name of the server's clock first
    on_database("CREATE FUNCTION " + schema + ".clock_timestamp() RETURNS timestamptz LANGUAGE sql AS " +
                "'SELECT pg_catalog.clock_timestamp()+interval ''11min'''");
    typed = {"check", made.named + " options='-c search_path=" + schema + ",pg_catalog'", "--schema", schema};
  } else {
    on_database("UPDATE timing_wheel_clock SET offset=offset+660000000,revision=revision+1");
  }
  const ended done = run_alone(typed);
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_THAT(done.out, testing::ContainsRegex("WRONG  the clock here differs from the store's by -6[56][0-9].*\n +-> "
                                               "set the clock of this machine"));
}

TEST_P(Desk, CheckTellsThatTheDiskIsFull) {
  const small_disk disk("size=100m");
  if (!disk.is_there()) {
    GTEST_SKIP() << "no right to mount a small file system: it takes CAP_SYS_ADMIN, as root of a machine has";
  }
  std::string named = "sqlite:" + (disk.path() / "orders.db").string();
  std::shared_ptr<durable::store> on_disk;
#ifdef TIMING_WHEEL_TEST_POSTGRES
  if (on_server()) {
    struct stat owner {};
    ::stat(server().data().c_str(), &owner);
    const std::filesystem::path space = disk.path() / "space";
    std::filesystem::create_directory(space);
    ASSERT_EQ(::chown(space.c_str(), owner.st_uid, owner.st_gid), 0);
    server().execute("CREATE TABLESPACE small LOCATION '" + space.string() + "'");
    server().execute("CREATE DATABASE small TABLESPACE small");
    named = server().conninfo() + " dbname=small";
    on_disk = std::make_shared<postgres_store>(named);
  }
#endif
#ifdef TIMING_WHEEL_TEST_SQLITE
  if (!on_server()) {
    on_disk = std::make_shared<sqlite_store>(disk.path() / "orders.db");
  }
#endif
  on_disk->migrate();
  EXPECT_THAT(run_alone({"check", named}).out, testing::ContainsRegex("ok     .*(written 16 MB|MB are free on)"));
  {
    const filler all(disk.path(), 0);
    const ended done = run_alone({"check", named});
    EXPECT_EQ(done.status, 4) << done.err;
    EXPECT_THAT(done.out, HasSubstr(on_server() ? "WRONG  the disk of the tables has no room for 16 MB"
                                                : "WRONG  0 MB are free on the disk of "));
    EXPECT_THAT(done.out, HasSubstr("\n       -> free space there"));
  }
  EXPECT_THAT(run_alone({"check", named}).out, Not(HasSubstr("free space there")));
  on_disk.reset();
#ifdef TIMING_WHEEL_TEST_POSTGRES
  if (on_server()) {
    server().execute("DROP DATABASE small");
    server().execute("DROP TABLESPACE small");
  }
#endif
}

TEST_P(Desk, WhatItTellsToTypeWorksAsItIs) {
  for (const bool is_usual : {false, true}) {
    store.pause("it's mine");
    words typed = {"check"};
    if (!is_usual) {
      typed.push_back(made.named);
    }
    typed.insert(typed.end(), made.options.begin(), made.options.end());
    const std::string usual = "env -u TIMING_WHEEL_STORE TIMING_WHEEL_COMMAND=" TIMING_WHEEL_DESK " " +
                              (is_usual ? "TIMING_WHEEL_STORE=" + in_quotes(made.named) + " " : "");
    const std::string told = run_alone_in(folder, typed, usual + TIMING_WHEEL_DESK).out;
    const std::size_t at = std::min(told.find(TIMING_WHEEL_DESK " resume "), told.size());
    const std::string line = told.substr(at, told.find('\n', at) - at);
    EXPECT_EQ(line.find(made.named) == std::string::npos, is_usual) << told;
    EXPECT_EQ(::system((usual + line + " >&2").c_str()), 0) << line;
    EXPECT_THAT(store.paused_kinds(), IsEmpty());
  }
}

TEST_P(Desk, GroupsOfTheDeadLeaveIdsOut) {
  bury_one("a", "order 17 failed");
  bury_one("b", "order 18 failed");
  bury_one("c", "order 18 failed");
  bury_one("d", "no session 6f1e2d3c-aaaa-bbbb-cccc-0123456789ab, nor deadbeef1 at 0xbeef77, in cafe v2");
  const ended text = run({"list", "--state", "dead", "--groups"});
  EXPECT_THAT(text.out, testing::ContainsRegex("close +3 +2 .* order # failed\n"));
  EXPECT_THAT(text.out, testing::ContainsRegex("close +1 +1 .* no session 6f1e")) << "--error takes it";
  EXPECT_THAT(run({"list", "--state", "dead", "--groups", "--limit", "1"}).out, Not(HasSubstr("session")));
  const std::vector<json> groups = run({"list", "--state", "dead", "--groups", "--json"}).lines();
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_EQ(groups[0]["error"], "order 18 failed");
  EXPECT_EQ(groups[0]["pattern"], "order # failed");
  EXPECT_EQ(groups[1]["pattern"], "no session #, nor # at #, in cafe v#");
  const words these = {"list", "--state", "dead", "--pattern", "order # failed", "--json"};
  EXPECT_THAT(run(these).lines(), SizeIs(3));
  words page = these;
  page.insert(page.end(), {"--limit", "2"});
  const std::string cursor = run(page).lines().at(1)["cursor"];
  page.insert(page.end(), {"--after", cursor});
  EXPECT_EQ(run(page).lines().at(0)["key"], "a");
  EXPECT_THAT(run({"list", "--state", "dead", "--groups", "--pattern", "order # failed", "--json"}).lines(), SizeIs(2));
  EXPECT_THAT(
      run({"list", "--state", "dead", "--groups", "--pattern", "order # failed", "--json", "--limit", "1"}).lines(),
      SizeIs(1));
  std::istringstream lines(text.out);
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {  // as the table shows it
    const std::string shown = line.substr(line.find(line.find("order") == std::string::npos ? "no session" : "order"));
    EXPECT_EQ(run({"retry", "--pattern", shown, "--dry-run"}).status, 0) << shown;
  }
  EXPECT_EQ(run({"delete", "--pattern", "order # failed", "--kind", "close", "--dry-run", "--json"}).read()["changed"],
            3);
  EXPECT_EQ(run({"delete", "--pattern", "order # failed", "--yes", "--json"}).read()["changed"], 3);
  EXPECT_THAT(store.list_dead(9), SizeIs(1));
  EXPECT_EQ(run({"retry", "--pattern", "order # failed", "--yes"}).status, 1);
  bury_one("silent", "");
  EXPECT_EQ(run({"delete", "--pattern", "", "--yes", "--json"}).read()["changed"], 1);
}

TEST_P(Desk, RunsTheExamplesOfItsPage) {
  std::ifstream page(TIMING_WHEEL_DESK_PAGE);
  put(store, request{.kind = "verify", .key = "order-17", .payload = {}, .due = 1h});
  std::vector<std::pair<std::string, int>> statuses;
  bool of_webhooks = false;  // which have a test of their own
  for (std::string line; std::getline(page, line);) {
    of_webhooks = line.starts_with("## ") ? line == "## Webhooks" : of_webhooks;
    if (!line.starts_with("timing-wheel ") || of_webhooks) {
      continue;
    }
    std::string command = "cd " + in_quotes(folder.path().string()) + "; TIMING_WHEEL_STORE=" + in_quotes(made.named) +
                          " " TIMING_WHEEL_DESK + line.substr(12);
    for (const std::string& each : made.options) {
      command += " " + each;
    }
    const int status = ::system((command + (line.find('>') == std::string::npos ? " >out 2>&1" : " 2>out")).c_str());
    statuses.emplace_back(line.substr(13, line.find(' ', 13) - 13), WEXITSTATUS(status));
  }
  // The one check is not due, and none is dead. The tests' server does not sync, and a small /dev/shm has no room for
  // the log of a file: `check` finds both.
  const bool is_wrong = on_server() || std::filesystem::space(folder.path()).available < 100'000'000;
  const std::vector<std::pair<std::string, int>> expected = {
      {"export", 0}, {"import", 4},     {"list", 1},  {"list", 1},
      {"cancel", 0}, {"reschedule", 1}, {"retry", 1}, {"check", is_wrong ? 4 : 0}};
  EXPECT_EQ(statuses, expected);
}

TEST_P(Desk, BadInputHasOneClearAnswer) {
  struct wrong {
    words typed;
    int status;
    const char* says;
  };
  std::vector<wrong> all = {
      {{"status", "sqlite:" + folder.file("nothing.db")}, 3, "there is no file"},
      {{"status", "orders.db"}, 2, "is no store"},
      {{"status"}, 2, "no store is named"},
      {{"import", made.named, folder.path().string()}, 2, "there is no file"},
      {{"show", made.named, "close"}, 2, "usage: show STORE KIND KEY"},
      {{"list", made.named, "--state", "late"}, 2, "is none of pending, due"},
      {{"list", made.named, "--due-before", "yesterday"}, 2, "is no time"},
      {{"list", made.named, "--due-before", "2026-02-31T00:00:00Z"}, 2, "is no time"},
      {{"list", made.named, "--limit", "0"}, 2, "--limit"},
      {{"list", made.named, "--error", "no"}, 2, "give --state dead, too"},
      {{"list", made.named, "--pattern", "no"}, 2, "give --state dead, too"},
      {{"status", made.named, "--watch", "--every", "nan"}, 2, "nan not in range [0.1 - 3600]"},
      {{"list", made.named, "--groups"}, 2, "give --state dead, too"},
      {{"list", made.named, "--groups", "--after", "7"}, 2, "--after and --earliest are of a list of checks"},
      {{"list", made.named, "--after", "7"}, 2, "--after: '7' is no cursor of such a list"},
      {{"list", made.named, "--after", "7.8x"}, 2, "is no cursor"},
      {{"list", made.named, "--after", ".7"}, 2, "is no cursor"},
      {{"list", made.named, "--state", "dead", "--after", "7.8"}, 2, "is no cursor"},
      {{"list", made.named, "--state", "dead", "--after=-7"}, 2, "is no cursor"},
      {{"cancel", made.named, "close"}, 2, "give a kind and a key"},
      {{"cancel", made.named, "--kind", "", "--yes"}, 2, "names nothing"},
      {{"cancel", made.named, "--kind=--yes"}, 2, "names nothing"},
      {{"delete", made.named, "--error", "", "--yes"}, 2, "names nothing"},
      {{"cancel", made.named, "close", "a", "--kind", "close"}, 2, "and not both"},
      {{"reschedule", made.named, "close", "a"}, 2, "--due"},
      {{"shrug", made.named}, 2, "shrug"},
      {{"show", made.named, "close", "a", "b"}, 2, "usage: show STORE KIND KEY"},
      {{"show", made.named, "close", ""}, 2, "the key is empty"},
      {{"why", made.named, "", "a"}, 2, "kind is empty"},
  };
  if (on_server()) {
    all.push_back({{"cancel", made.named, "\\xff", "a"}, 2, "is not UTF-8"});
    all.push_back({{"list", made.named, "--kind", "\\xff"}, 2, "is not UTF-8"});
  }
  for (const wrong& each : all) {
    words typed = each.typed;
    if (typed.size() > 1 && typed[1] == made.named) {
      typed.insert(typed.end(), made.options.begin(), made.options.end());
    }
    const ended done = run_alone(typed);
    EXPECT_EQ(done.status, each.status) << done.err;
    EXPECT_THAT(done.err, HasSubstr(each.says));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("nothing.db"))) << "it makes no file";
  EXPECT_THAT(run_alone({"show", "--help"}).out, HasSubstr("timing-wheel show STORE KIND KEY [OPTIONS]\n"));
  EXPECT_THAT(run_alone({"--version"}).out, testing::MatchesRegex("[0-9.]+\n"));
}

TEST_P(Desk, WhatDoesNotExistMatchesNothing) {
  put(store, "a", 1h);
  bury_one("dies", "no");
  for (const words& each : {words{"list", "--kind", "nobody"},
                            {"list", "--kind", "nobody", "--state", "dead"},
                            {"show", "nobody", "a"},
                            {"why", "nobody", "a"},
                            {"cancel", "nobody", "a"},
                            {"cancel", "close", "b"},
                            {"cancel", "--kind", "nobody", "--yes"},
                            {"reschedule", "--kind", "nobody", "--due", "now", "--yes"},
                            {"run-now", "--kind", "nobody", "--yes"},
                            {"retry", "--kind", "nobody", "--yes"},
                            {"delete", "--error", "nothing", "--yes"},
                            {"resume", "nobody"},
                            {"drain", "nobody", "--end"}}) {
    EXPECT_EQ(run(each).status, 1) << each[0] << ' ' << each[1];
  }
  EXPECT_EQ(store.count({}, 10), 1U);
  EXPECT_THAT(store.list_dead(9), SizeIs(1));
  EXPECT_EQ(audited(), 0U);
}

TEST_P(Desk, AFilterThatMatchesAMillionIsChangedInSmallStepsUntilCtrlC) {
  if (timing_wheel::test::under_thread_sanitizer || timing_wheel::test::under_address_sanitizer) {
    GTEST_SKIP() << "a sanitizer needs memory of its own, and time";
  }
  constexpr std::size_t count = 1'000'001;
  on_database(
      on_server()
          ? "INSERT INTO \"check\"(due,kind,key,payload) SELECT 4000000000000000+n,'close',"
            "convert_to('order-'||n,'UTF8'),'' FROM generate_series(1,1000001) n"
          : "INSERT INTO timing_wheel_check(due,kind,key,payload) WITH RECURSIVE each(n) AS (SELECT 1 UNION ALL "
            "SELECT n+1 FROM each WHERE n<1000001) SELECT 4000000000000000+n,'close',CAST('order-'||n AS "
            "BLOB),x'' FROM each");
  EXPECT_EQ(run({"cancel", "--all", "--dry-run"}).out, "more than 1 000 000 match; nothing was changed\n");
  long most_kib = 0;
  std::vector<std::chrono::steady_clock::duration> took;
  std::thread hand([&] {
    wait_until([&] { return audited() > 0; });
    for (int times = 0; times < 20; ++times) {
      const auto begin = std::chrono::steady_clock::now();
      put(store, request{.kind = "other", .key = std::to_string(times), .payload = {}, .due = 1h});
      took.push_back(std::chrono::steady_clock::now() - begin);
    }
    most_kib = peak_kib();
    interrupt();
  });
  const ended done = run({"cancel", "--kind", "close", "--yes", "--json"});
  hand.join();
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_TRUE(done.read()["stopped"]);
  const std::size_t cancelled = done.read()["changed"];
  EXPECT_EQ(store.count({.kind = "close"}, count), count - cancelled);
  EXPECT_EQ(audited(), cancelled);
  EXPECT_GT(most_kib, 0);
  EXPECT_LT(most_kib, 96 * 1024) << "a million checks at a time would need more";
  std::sort(took.begin(), took.end());
  EXPECT_LT(took.at(18), 2s) << "others write between two steps; in one of them the machine may stand still";
}

#ifdef TIMING_WHEEL_TEST_SQLITE
TEST_P(DeskOnFile, AKindThatIsNotUtf8IsShownAndKept) {
  on_database(
      "INSERT INTO timing_wheel_check(due,kind,key,payload) VALUES(1795779138717566,CAST(x'fe41' AS TEXT),x'01',x'')");
  const ended all = run({"export"});
  ASSERT_EQ(all.status, 0) << all.err;
  for (const json& told :
       {all.lines().at(1), run({"status", "--json"}).read()["kinds"][0], run({"list", "--json"}).lines().at(0)}) {
    EXPECT_EQ(told["kind"], "\\xfeA");
    EXPECT_EQ(told["kind_base64"], "/kE=");
  }
  EXPECT_THAT(run({"status", "--metrics"}).out, HasSubstr("_pending{kind=\"\\\\xfeA\"} 1\n"));
  EXPECT_THAT(run({"check", "--json"}).out, HasSubstr("is not UTF-8"));
  on_database("DELETE FROM timing_wheel_check");
  std::ofstream(folder.file("checks")) << all.out;
  EXPECT_EQ(run({"import", folder.file("checks")}).status, 0);
  EXPECT_EQ(run({"export"}).lines().at(1), all.lines().at(1));
}

TEST_P(DeskOnFile, AFileThatMayOnlyBeReadIsReadAndNotChanged) {
  put(store, "late");
  bury_one("dies", "no");
  put(store, "late");
  const std::string program = only_reads_the_file();
  for (const words& each : {words{"status"},
                            {"list"},
                            {"list", "--state", "dead"},
                            {"show", "close", "late"},
                            {"why", "close", "late"},
                            {"export"},
                            {"migrate", "--plan"}}) {
    const ended done = run(each, program);
    EXPECT_EQ(done.status, 0) << each[0] << ' ' << done.err;
    EXPECT_NE(done.out, "") << each[0];
  }
  EXPECT_THAT(run({"check"}, program).out, HasSubstr("no write was tried: this user may only read"));
  for (const words& each : {words{"cancel", "close", "late"}, {"retry", "--all"}, {"pause", "close"}}) {
    const ended done = run(each, program);
    EXPECT_EQ(done.status, 3) << each[0];
    EXPECT_THAT(done.err, HasSubstr("attempt to write a readonly database"));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  EXPECT_TRUE(store.find("close", "late"));
  if (::geteuid() == 0) {  // anybody else owns the folder
    std::filesystem::copy_file(folder.file(), folder.file("alone.db"));
    const ended alone = run_alone_in(folder, {"status", "sqlite:" + folder.file("alone.db")}, program);
    EXPECT_EQ(alone.status, 3) << alone.out;
    EXPECT_THAT(alone.err, HasSubstr("start a node, or let this user write in the folder"));
  }
  std::ofstream(folder.file("other.db")) << "text";
  EXPECT_THAT(run_alone({"status", "sqlite:" + folder.file("other.db")}).err, HasSubstr("is not a database"));
}
#endif

TEST_P(Desk, MigratesTheTablesOfAnOlderRelease) {
  put(store, "a", 1h);
  EXPECT_THAT(run({"migrate"}).out, HasSubstr("there is nothing to do"));
  on_database(
      on_server()
          ? "DROP FUNCTION schedule,cancel,reschedule,revive_dead,delete_dead,pause,resume,drain,end_drain; DROP VIEW "
            "overview,due,running,retrying,dead_check; "
            "DROP TABLE addition,paused_kind,audit,drained_node,long_run,failed_run,run_count"
          : "DROP TABLE timing_wheel_fence; UPDATE timing_wheel_schema SET version=1");
  const ended plan = run({"migrate", "--plan"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("CREATE TABLE"));
  EXPECT_THAT(plan.out, HasSubstr(on_server() ? "from version 2.0 to 2.7. Nodes may run meanwhile"
                                              : "from version 1.0 to 2.0. Stop all programs first"));
  EXPECT_EQ(run({"migrate", "--plan", "--json"}).read()["additive"], on_server());
#ifdef TIMING_WHEEL_TEST_POSTGRES
  if (on_server()) {
    on_database("CREATE ROLE " + schema + "_node LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + schema +
                "_node; GRANT SELECT ON version TO " + schema + "_node");
    const ended other = run_alone({"migrate", made.named + " user=" + schema + "_node", "--schema", schema});
    EXPECT_EQ(other.status, 4) << other.out;
    EXPECT_THAT(other.err, HasSubstr("only the role that owns the tables"));
  }
#endif
  const ended first = run({"migrate"});
  EXPECT_EQ(first.status, on_server() ? 0 : 4) << first.err;
  if (!on_server()) {
    EXPECT_THAT(first.err, HasSubstr("stop all programs that use them, make a backup, and give --yes"));
    EXPECT_EQ(run({"migrate", "--yes"}).status, 0);
  }
  EXPECT_THAT(run({"check"}).out, HasSubstr(on_server() ? "ok     the tables are of version 2.7\n"
                                                        : "ok     the tables are of version 2.0\n"));
  EXPECT_EQ(run({"show", "close", "a"}).status, 0);
  EXPECT_THAT(run({"audit"}).out, HasSubstr("migrate"));
}

TEST_P(Desk, TablesThatAreMissingOrNewerAreNotTouched) {
  const timing_wheel::test::scratch_folder other;
  const desk_place empty = GetParam().make(other);
  const ended done = run_alone(on(empty, {"status"}));
  EXPECT_EQ(done.status, 3);
  EXPECT_THAT(done.err, HasSubstr("there are no tables"));
  on_database(std::string("UPDATE ") + (on_server() ? "version" : "timing_wheel_schema") + " SET version=7");
  const ended newer = run({"status"});
  EXPECT_EQ(newer.status, 3);
  EXPECT_THAT(newer.err, HasSubstr("tables of version 7; this library knows version 2"));
  EXPECT_EQ(run({"migrate", "--yes"}).status, 3);
}

// A node runs while an operator cancels: what is said to be cancelled never runs. The first runs last until some were
// cancelled, however late the operator comes.
TEST_P(Desk, CancelsExactlyBesideANode) {
  constexpr int count = 3000;
  std::atomic<int> runs = 0;
  scheduler checks(store, {.poll = 10ms, .on_failure = [](const failure&) {}});
  checks.on("close", [&](const job& /*what*/) {
    EXPECT_TRUE(runs > 10 || wait_until([&] { return audited() > 0; }));
    ++runs;
  });
  checks.start();
  put_many(count, "close", 1500ms);
  const ended done = run({"cancel", "--kind", "close", "--yes", "--json"});
  const int cancelled = done.read()["changed"];
  wait_until([&] { return runs + cancelled >= count; });
  checks.stop();
  EXPECT_EQ(runs + cancelled, count);
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(store.count({}, 10), 0U);
  EXPECT_EQ(audited(), static_cast<std::size_t>(cancelled));
}

}  // namespace
}  // namespace timing_wheel::durable::test
