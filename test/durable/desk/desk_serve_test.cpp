// `timing-wheel serve`, asked over sockets as programs, browsers and attackers ask it.

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iomanip>
#include <regex>
#include <sstream>

#include "durable/support/desk_case.hpp"
#include "support/prometheus_page.hpp"
#ifdef TIMING_WHEEL_TEST_SQLITE
#include "durable/support/sqlite_case.hpp"
#endif

namespace timing_wheel::durable::test {
namespace {

const std::string secret = "0123456789abcdef";
const std::string bearer = "Authorization: Bearer " + secret + "\r\n";

struct http_reply {
  int status = 0;  // 0: the server has closed without a word
  std::string head;
  std::string body;

  [[nodiscard]] json read() const { return json::parse(body); }
};

class client {
 public:
  // The system keeps little for one that is `deaf`.
  explicit client(int port, bool deaf = false) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (const int little = 4096; deaf) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client() { ::close(socket_); }

  // \returns whether the server has not closed.
  bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  [[nodiscard]] bool has_answer() const {
    char one = 0;
    return ::recv(socket_, &one, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }
  // All until the server closes, or until `last` is there.
  [[nodiscard]] std::string read(const std::string& last = "") const {
    std::string all;
    char some[4096];
    for (ssize_t got = 0; (got = ::recv(socket_, some, sizeof some, 0)) > 0;) {
      all.append(some, static_cast<std::size_t>(got));
      if (!last.empty() && all.find(last) != std::string::npos) {
        break;
      }
    }
    return all;
  }

 private:
  int socket_;
};

http_reply reply_of(const std::string& text) {
  const std::size_t end = text.find("\r\n\r\n");
  return end == std::string::npos
             ? http_reply()
             : http_reply{std::stoi(text.substr(text.find(' '))), text.substr(0, end), text.substr(end + 4)};
}

// A server, until the end of a test.
class serving {
 public:
  serving(const desk_case& of, const words& options) {
    std::string command = "echo $$; exec env -u TIMING_WHEEL_STORE " TIMING_WHEEL_DESK " serve --listen 127.0.0.1:0";
    command += " " + in_quotes(of.made.named);
    for (const words& some : {of.made.options, options}) {
      for (const std::string& each : some) {
        command += " " + in_quotes(each);
      }
    }
    output_ = ::popen(command.c_str(), "r");
    EXPECT_EQ(std::fscanf(output_, "%d http://127.0.0.1:%d/", &process_, &port), 2);
  }
  serving(const serving&) = delete;
  serving& operator=(const serving&) = delete;
  ~serving() {
    stop();
    EXPECT_EQ(::pclose(output_), 0);
  }
  void stop() {
    if (!std::exchange(is_asked_, true)) {  // a second signal would end it at once
      ::kill(process_, SIGTERM);
    }
  }

  [[nodiscard]] std::string host() const { return "Host: 127.0.0.1:" + std::to_string(port) + "\r\n"; }
  // With the fields as they are given.
  [[nodiscard]] http_reply ask_with(const std::string& line, const std::string& fields,
                                    const std::string& body = "") const {
    const client one(port);
    one.send(line + " HTTP/1.1\r\nConnection: close\r\n" + fields +
             (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" + body);
    return reply_of(one.read());
  }
  [[nodiscard]] http_reply ask(const std::string& line, const std::string& body = "") const {
    return ask_with(line, host() + bearer, body);
  }

  int port = 0;

 private:
  FILE* output_ = nullptr;
  pid_t process_ = 0;
  bool is_asked_ = false;
};

class DeskServe : public desk_case {  // NOLINT(readability-identifier-naming): a suite
 public:
  DeskServe() {
    std::ofstream(folder.file("tokens")) << "# who\nnightly " << secret << " 2999-12-31T23:59:59Z\n"
                                         << "before fedcba9876543210 2026-01-01T00:00:00Z\n";
  }

  const words with_tokens = {"--token-file", folder.file("tokens"), "--time-limit", "3"};
};
INSTANTIATE_TEST_SUITE_P(On, DeskServe, testing::ValuesIn(desk_ways), name_of_way);
// For what knows no store; on a server if there is one, since that has nodes.
using DeskServeOnce = DeskServe;  // NOLINT(readability-identifier-naming): a suite
INSTANTIATE_TEST_SUITE_P(On, DeskServeOnce, testing::Values(*std::rbegin(desk_ways)), name_of_way);
#ifdef TIMING_WHEEL_TEST_SQLITE
using DeskServeOnFile = DeskServe;  // NOLINT(readability-identifier-naming): a suite
INSTANTIATE_TEST_SUITE_P(On, DeskServeOnFile, testing::Values(desk_ways[0]), name_of_way);
#endif

TEST_P(DeskServe, SchedulesOnceForEachKey) {
  const serving desk(*this, with_tokens);
  const std::string line = "PUT /v1/kinds/close/checks/a%2Fb%00%ff";
  const std::string key("a/b\0\xff", 5);
  EXPECT_EQ(desk.ask(line, R"({"delay":"30min","payload_base64":"AP96"})").status, 201);
  EXPECT_EQ(store.find("close", key)->payload, std::string("\x00\xFFz", 3));
  EXPECT_GT(store.find("close", key)->due, store.now() + 29min);
  const http_reply again = desk.ask(line, R"({"due":"2026-11-23T18:00:00Z","payload":"new"})");
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.read()["result"], "kept");
  const http_reply replaced = desk.ask(line + "?replace", R"({"due":"2026-11-23T20:30:00+02:30","payload":"new"})");
  EXPECT_EQ(replaced.read(), json::parse(R"({"result":"replaced","due":"2026-11-23T18:00:00Z"})"));
  EXPECT_EQ(store.find("close", key)->payload, "new");
  const std::vector<audit_entry> lines = store.audit(10);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].action, "replace");
  EXPECT_EQ(lines[0].by, "nightly");
}

// The line that makes a token, and the request by curl.
TEST_P(DeskServe, WorksAsTheExamplesOfItsPage) {
  std::ifstream in(TIMING_WHEEL_DESK_PAGE);
  const std::string page(std::istreambuf_iterator<char>(in), {});
  const std::size_t makes = page.find("(umask 077; ");
  ASSERT_NE(makes, std::string::npos);
  const std::string line = page.substr(makes, page.find('\n', makes) - makes);
  ASSERT_EQ(::system(("cd " + in_quotes(folder.path().string()) + "; " + line).c_str()), 0);
  std::string name;
  std::string token;
  std::ifstream(folder.file("tokens")) >> name >> token;
  EXPECT_THAT(page, HasSubstr("$ timing-wheel serve sqlite:orders.db --token-file tokens\n"));
  const serving desk(*this, {"--token-file", folder.file("tokens")});
  const std::regex request(
      "curl -X (PUT) -H \"(Authorization: Bearer )\\$TOKEN\" -d '([^']*)' \\\\\n +http://127.0.0.1:8080(/[^\n]*)\n");
  std::smatch of;
  ASSERT_TRUE(std::regex_search(page, of, request));
  const std::string fields = desk.host() + of.str(2) + token + "\r\n";
  EXPECT_EQ(desk.ask_with(of.str(1) + " " + of.str(4), fields, of.str(3)).status, 201);
  const auto check = store.find("verify", "order-17");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->payload, "17");
  EXPECT_EQ(store.audit(1).at(0).by, "night-shift");
}

TEST_P(DeskServe, CancelsAndMovesWithThreeAnswers) {
  put(store, "held");
  claim(store);
  put(store, "a", 1h);
  const serving desk(*this, with_tokens);
  const std::string checks = " /v1/kinds/close/checks/";
  const auto result = [&](const http_reply& reply) { return reply.read()["result"].get<std::string>(); };
  EXPECT_EQ(result(desk.ask("POST" + checks + "a/reschedule", R"({"delay":"2h"})")), "moved");
  EXPECT_GT(store.find("close", "a")->due, store.now() + 119min);
  EXPECT_EQ(result(desk.ask("POST" + checks + "a/run-now")), "moved");
  EXPECT_LE(store.find("close", "a")->due, store.now());
  EXPECT_EQ(result(desk.ask("POST" + checks + "held/run-now")), "running");
  EXPECT_EQ(result(desk.ask("PUT" + checks + "held?replace", R"({"delay":"2h"})")), "running");
  EXPECT_EQ(result(desk.ask("DELETE" + checks + "a")), "cancelled");
  EXPECT_EQ(result(desk.ask("DELETE" + checks + "a")), "finished");
  EXPECT_EQ(desk.ask("POST" + checks + "a/run-now").status, 404);
  EXPECT_EQ(desk.ask("POST" + checks + "a/reschedule", R"({"delay":"2h"})").status, 404);
  EXPECT_EQ(result(desk.ask("DELETE" + checks + "held")), "running");
  EXPECT_EQ(audited(), 3U);
}

TEST_P(DeskServe, TakesAPayloadOfAMebibyteAndNoByteMore) {
  const serving desk(*this, {"--token-file", folder.file("tokens")});  // a sanitizer may need seconds for it
  const std::string most(1'048'576, '\0');
  std::string bytes((most.size() + 2) / 3 * 4, 'A');
  bytes.back() = '=';  // of 3 * 349 525 + 1 bytes
  bytes[bytes.size() - 2] = '=';
  EXPECT_EQ(desk.ask("PUT /v1/kinds/close/checks/a", R"({"payload_base64":")" + bytes + R"("})").status, 201);
  EXPECT_EQ(store.find("close", "a")->payload, most);
  EXPECT_EQ(
      desk.ask("PUT /v1/kinds/close/checks/b", R"({"payload":")" + std::string(most.size(), 'x') + R"("})").status,
      201);
  EXPECT_EQ(desk.ask("GET /v1/kinds/close/checks/b").read()["check"]["payload"], std::string(most.size(), 'x'));
  const http_reply refused =
      desk.ask("PUT /v1/kinds/close/checks/c", R"({"payload":")" + std::string(most.size() + 1, 'x') + R"("})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("1048577"));
  EXPECT_EQ(store.count({}, 10), 2U);
}

TEST_P(DeskServe, TellsAllOfACheckAndHidesPayloadsIfAsked) {
  const std::string script = "<script>alert(1)</script>";
  bury_one("a", "broken");
  put(store, asked("a", 1h, script));
  const std::string line = "GET /v1/kinds/close/checks/a";
  {
    const serving desk(*this, {});
    const http_reply reply = desk.ask(line);
    EXPECT_EQ(reply.read()["check"]["payload"], script);
    EXPECT_EQ(reply.read()["dead"][0]["error"], "broken");
    EXPECT_THAT(reply.head, HasSubstr("application/json"));
    EXPECT_THAT(reply.head, HasSubstr("X-Content-Type-Options: nosniff"));
    EXPECT_THAT(reply.head, HasSubstr("Cache-Control: no-store"));
    EXPECT_THAT(desk.ask(line + "/why").body, HasSubstr("It is not due yet"));
    EXPECT_EQ(desk.ask("GET /v1/kinds/close/checks/nobody").status, 404);
    EXPECT_EQ(desk.ask("GET /v1/kinds/%ff/checks/a").status, on_server() ? 400 : 404) << "SQL may have written it";
  }
  const http_reply hidden = serving(*this, {"--redact"}).ask(line);
  EXPECT_EQ(hidden.read()["check"]["payload_bytes"], script.size());
  EXPECT_THAT(hidden.body, Not(HasSubstr("alert")));
#ifdef TIMING_WHEEL_TEST_POSTGRES
  if (on_server()) {
    put(store, "late");
    const sql_session culprit(server().conninfo());
    culprit.execute("BEGIN; UPDATE " + schema + ".check SET payload='secret' WHERE key='late'");
    EXPECT_THAT(serving(*this, {"--redact"}).ask("GET /v1/kinds/close/checks/late/why").body,
                AllOf(HasSubstr("A transaction is in the way"), Not(HasSubstr("secret"))));
  }
#endif
}

TEST_P(DeskServe, ListsFromPageToPage) {
  put_many(5);
  for (const char* key : {"x", "y", "z"}) {
    bury_one(key, "no");
  }
  const serving desk(*this, {});
  for (const auto& [path, name, count] :
       {std::tuple("/v1/checks?kind=close&key=order-", "checks", 5), {"/v1/dead?error=no", "dead", 3}}) {
    std::set<std::string> keys;
    std::string cursor;
    for (int pages = 0; pages < 4; ++pages) {
      const json page = desk.ask("GET " + std::string(path) + "&limit=2" + cursor).read();
      for (const json& each : page[name]) {
        keys.insert(each["key"].get<std::string>());
      }
      if (page["cursor"].is_null()) {
        break;
      }
      cursor = "&cursor=" + page["cursor"].get<std::string>();
    }
    EXPECT_THAT(keys, SizeIs(count)) << path;
    const std::string list = std::string("GET ") + path;
    EXPECT_GT(desk.ask(list).read()[name][0]["key"], desk.ask(list + "&earliest").read()[name][0]["key"]) << path;
  }
}

TEST_P(DeskServe, RetriesAndDeletesTheDead) {
  for (const auto& [key, error] : {std::pair("a", "no"), {"b", "no"}, {"c", "gone"}, {"d", "no"}}) {
    bury_one(key, error);
  }
  put(store, "b", 1h);
  const serving desk(*this, with_tokens);
  EXPECT_EQ(desk.ask("GET /v1/dead/groups").read()["groups"][0]["count"], 3);
  EXPECT_THAT(desk.ask("GET /v1/dead/groups?pattern=gone").read()["groups"], SizeIs(1));
  EXPECT_THAT(desk.ask("GET /v1/dead?pattern=no&limit=2").read()["dead"], SizeIs(2));
  EXPECT_EQ(desk.ask("POST /v1/dead/retry?error=no").read()["changed"], 2);
  ASSERT_THAT(store.list_dead(9), SizeIs(2));
  const std::string taken = std::to_string(store.list_dead({.limit = 1, .which = {.error = "no"}}).at(0).id);
  EXPECT_EQ(desk.ask("POST /v1/dead/" + taken + "/retry").status, 409);
  EXPECT_EQ(desk.ask("DELETE /v1/dead/" + taken).status, 200);
  EXPECT_EQ(desk.ask("DELETE /v1/dead/" + taken).status, 404);
  EXPECT_EQ(desk.ask("POST /v1/dead/" + taken + "/retry").status, 404);
  EXPECT_EQ(desk.ask("DELETE /v1/dead").status, 400) << "of which?";
  EXPECT_EQ(desk.ask("DELETE /v1/dead?kind=").status, 400);
  EXPECT_EQ(desk.ask("DELETE /v1/dead?kind=close").read()["changed"], 1);
  bury_one("silent", "");
  bury_one("loud", "no");
  EXPECT_EQ(desk.ask("DELETE /v1/dead?pattern=").read()["changed"], 1) << "those without an error";
  EXPECT_EQ(audited(), 5U);
}

TEST_P(DeskServe, TellsWhatTheCommandsTell) {
  put(store, "late", store.now() - 90s);
  put(store, request{.kind = "close", .key = "soon", .payload = {}, .due = 10min});
  const serving desk(*this, with_tokens);
  EXPECT_EQ(desk.ask("POST /v1/kinds/close/pause").read()["changed"], 1);
  json over_http = desk.ask("GET /v1/status").read();
  json typed = run({"status", "--json"}).read();
  for (json* each : {&over_http, &typed}) {
    each->erase("store");
    for (const char* waits : {"oldest_due_s", "wait_p50_s", "wait_p99_s"}) {
      (*each)["kinds"][0].erase(waits);
    }
  }
  EXPECT_EQ(over_http, typed);
  EXPECT_EQ(over_http["kinds"][0]["why"], "paused");
  const json due = desk.ask("GET /v1/due").read()["windows"];
  EXPECT_EQ(due[1]["counts"], json(std::vector<int>(10)));
  EXPECT_EQ(due[2]["counts"][3], 1) << due;
  auto samples = timing_wheel::test::samples_of(desk.ask("GET /metrics").body);
  EXPECT_EQ(samples["timing_wheel_durable_store_waiting{kind=\"close\"}"], "1");
  EXPECT_EQ(desk.ask("POST /v1/kinds/close/resume").status, 200);
  EXPECT_EQ(desk.ask("GET /v1/audit?limit=1").read()["audit"][0]["by"], "nightly");
  static_cast<void>(store.renew_shares("node-1", words{"close"}, 1h));
  EXPECT_EQ(desk.ask("POST /v1/nodes/node-1/drain").read()["changed"], 1);
  EXPECT_EQ(desk.ask("GET /v1/status").read()["drained"][0]["node"], "node-1");
  EXPECT_EQ(desk.ask("POST /v1/nodes/node-1/resume").read()["changed"], 1);
}

TEST_P(DeskServe, SendsEventsToEachWhoWatches) {
  put_many(3, "close", store.now() - 90s);
  const serving desk(*this, {});
  const client one(desk.port);
  const client other(desk.port);
  for (const client* each : {&one, &other}) {
    each->send("GET /v1/events HTTP/1.1\r\n" + desk.host() + "\r\n");
    EXPECT_THAT(each->read("\n\n"), HasSubstr("text/event-stream"));
  }
  const std::string event = one.read("\n\n");
  const json waits = json::parse(event.substr(event.rfind("data: ") + 6))["kinds"][0]["waits_s"];
  EXPECT_TRUE(std::any_of(waits.begin(), waits.end(), [](const json& each) { return each >= 90; })) << waits;
  store.pause("close");
  EXPECT_THAT(one.read("\"paused\":true"), HasSubstr("\"paused\":true"));
  EXPECT_THAT(other.read("\"paused\":true"), HasSubstr("\"paused\":true"));
}

// Between two looks that count all, there are some that count up to 1 000.
TEST_P(DeskServe, EachEventHasAllFigures) {
  bury_one("dead", "no");
  put_many(30'000, "close", 1h);
  put(store, "late", store.now() - 90s);
  put(store, request{.kind = "other", .key = "a", .payload = {}, .due = 2h});
  const serving desk(*this, {});
  const client watcher(desk.port);
  watcher.send("GET /v1/events HTTP/1.1\r\n" + desk.host() + "\r\n");
  static_cast<void>(watcher.read("\n\n"));
  const auto next = [&] {
    const std::string event = watcher.read("\n\n");
    return json::parse(event.substr(event.rfind("data: ") + 6));
  };
  for (std::size_t late = 1; late <= 3; ++late) {
    json close = json::object();
    json all;
    for (int events = 0; events < 3 && close.value("due", 0U) != late; ++events) {
      all = next();
      close = all["kinds"].at(0);
    }
    EXPECT_EQ(close["due"], late);
    EXPECT_GE(close["pending"], 30'001);
    EXPECT_EQ(close["at_least"], false);
    EXPECT_EQ(close["dead"], 1);
    EXPECT_GE(close["oldest_due_s"], 90);
    EXPECT_EQ(all["kinds"].at(1)["pending"], 1);
    EXPECT_EQ(all["dead"].size(), 1U) << all["dead"];
    EXPECT_EQ(all["due"]["windows"].size(), 4U);
    put(store, "late-" + std::to_string(late), store.now() - 90s);
  }
  // More is due than is counted.
  put_many(6000, "early", store.now() - 100s);
  put_many(200, "zlate", store.now() - 10s);
  store.transact([&](store_transaction& open) {
    cancel_op op{.kind = "other", .key = "a"};
    open.cancel({&op, 1});
  });
  static_cast<void>(next());
  for (int events = 0; events < 4; ++events) {
    const json all = next();
    for (const json& of : all["kinds"]) {
      EXPECT_NE(of["kind"], "other") << of;
      EXPECT_GE(of["pending"], of["waiting"]) << of;
      EXPECT_EQ(of["waiting"] > 0, !of["why"].get<std::string>().empty()) << of;
      EXPECT_EQ(of["waiting"] > 0, of["oldest_due_s"] > 0) << of;
      EXPECT_TRUE(of["kind"] != "early" || of["at_least"] == true || of["due"] == 6000) << of;
    }
  }
}

TEST_P(DeskServe, TheDescriptionNamesEachWay) {
  const serving desk(*this, with_tokens);
  const json paths = desk.ask("GET /v1/openapi.json").read()["paths"];
  EXPECT_THAT(paths, SizeIs(20));
  for (const auto& [path, ways] : paths.items()) {
    const http_reply reply = desk.ask("PATCH " + path);
    EXPECT_EQ(reply.status, 405) << path;
    for (const auto& [method, way] : ways.items()) {
      std::string name = method;
      std::transform(name.begin(), name.end(), name.begin(), [](char each) { return std::toupper(each); });
      EXPECT_THAT(reply.head, testing::ContainsRegex("Allow: .*" + name)) << path;
    }
  }
}

TEST_P(DeskServe, ServesItsPageWithAStrictPolicy) {
  const serving desk(*this, with_tokens);
  const http_reply page = desk.ask_with("GET /", desk.host());
  EXPECT_EQ(page.status, 200) << "the page itself needs no token";
  EXPECT_THAT(page.head, HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"));
  EXPECT_THAT(page.body, Not(HasSubstr("<script>")));
  EXPECT_THAT(page.body, Not(HasSubstr("style=")));
  EXPECT_THAT(desk.ask_with("GET /console.js", desk.host()).body, Not(HasSubstr("innerHTML")));
  EXPECT_THAT(desk.ask_with("HEAD /console.css", desk.host()).body, IsEmpty());
}

TEST_P(DeskServe, EventsAreOnlyToBeGot) {
  const http_reply reply = serving(*this, with_tokens).ask("HEAD /v1/events");
  EXPECT_EQ(reply.status, 405);
  EXPECT_THAT(reply.head, HasSubstr("Allow: GET\r\n"));
}

TEST_P(DeskServeOnce, ThePageWorksInABrowser) {
  const std::string modules = TIMING_WHEEL_NODE_MODULES;
  if (!std::filesystem::exists(modules + "/puppeteer-core") || !std::filesystem::exists("/usr/bin/chromium")) {
    GTEST_SKIP() << "it needs chromium, and the modules that ./dev setup fetches";
  }
  put_many(60, "close", 2h);
  put(store, request{.kind = "close", .key = "soon", .payload = {}, .due = 10min});
  put(store, request{.kind = "other", .key = "<b>bold</b>", .payload = "<script>alert(1)</script>", .due = 1h});
  for (const auto& [key, error] : {std::pair("a", "no"), {"b", "no"}, {"c", "<i>gone</i>"}}) {
    bury_one(key, error);
  }
  put(store, request{.kind = "late", .key = "order-1", .payload = {}, .due = store.now() - 10min});
  store.tell_runs("node-1", {.begun = 1200, .ended = 60, .failed = 3});
  static_cast<void>(store.renew_shares("node-1", words{"other"}, 1ms));  // before it came back with other kinds
  static_cast<void>(store.renew_shares("node-1", words{"close"}, 1h));
  const serving desk(*this, with_tokens);
  const std::string pictures = std::string(TIMING_WHEEL_PICTURES "/") + GetParam().name;
  std::filesystem::create_directories(pictures);
  std::string command = "node";
  for (const std::string& each : {std::string(TIMING_WHEEL_PAGE_TEST), modules, pictures,
                                  "http://127.0.0.1:" + std::to_string(desk.port) + "/", secret}) {
    command += " " + in_quotes(each);
  }
  EXPECT_EQ(::system((command + " 2>&1").c_str()), 0);
  EXPECT_EQ(audited(), on_server() ? 10U : 8U);
}

// More dead checks than the server groups, and more of a kind than it counts.
TEST_P(DeskServeOnce, ThePageSaysWhichCountsAreCut) {
  const std::string modules = TIMING_WHEEL_NODE_MODULES;
  if (!std::filesystem::exists(modules + "/puppeteer-core") || !std::filesystem::exists("/usr/bin/chromium")) {
    GTEST_SKIP() << "it needs chromium, and the modules that ./dev setup fetches";
  }
  put_many(100'001, "close", 2h);
  bury_one("a", "no");
  const std::vector<dead_check> more(10'000, store.list_dead(1).at(0));
  store.transact([&](store_transaction& open) { static_cast<void>(open.restore({}, more)); });
  const serving desk(*this, with_tokens);
  std::string command = "node";
  for (const std::string& each : {std::string(TIMING_WHEEL_PAGE_TEST), modules, std::string(TIMING_WHEEL_PICTURES),
                                  "http://127.0.0.1:" + std::to_string(desk.port) + "/", secret, std::string("cut")}) {
    command += " " + in_quotes(each);
  }
  EXPECT_EQ(::system((command + " 2>&1").c_str()), 0);
}

TEST_P(DeskServe, RefusesWhoHasNoTokenOrComesFromElsewhere) {
  words options = with_tokens;
  options.insert(options.end(), {"--host", "other.example:8443", "--host", "desk.example"});
  const serving desk(*this, options);
  const std::string page = "http://127.0.0.1:" + std::to_string(desk.port);
  const std::string put_it = "PUT /v1/kinds/close/checks/a";
  struct wrong {
    std::string line;
    std::string fields;
    int status;
  };
  const std::string expired = "Authorization: Bearer fedcba9876543210\r\n";
  const std::vector<wrong> all = {
      {put_it, desk.host(), 401},
      {put_it, desk.host() + "Authorization: Bearer 0123456789abcdeg\r\n", 401},
      {put_it, desk.host() + "Authorization: Bearer \r\n", 401},
      {put_it, desk.host() + expired, 401},
      {"GET /v1/events", desk.host() + expired, 401},
      {put_it, desk.host() + "Authorization: Basic " + secret + "\r\n", 401},
      {"GET /v1/status", desk.host(), 401},
      {"GET /v1/events", desk.host(), 401},
      {put_it, "Host: evil.example\r\n" + bearer, 421},
      {put_it, "Host: 127.0.0.1\r\n" + bearer, 421},
      {put_it, bearer, 400},
      {put_it, desk.host() + desk.host() + bearer, 400},
      {"GET http://evil.example/v1/status", desk.host() + bearer, 421},
      {"GET http://127.0.0.1/v1/status", desk.host() + bearer, 421},
      {"GET " + page + "/v1/status", "Host: evil.example\r\n" + bearer, 200},
      {"GET HTTP" + page.substr(4), desk.host(), 200},
      {put_it, desk.host() + bearer + "Origin: http://evil.example\r\n", 403},
      {put_it, desk.host() + bearer + "Origin: null\r\n", 403},
      {put_it, desk.host() + bearer + "Origin: evil" + page.substr(4) + "\r\n", 403},
      {put_it, desk.host() + bearer + "Origin: " + page + "0\r\n", 403},
      {put_it, desk.host() + bearer + "Origin: " + page + "\r\n", 201},
      {put_it, "Host: localhost:" + std::to_string(desk.port) + "\r\n" + bearer, 200},
      {put_it, "Host: Desk.example\r\nOrigin: https://desk.example\r\n" + bearer, 200},
  };
  for (const wrong& each : all) {
    const http_reply reply = desk.ask_with(each.line, each.fields, each.line == put_it ? "{}" : "");
    EXPECT_EQ(reply.status, each.status) << each.line << "\n" << each.fields << reply.body;
    EXPECT_EQ(reply.head.find("application/problem+json") != std::string::npos, each.status >= 400) << reply.head;
    EXPECT_EQ(each.status < 400 || reply.read()["status"] == each.status, true) << reply.body;
  }
  EXPECT_EQ(store.count({}, 10), 1U);
  EXPECT_THAT(desk.ask_with(put_it, desk.host() + expired).body, HasSubstr("this token has expired"));
}

TEST_P(DeskServeOnce, EventsEndWithTheirToken) {
  const std::time_t end = std::time(nullptr) + 2;
  std::tm parts{};
  std::ofstream(folder.file("short")) << "guest " << secret << std::put_time(::gmtime_r(&end, &parts), " %FT%TZ");
  const serving desk(*this, {"--token-file", folder.file("short")});
  const client one(desk.port);
  one.send("GET /v1/events HTTP/1.1\r\n" + desk.host() + bearer + "\r\n");
  EXPECT_THAT(one.read("\n\n"), HasSubstr("200 OK"));
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(one.read());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "the server closes, and not the time-out of the client";
  EXPECT_THAT(desk.ask("GET /v1/status").body, HasSubstr("this token has expired"));
}

TEST_P(DeskServe, ChangesNothingIfNobodyMayChange) {
  put(store, "a", 1h);
  {
    const serving without(*this, {});
    EXPECT_EQ(without.ask("DELETE /v1/kinds/close/checks/a").status, 403);
    EXPECT_EQ(without.ask("GET /v1/kinds/close/checks/a").status, 200);
    EXPECT_EQ(without.ask_with("GET /v1/status", "Host: evil.example\r\n").status, 421);
  }
  words options = with_tokens;
  options.emplace_back("--read-only");
  const serving desk(*this, options);
  EXPECT_EQ(desk.ask("DELETE /v1/kinds/close/checks/a").status, 403);
  EXPECT_TRUE(store.find("close", "a"));
}

TEST_P(DeskServe, DeliversOnlyFromAStoreThatItMayWrite) {
  if (!has_webhooks()) {
    GTEST_SKIP() << "built without libcurl and OpenSSL";
  }
  desk_place place = made;
  std::string program = TIMING_WHEEL_DESK;
#ifdef TIMING_WHEEL_TEST_POSTGRES
  if (on_server()) {
    const std::string role = schema + "_looks";
    server().execute("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + role +
                     "; GRANT SELECT ON ALL TABLES IN SCHEMA " + schema + " TO " + role);
    place.named += " user=" + role;
  }
#endif
  if (!on_server()) {
    put(store, "late");
    program = only_reads_the_file();
  }
  expect_no_delivery(place, program);
}

TEST_P(DeskServe, BadRequestsHaveOneClearAnswer) {
  const serving desk(*this, with_tokens);
  const std::string put_it = "PUT /v1/kinds/close/checks/a";
  struct wrong {
    std::string line;
    std::string body;
    int status;
    const char* says;
  };
  const std::vector<wrong> all = {
      {put_it, "delay", 400, "no JSON object"},
      {put_it, std::string(100'000, '['), 400, "no JSON object"},
      {put_it, R"({"delay":5})", 400, "delay"},
      {put_it, R"({"dealy":"5s"})", 400, "dealy"},
      {put_it, R"({"delay":"5"})", 400, "the unit is missing"},
      {put_it, R"({"delay":"5s","due":"now"})", 400, "not both"},
      {put_it, R"({"due":"2026-02-31T00:00:00Z"})", 400, "is no time"},
      {put_it, R"({"payload_base64":"A==="})", 400, "no base64"},
      {put_it, R"({"payload_base64":"AP96","payload":""})", 400, "not both"},
      {put_it + "?replace=maybe", "{}", 400, "replace"},
      {put_it + "?overwrite", "{}", 400, "overwrite"},
      {put_it + "?replace=true&replace=false", "{}", 400, "there twice"},
      {"POST /v1/kinds/%00/pause", "", 400, "zero byte"},
      {"PUT /v1/kinds/close/checks/%zz", "{}", 400, "hexadecimal"},
      {"PUT /v1/kinds/close/checks/" + std::string(300, 'a'), "{}", 400, "300"},
      {"PUT /v1/kinds/%ff/checks/a", "{}", 400, "UTF-8"},
      {put_it + "/reschedule", "{}", 405, "allowed are POST"},
      {"POST /v1/kinds/close/checks/a/reschedule", "{}", 400, "give delay"},
      {put_it, std::string(3'000'000, 'a'), 413, "2 MiB"},
      {"GET /v1/status", "{}", 400, "has no body"},
      {"GET /v1/checks?limit=0", "", 400, "limit"},
      {"GET /v1/checks?state=late", "", 400, "state: 'late' is none of"},
      {"GET /v1/checks?due_before=yesterday", "", 400, "due_before: 'yesterday' is no time"},
      {"GET /v1/checks?cursor=7", "", 400, "cursor: '7' is no cursor"},
      {"GET /v1/dead?cursor=7.8", "", 400, "cursor: '7.8' is no cursor"},
      {"GET /v2/status", "", 404, "/v2/status"},
      {"POST /", "", 405, "allowed are GET"},
      {"GET /" + std::string(1'000'000, 'a'), "", 431, "16 KiB"},
      {"GET /v1/status HTTP/1.1\r\nX: " + std::string(1'000'000, 'a'), "", 431, "16 KiB"},
      {"GET\x01 /v1/status", "", 400, "no request of HTTP"},
  };
  for (const wrong& each : all) {
    const http_reply reply = desk.ask(each.line, each.body);
    EXPECT_EQ(reply.status, each.status) << each.line.substr(0, 80) << " " << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(each.says)) << each.line.substr(0, 80);
  }
  EXPECT_EQ(store.count({}, 10), 0U);
}

#ifdef TIMING_WHEEL_TEST_POSTGRES
// More clients ask than the server has threads, each of which waits for the database for seconds.
TEST_P(DeskServeOnce, AStoreThatGoesAwayIsAProblemUntilItIsBack) {
  const serving desk(*this, with_tokens);
  const std::string to_gone = "ALTER SCHEMA " + schema + " RENAME TO " + schema + "_gone";
  const std::string and_back = "ALTER SCHEMA " + schema + "_gone RENAME TO " + schema;
  const client watcher(desk.port);
  watcher.send("GET /v1/events HTTP/1.1\r\n" + desk.host() + bearer + "\r\n");
  for (const bool stops : {false, true}) {
    put(store, "a", 1h);
    EXPECT_THAT(watcher.read(R"("pending":1)"), HasSubstr(R"("kind":"close")"));
    stops ? server().stop() : server().execute(to_gone);
    std::vector<std::thread> clients;
    std::atomic<int> problems = 0;
    for (const char* line :
         {"GET /v1/status", "GET /metrics", "PUT /v1/kinds/close/checks/b", "DELETE /v1/kinds/close/checks/a"}) {
      for (int times = 0; times < 8; ++times) {
        clients.emplace_back([&, line] {
          const http_reply reply = desk.ask(line, *line == 'P' ? "{}" : "");
          problems += reply.status == 503 && reply.read()["status"] == 503 ? 1 : 0;
        });
      }
    }
    EXPECT_THAT(watcher.read(R"("status":503)"), HasSubstr("data: "));
    for (std::thread& each : clients) {
      each.join();
    }
    EXPECT_EQ(problems, 32);
    EXPECT_EQ(desk.ask("GET /").status, 200) << "the page is the program's own";
    stops ? server().start() : server().execute(and_back);
    EXPECT_THAT(watcher.read(R"("pending":1)"), HasSubstr(R"("kind":"close")"));
    EXPECT_EQ(desk.ask("DELETE /v1/kinds/close/checks/a").read()["result"], "cancelled");
    EXPECT_EQ(store.count({}, 10), 0U);
  }
}
#endif

// A reader of a file waits for no lock.
TEST_P(DeskServe, AStoreThatIsLockedIsAProblemUntilTheLockIsGone) {
  put(store, "a", 1h);
  ::setenv("PGOPTIONS", "-c lock_timeout=500", 1);  // for reads, which wait for ten seconds otherwise
  const serving desk(*this, with_tokens);
  ::unsetenv("PGOPTIONS");
  const std::string put_it = "PUT /v1/kinds/close/checks/b";
  const std::string get_it = "GET /v1/kinds/close/checks/a";
  const auto expect_problem = [&](const http_reply& reply) {
    EXPECT_EQ(reply.status, 503) << reply.body;
    EXPECT_THAT(reply.head, HasSubstr("application/problem+json"));
    EXPECT_EQ(reply.read()["status"], 503);
    EXPECT_THAT(reply.body, HasSubstr(on_server() ? "A table is locked: process " : "database is locked"));
  };
  store.transact([&](store_transaction& open) {
    ASSERT_THAT(open.list({.limit = 1}), SizeIs(1));
#ifdef TIMING_WHEEL_TEST_POSTGRES
    if (on_server()) {
      ask(open, "LOCK TABLE " + schema + ".check");
      expect_problem(desk.ask(get_it));
    }
#endif
    if (!on_server()) {
      EXPECT_EQ(desk.ask(get_it).status, 200);
    }
    expect_problem(desk.ask(put_it, "{}"));
  });
  EXPECT_EQ(desk.ask(get_it).status, 200);
  EXPECT_EQ(desk.ask(put_it, "{}").status, 201) << "the first one has changed nothing";
  EXPECT_EQ(store.count({}, 10), 2U);
  EXPECT_EQ(audited(), 1U);
}

#ifdef TIMING_WHEEL_TEST_SQLITE
// First without the files beside it, and then with them.
TEST_P(DeskServeOnFile, AFileThatIsMovedAwayIsAProblemUntilItIsBack) {
  put(store, "a", 1h);
  const serving desk(*this, with_tokens);
  const std::string put_it = "PUT /v1/kinds/close/checks/b";
  const std::string get_it = "GET /v1/kinds/close/checks/a";
  for (const words& ends : {words{""}, {"", "-wal", "-shm"}}) {
    EXPECT_EQ(desk.ask(get_it).status, 200);
    for (const std::string& end : ends) {
      std::filesystem::rename(folder.file() + end, folder.file("away") + end);
    }
    for (const http_reply& reply : {desk.ask(put_it, "{}"), desk.ask(get_it)}) {
      EXPECT_EQ(reply.status, 503) << reply.body;
      EXPECT_THAT(reply.head, HasSubstr("application/problem+json"));
      EXPECT_THAT(reply.body, HasSubstr("was deleted, renamed or replaced while it was open"));
    }
    EXPECT_FALSE(std::filesystem::exists(folder.file())) << "it makes no file";
    for (const std::string& end : ends) {
      std::filesystem::rename(folder.file("away") + end, folder.file() + end);
    }
  }
  EXPECT_EQ(desk.ask(get_it).status, 200);
  EXPECT_EQ(desk.ask(put_it, "{}").status, 201) << "the earlier ones have changed nothing";
  EXPECT_EQ(store.count({}, 10), 2U);
}
#endif

// The ends of connections that the server has open, on its port of the IPv4 loopback.
std::size_t open_connections(int port) {
  std::ostringstream end;
  end << ':' << std::hex << std::uppercase << std::setw(4) << std::setfill('0') << port;
  std::ifstream table("/proc/net/tcp");
  std::size_t found = 0;
  std::string number;
  std::string local;
  std::string remote;
  std::string state;
  for (std::string line; std::getline(table, line);) {
    std::istringstream(line) >> number >> local >> remote >> state;
    found += local.ends_with(end.str()) && state == "01" ? 1U : 0U;
  }
  return found;
}

// The system keeps less for a connection than the answers that they ask for, so the server waits for them: more of them
// than there are threads.
TEST_P(DeskServeOnce, ClientsThatReadNoAnswerAreClosedAndOthersAreServed) {
  put(store, asked("big", 1h, std::string(1'000'000, 'x')));
  const serving desk(*this, {"--token-file", folder.file("tokens"), "--time-limit", "0.5"});
  constexpr std::size_t asks = 20;
  std::string all;
  for (std::size_t number = 0; number < asks; ++number) {
    all.append("GET /v1/kinds/close/checks/big HTTP/1.1\r\n").append(desk.host()).append(bearer).append("\r\n");
  }
  std::vector<std::unique_ptr<client>> deaf;
  for (std::size_t number = 0; number < 8; ++number) {
    deaf.push_back(std::make_unique<client>(desk.port, true));
    deaf.back()->send(all);
  }
  EXPECT_EQ(desk.ask("GET /v1/audit").status, 200);
  EXPECT_TRUE(wait_until([&] { return open_connections(desk.port) == 0; }, 30s)) << "its limit is half a second";
  for (const auto& each : deaf) {
    EXPECT_LT(each->read().size(), asks * 1'000'000) << "the server has not waited longer";
  }
}

// As many open files as the system lets a program have.
void allow_many_files() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// More than may be connected at a time; all of them are closed, and the next one is served.
TEST_P(DeskServe, ARequestThatDoesNotEndInTimeIsAnsweredWith408) {
  const serving desk(*this, {"--token-file", folder.file("tokens"), "--time-limit", "0.1"});
  allow_many_files();
  std::vector<std::unique_ptr<client>> slow;
  const std::string head = "PUT /v1/kinds/close/checks/a HTTP/1.1\r\n" + desk.host() + bearer;
  const std::string begun[] = {head + "Content-Length: 100\r\n\r\n{",
                               head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"};
  for (std::size_t number = 0; number < 300; ++number) {
    slow.push_back(std::make_unique<client>(desk.port));
    slow.back()->send(begun[number % std::size(begun)]);
  }
  EXPECT_EQ(desk.ask("GET /v1/status").status, 200);
  for (const auto& each : slow) {
    EXPECT_THAT(each->read(), testing::StartsWith("HTTP/1.1 408"));
  }
  slow.clear();
  for (std::size_t number = 0; number < 100; ++number) {  // the limit comes between two steps of some of them
    slow.push_back(std::make_unique<client>(desk.port));
    slow.back()->send("GET /v1/st");
  }
  for (const auto end = std::chrono::steady_clock::now() + 150ms; std::chrono::steady_clock::now() < end;) {
    for (const auto& each : slow) {
      each->send("a");
    }
  }
  for (const auto& each : slow) {
    EXPECT_THAT(each->read(), testing::StartsWith("HTTP/1.1 408"));
  }
  EXPECT_EQ(client(desk.port).read(), "") << "there was no request";
  EXPECT_EQ(store.count({}, 10), 0U);
}

TEST_P(DeskServeOnce, AClientThatSendsOnAndOnIsClosed) {
  const serving desk(*this, {"--token-file", folder.file("tokens"), "--time-limit", "0.1"});
  const std::string chunks =
      "PUT /v1/kinds/close/checks/a HTTP/1.1\r\n" + desk.host() + bearer + "Transfer-Encoding: chunked\r\n\r\n";
  for (const auto& [begin, on] : {std::pair(std::string("no HTTP\r\n\r\n"), std::string(4096, 'x')),
                                  {chunks, "1;" + std::string(8000, 'e') + "\r\nx\r\n"}}) {
    const client floods(desk.port);
    const auto end = std::chrono::steady_clock::now() + 20s;
    for (bool is_open = floods.send(begin); is_open; is_open = floods.send(on)) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << begin;
    }
  }
}

TEST_P(DeskServeOnce, TheTimeOfARequestBeginsWithItsFirstByte) {
  const serving desk(*this, {"--token-file", folder.file("tokens"), "--time-limit", "2"});
  const client slow(desk.port);
  for (const std::string& part : {std::string("GET /v1/status HTTP/1.1\r\n"), desk.host() + bearer + "\r\n"}) {
    std::this_thread::sleep_for(1200ms);
    slow.send(part);
  }
  EXPECT_THAT(slow.read("\r\n\r\n"), testing::StartsWith("HTTP/1.1 200"));
}

// Otherwise the body would be the next request.
TEST_P(DeskServeOnce, ARequestWhoseEndIsNotKnownIsTheLastOne) {
  const serving desk(*this, with_tokens);
  for (const char* coding : {"gzip", "gzip, chunked"}) {
    const client one(desk.port);
    const std::string fields = desk.host() + bearer;
    one.send("PUT /v1/kinds/close/checks/a HTTP/1.1\r\n" + fields + "Transfer-Encoding: " + coding + "\r\n\r\n");
    one.send("GET /v1/status HTTP/1.1\r\n" + fields + "\r\n");
    const std::string all = one.read();
    EXPECT_THAT(all, testing::StartsWith("HTTP/1.1 501"));
    EXPECT_EQ(all.find("\r\nContent-Length: "), all.rfind("\r\nContent-Length: ")) << all;
  }
}

TEST_P(DeskServeOnce, NoMoreClientsWatchThanThereMayBe) {
  const serving desk(*this, with_tokens);
  std::vector<std::unique_ptr<client>> all;
  for (std::size_t number = 0; number < 60; ++number) {
    all.push_back(std::make_unique<client>(desk.port));
    all.back()->send("GET /v1/events HTTP/1.1\r\n" + desk.host() + bearer + "\r\n");
  }
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& each) { return each->read("\r\n\r\n").starts_with("HTTP/1.1 200"); }),
            32);
}

#ifdef TIMING_WHEEL_TEST_SQLITE
// As many changes as could take all threads wait for a lock.
TEST_P(DeskServeOnFile, LooksDoNotWaitForChangesAndAChangeUnderWayIsAnsweredBeforeTheEnd) {
  serving desk(*this, with_tokens);
  const std::string put = " HTTP/1.1\r\n" + desk.host() + bearer + "Content-Length: 2\r\n\r\n{}";
  const users_database lock(folder.file());
  ASSERT_EQ(lock.run("BEGIN IMMEDIATE"), SQLITE_OK);
  std::vector<std::unique_ptr<client>> all;
  for (int number = 0; number < 6; ++number) {
    all.push_back(std::make_unique<client>(desk.port));
    all.back()->send("PUT /v1/kinds/close/checks/" + std::to_string(number) + put);
  }
  EXPECT_EQ(desk.ask("GET /").status, 200);
  EXPECT_EQ(desk.ask("GET /v1/status").status, 200);
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const auto& each) { return each->has_answer(); }));
  desk.stop();
  EXPECT_EQ(lock.run("COMMIT"), SQLITE_OK);
  for (const auto& each : all) {
    EXPECT_THAT(each->read(), testing::StartsWith("HTTP/1.1 201"));
  }
  EXPECT_EQ(store.count({}, 10), 6U);
}
#endif

// The server has no other reason to close them before the test ends.
TEST_P(DeskServe, AThousandClientsThatSendNothingGiveWayToOneThatAsks) {
  const serving desk(*this, {"--token-file", folder.file("tokens"), "--time-limit", "3600"});
  allow_many_files();
  std::vector<std::unique_ptr<client>> silent;
  for (std::size_t number = 0; number < 1000; ++number) {
    silent.push_back(std::make_unique<client>(desk.port));
    silent.back()->send(number % 2 == 0 ? "" : "GET /v1/st");
  }
  EXPECT_EQ(desk.ask("GET /v1/status").status, 200);
  EXPECT_EQ(silent.front()->read(), "") << "the first ones are closed";
  silent.back()->send("atus HTTP/1.1\r\nConnection: close\r\n" + desk.host() + bearer + "\r\n");
  EXPECT_THAT(silent.back()->read(), testing::StartsWith("HTTP/1.1 200")) << "and the last ones wait";
}

TEST_P(DeskServe, KeepsAConnectionForTheNextRequest) {
  const serving desk(*this, with_tokens);
  const client one(desk.port);
  const std::string next = "GET /v1/audit HTTP/1.1\r\n" + desk.host() + bearer;
  one.send("\r\n" + next + "\r\n\r\n" + next + "Connection: close\r\n\r\n");
  const std::string both = one.read();
  EXPECT_NE(both.find("HTTP/1.1 200"), both.rfind("HTTP/1.1 200")) << both;
}

TEST_P(DeskServe, ListensElsewhereOnlyWithTokens) {
  std::ofstream(folder.file("short")) << "nightly secret\n";
  std::ofstream(folder.file("none")) << "# nobody\n";
  std::ofstream(folder.file("tomorrow")) << "\nnightly 0123456789abcdef tomorrow\n";
  std::ofstream(folder.file("no day")) << "nightly 0123456789abcdef 2026-02-31T00:00:00Z\n";
  const std::vector<std::pair<words, const char*>> all = {
      {{"--listen", "0.0.0.0:0"}, "needs --token-file"},
      {{"--listen", "[::]:0"}, "needs --token-file"},
      {{"--host", "desk.example"}, "needs --token-file"},
      {{"--listen", "8080"}, "is no address and port"},
      {{"--listen", "127.0.0.1:70000"}, "is no address and port"},
      {{"--token-file", folder.file("short")}, "line 1 is no name and token"},
      {{"--token-file", folder.file("none")}, "there is no token"},
      {{"--token-file", folder.file("tomorrow")}, "line 2 is no name and token"},
      {{"--token-file", folder.file("no day")}, "line 1: '2026-02-31T00:00:00Z' is no time"},
      {{"--token-file", folder.file("missing")}, "--token-file: cannot read"},
  };
  for (const auto& [options, says] : all) {
    words typed = {"serve"};
    typed.insert(typed.end(), options.begin(), options.end());
    const ended done = run(typed);
    EXPECT_EQ(done.status, 2);
    EXPECT_THAT(done.err, HasSubstr(says));
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test
