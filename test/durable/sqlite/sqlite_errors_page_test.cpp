// What docs/errors.md says of durable checks: each message that is expected here stands in that page to the letter.

#include <iterator>

#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable::test {
namespace {

const std::string& page() {
  static const std::string text = [] {
    std::ifstream file(TIMING_WHEEL_ERRORS_PAGE);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return text;
}

/// In a folder of its own, so that files have short names.
class DurableErrors : public SqliteCase {
 public:
  DurableErrors() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder.path()); }
  ~DurableErrors() override { std::filesystem::current_path(before_); }

  /// `action` is refused so, which the page shows.
  template <class Action>
  void expect(std::error_code code, const std::string& message, const Action& action) {
    const caught found = error_of(action);
    EXPECT_EQ(found.code, code);
    // SQLite makes names of files complete.
    if (const std::string whole = folder.path().string() + "/"; found.words.find(whole) != std::string::npos) {
      std::string shorter = found.words;
      shorter.erase(shorter.find(whole), whole.size());
      EXPECT_EQ(shorter, message);
    } else {
      EXPECT_EQ(found.words, message);
    }
    EXPECT_THAT(page(), HasSubstr('`' + message + '`'));
  }

  manual_timer timer;
  scheduler checks{store, timer};

 private:
  std::filesystem::path before_;
};

TEST_F(DurableErrors, OfRequests) {
  const auto scheduling = [this](const request& what) { return [this, what] { checks.schedule(what); }; };
  expect(errc::invalid_request, "kind is empty: the request cannot be kept", scheduling({.kind = "", .key = "k"}));
  expect(errc::invalid_request, "key is empty: the request cannot be kept", scheduling({.kind = "k", .key = ""}));
  expect(errc::invalid_request, "kind has a zero byte: the request cannot be kept",
         scheduling({.kind = std::string("a\0b", 3), .key = "k"}));
  expect(errc::invalid_request, R"(kind "\xff" is not UTF-8: the request cannot be kept)",
         scheduling({.kind = "\xff", .key = "k"}));
  expect(errc::kind_too_long, "kind has 64 bytes; at most 63 are allowed: the kind is too long",
         scheduling({.kind = std::string(64, 'k'), .key = "k"}));
  expect(errc::key_too_long, "key has 256 bytes; at most 255 are allowed: the key is too long",
         scheduling(asked(std::string(256, 'k'))));
  expect(errc::payload_too_long, "payload has 1048577 bytes; at most 1048576 are allowed: the payload is too long",
         scheduling(asked("k", {}, std::string((1U << 20U) + 1, 'p'))));
}

TEST_F(DurableErrors, OfHandlersAndOptions) {
  expect(timer_errc::empty_callback, "kind verify: the callback is empty",
         [this] { checks.on("verify", leased_handler()); });
  checks.on("verify", [](const job& /*what*/) {});
  expect(errc::handler_exists, "kind verify: there is a handler for that kind already",
         [this] { checks.on("verify", [](const job& /*what*/) {}); });
  expect(timer_errc::invalid_option,
         "handler_options: max_running and max_attempts must be at least 1: an option is out of its range",
         [this] { checks.on("other", [](const job& /*what*/) {}, {.max_attempts = 0}); });
  expect(timer_errc::invalid_option, "scheduler_options::batch must be in [1, 1000]: an option is out of its range",
         [this] { const scheduler wrong(store, timer, {.batch = 0}); });
  expect(timer_errc::invalid_option,
         "scheduler_options::poll is 0 ms; it must be in [1 ms, 2592000000 ms]: an option is out of its range",
         [this] { const scheduler wrong(store, timer, {.poll = 0ms}); });
  checks.start();
  expect(errc::already_started, "start: the scheduler was started already", [this] { checks.start(); });
  expect(errc::already_started, "kind verify: the scheduler was started already",
         [this] { checks.on("verify", [](const job& /*what*/) {}); });
  checks.stop();
  expect(timer_errc::stopped, "the timer service is stopped", [this] { checks.schedule(asked("k")); });
  EXPECT_EQ(checks.cancel("close", "k"), cancel_result::finished);
}

TEST_F(DurableErrors, OfCallsInATransaction) {
  checks.on("verify", [&](transaction& /*open*/, const job& /*what*/) {
    expect(std::make_error_code(std::errc::resource_deadlock_would_occur),
           "a transactional handler called its scheduler; use its transaction: Resource deadlock avoided",
           [this] { checks.schedule(asked("k")); });
    static_cast<void>(checks.stats());
  });
  checks.start();
  checks.schedule({.kind = "verify", .key = "k", .due = instant(1us)});
  timer.advance_by(1s);
  EXPECT_EQ(checks.stats().done, 1U);
}

TEST_F(DurableErrors, OfTheDatabase) {
  expect(sqlite_code(SQLITE_CANTOPEN),
         "opening none/orders.db: unable to open database file: unable to open database file",
         [] { const sqlite_store none("none/orders.db"); });
  sqlite_store empty("orders.db");
  expect(errc::no_schema,
         "scheduling, orders.db: no such table: timing_wheel_check: the database has no tables of timing_wheel; call "
         "migrate()",
         [&] {
           const users_database user("orders.db");
           durable::schedule(user.get(), asked("k"));
         });
  empty.migrate();
  const users_database user("orders.db");
  user.run("UPDATE timing_wheel_schema SET version=3");
  expect(errc::newer_schema,
         "orders.db has tables of version 3; this library knows version 2: a newer version of the library has made the "
         "tables",
         [] { sqlite_store("orders.db").migrate(); });
}

TEST_F(DurableErrors, AreToldByACodeOnRequest) {
  std::error_code error = errc::no_schema;
  EXPECT_TRUE(checks.schedule(asked("k"), error).inserted);
  EXPECT_FALSE(error);
  EXPECT_FALSE(checks.schedule(asked(""), error).inserted);
  EXPECT_EQ(error, errc::invalid_request);
  std::filesystem::remove(folder.file());
  EXPECT_FALSE(checks.schedule(asked("l"), error).inserted);
  EXPECT_EQ(error, sqlite_code(SQLITE_READONLY_DBMOVED));
}

TEST_F(DurableErrors, OfTheBackgroundAreWrittenAsThePageSays) {
  const auto throws = [](const job& /*what*/) { throw std::runtime_error("no route"); };
  checks.on("verify", throws);
  checks.on("ship", throws, {.max_attempts = 1});
  checks.start();
  checks.schedule({.kind = "verify", .key = "order-17", .due = instant(1us)});
  checks.schedule({.kind = "ship", .key = "order-18", .due = instant(2us)});
  testing::internal::CaptureStderr();
  timer.advance_by(500ms);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string thrown =
      R"(timing_wheel: durable handler failed (kind verify, key "order-17", attempt 1): no route)"
      "; it runs again within 1 s";
  const std::string died = R"(timing_wheel: durable check is dead (kind ship, key "order-18", attempt 1): no route)";
  EXPECT_EQ(said, thrown + "\n" + died + "\n") << "what the second threw came less than a second after the first";
  EXPECT_THAT(page(), HasSubstr('`' + thrown + '`'));
  EXPECT_THAT(page(), HasSubstr('`' + died + '`'));
}

}  // namespace
}  // namespace timing_wheel::durable::test
