// Every duration that a scheduler is given, at its largest, its smallest, and beside them.

#include <optional>
#include <tuple>

#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::HasSubstr;

struct settings {
  scheduler_options node;
  handler_options handler;  // of what fails
};

struct duration_option {
  const char* name;
  milliseconds least;
  milliseconds most;
  void (*set)(settings&, milliseconds);
};

constexpr milliseconds longest = std::chrono::days(30);

const duration_option all_options[] = {
    {"look_ahead", 1ms, longest, [](settings& all, milliseconds value) { all.node.look_ahead = value; }},
    {"poll", 1ms, longest, [](settings& all, milliseconds value) { all.node.poll = value; }},
    {"sweep", 1ms, longest, [](settings& all, milliseconds value) { all.node.sweep = value; }},
    {"lease", 10ms, longest, [](settings& all, milliseconds value) { all.node.lease = value; }},
    {"tick", 1ms, 5s, [](settings& all, milliseconds value) { all.node.tick = value; }},
    {"transaction_time", 0ms, milliseconds::max(),
     [](settings& all, milliseconds value) { all.node.transaction_time = value; }},
    {"time_limit", 1ms, milliseconds::max(), [](settings& all, milliseconds value) { all.handler.time_limit = value; }},
    {"backoff.most", 0ms, milliseconds::max(),
     [](settings& all, milliseconds value) {
       all.handler.backoff = {.first = std::clamp<milliseconds>(1s, 0ms, std::max(value, 0ms)), .most = value};
     }},
    {"backoff.first", 0ms, milliseconds::max(),
     [](settings& all, milliseconds value) { all.handler.backoff = {.first = value, .most = milliseconds::max()}; }},
};

milliseconds value_of(const duration_option& option, const std::string& which) {
  return which == "Min"          ? milliseconds::min()
         : which == "Negative"   ? -1ms
         : which == "Zero"       ? 0ms
         : which == "One"        ? 1ms
         : which == "BelowLeast" ? option.least - 1ms
         : which == "Least"      ? option.least
         : which == "Most"       ? option.most
         : which == "AlmostMax"  ? milliseconds::max() - 1ms
                                 : milliseconds::max();
}

class DurationOption  // NOLINT(readability-identifier-naming): a suite
    : public testing::TestWithParam<std::tuple<duration_option, std::string>> {
 public:
  void expect_refusal() {
    const test::caught refused = test::error_of([this] { make(); });
    const auto ms = [](milliseconds time) { return std::to_string(time.count()) + " ms"; };
    EXPECT_EQ(refused.code, timer_errc::invalid_option);
    EXPECT_THAT(refused.words, HasSubstr(std::string(option.name) + " is " + ms(value) + "; it must be in [" +
                                         ms(option.least) + ", " + ms(option.most) + "]"));
  }
  void make() {
    checks.emplace(store, timer, all.node);
    checks->on("steady", [this](const job&) { ++steady; });
    checks->on("together", [this](transaction&, const job&) { ++together; });
    checks->on(
        "failing",
        [this](const job&) {
          ++failing;
          throw std::runtime_error("no");
        },
        all.handler);
  }

  const duration_option option = std::get<0>(GetParam());
  const milliseconds value = value_of(option, std::get<1>(GetParam()));
  settings all{.node = {.on_failure = [](const failure&) {}}, .handler = {}};
  manual_timer timer;
  memory_store store{timer};
  std::optional<scheduler> checks;
  int steady = 0;
  int together = 0;
  int failing = 0;
};

INSTANTIATE_TEST_SUITE_P(Each, DurationOption,
                         testing::Combine(testing::ValuesIn(all_options),
                                          testing::Values("Min", "Negative", "Zero", "One", "BelowLeast", "Least",
                                                          "Most", "AlmostMax", "Max")),
                         [](const auto& of) {
                           std::string name = std::get<0>(of.param).name + std::get<1>(of.param);
                           std::erase_if(name, [](char each) { return each == '.' || each == '_'; });
                           return name;
                         });

TEST_P(DurationOption, IsRefusedWithItsRangeOrWorks) {
  option.set(all, value);
  if (value < option.least || value > option.most) {
    expect_refusal();
    return;
  }
  make();
  checks->start();
  for (const char* kind : {"steady", "together", "failing"}) {
    checks->schedule({.kind = kind, .key = "a", .payload = {}, .due = 1s});
  }
  timer.advance_by(all.node.poll + all.node.tick + 2s);
  EXPECT_EQ(steady, 1);
  EXPECT_EQ(together, 1);
  if (std::string_view(option.name).starts_with("backoff")) {
    EXPECT_GE(failing, value >= 1s ? 1 : 10);
    EXPECT_LE(failing, value >= 1s ? 2 : 20);
  }
  EXPECT_LT(store.counts().statements, 20'000U);
  checks->stop();
  EXPECT_EQ(timer.pending(), 0U);
}

class EndsOfTime : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  manual_timer timer;
  memory_store store{timer};
  scheduler checks{store, timer};
};

TEST_F(EndsOfTime, AreDeadlines) {
  int ran = 0;
  checks.on("note", [&](const job&) { ++ran; });
  checks.start();
  const auto schedule = [this](std::string key, due_time due) {
    return checks.schedule({.kind = "note", .key = std::move(key), .payload = {}, .due = due}).due;
  };
  EXPECT_EQ(schedule("min", instant::min()), instant::min());
  EXPECT_EQ(schedule("max", instant::max()), instant::max());
  EXPECT_EQ(schedule("delay min", milliseconds::min()), instant());
  EXPECT_GT(schedule("delay max", milliseconds::max()), instant(std::chrono::years(290)));
  EXPECT_EQ(checks.reschedule("note", "max", instant::max() - 1us), reschedule_result::moved);
  timer.advance_by(1min);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(checks.stats().early, 0U);
  EXPECT_GT(checks.stats().lateness.max(), std::chrono::years(1));
}

TEST_F(EndsOfTime, AreDelaysOfARetry) {
  int ran = 0;
  checks.on("soon", [&](const job&) { return ++ran < 3 ? retry_after(milliseconds::min()) : done; });
  checks.on("never", [](const job&) { return retry_after(milliseconds::max()); });
  checks.start();
  for (const char* kind : {"soon", "never"}) {
    checks.schedule({.kind = kind, .key = "a", .payload = {}, .due = 1s});
  }
  timer.advance_by(1min);
  EXPECT_EQ(ran, 3);
  EXPECT_EQ(checks.find("never", "a")->attempt, 1);
  EXPECT_GT(checks.find("never", "a")->due, instant(std::chrono::years(290)));
}

}  // namespace
}  // namespace timing_wheel::durable
