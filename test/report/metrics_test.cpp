#include "timing_wheel/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <locale>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/prometheus_page.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string page_of(const timer_stats& figures, const metric_labels& labels = {}) {
  std::ostringstream out;
  write_prometheus(out, figures, labels);
  return out.str();
}

// Of a service that has done something of each kind.
timer_stats some_figures() {
  manual_timer timer(
      {.max_pending = 3, .on_error = [](const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) {}});
  timer.schedule_after(1ms, [] { throw 1; });
  timer.schedule_after(1h, [] {}).cancel();
  timer.schedule_every(1s, [] {});
  timer.schedule_after(10min, [] {});
  timer.advance_by(2s);
  std::error_code refused;
  for (int i = 0; i < 3; ++i) {
    timer.schedule_after(
        1h, [] {}, {}, refused);
  }
  return timer.stats();
}

std::string words_of_refusal(const metric_labels& labels) {
  try {
    page_of({}, labels);
  } catch (const timer_error& error) {
    EXPECT_EQ(error.code(), timer_errc::invalid_option);
    return error.what();
  }
  return {};
}

TEST(Metrics, GiveEachFigure) {
  const std::vector<std::pair<std::string, std::uint64_t timer_stats::*>> rows{
      {"timers_scheduled_total", &timer_stats::scheduled},
      {"timers_fired_total", &timer_stats::fired},
      {"timers_cancelled_total", &timer_stats::cancelled},
      {"timers_returned_total", &timer_stats::returned},
      {"timers_pending", &timer_stats::pending},
      {"timers_rearmed_total", &timer_stats::rearmed},
      {"timers_due", &timer_stats::due},
      {"timers_running", &timer_stats::running},
      {"timers_rejected_total", &timer_stats::rejected},
      {"executor_refusals_total", &timer_stats::refused},
      {"callbacks_early_total", &timer_stats::early},
      {"callbacks_failed_total", &timer_stats::failed},
      {"largest_hold_timers", &timer_stats::largest_hold},
      {"wakeups_total", &timer_stats::wakeups},
      {"wakeups_empty_total", &timer_stats::empty_wakeups},
      {"wakeups_earlier_total", &timer_stats::earlier_wakeups},
      {"cascade_moves_total", &timer_stats::moves},
      {"round_looks_total", &timer_stats::looks},
      {"window_moves_saved_total", &timer_stats::moves_saved},
      {"window_wakeups_shared_total", &timer_stats::wakeups_shared},
  };
  timer_stats figures;
  figures.bytes = 1'000;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    figures.*rows[i].second = i + 1;
  }
  auto samples = samples_of(page_of(figures));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(samples["timing_wheel_" + rows[i].first], std::to_string(i + 1)) << rows[i].first;
  }
  EXPECT_EQ(samples["timing_wheel_memory_bytes"], "1000");
}

TEST(Metrics, GiveEachLevel) {
  timer_stats figures;
  figures.levels.resize(2);
  figures.levels[1].moves = 1;
  figures.levels[1].flushes = 2;
  figures.levels[1].largest_flush = 3;
  figures.levels[1].buckets_queued = 4;
  auto samples = samples_of(page_of(figures, {{"service", "a"}}));
  EXPECT_EQ(samples[R"(timing_wheel_level_moves_total{service="a",level="0"})"], "0");
  EXPECT_EQ(samples[R"(timing_wheel_level_moves_total{service="a",level="1"})"], "1");
  EXPECT_EQ(samples[R"(timing_wheel_level_flushes_total{service="a",level="1"})"], "2");
  EXPECT_EQ(samples[R"(timing_wheel_level_largest_flush_timers{service="a",level="1"})"], "3");
  EXPECT_EQ(samples[R"(timing_wheel_level_buckets_queued_total{service="a",level="1"})"], "4");
}

TEST(Metrics, GiveTheLatenessAsAHistogram) {
  timer_stats figures;
  for (const auto late : {0ns, 900ns, 30'000ns, 1'500'000ns, 200'000'000'000ns}) {
    figures.lateness.record(late);
  }
  auto samples = samples_of(page_of(figures));
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="1e-06"})"], "2");
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="2.5e-05"})"], "2");
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="5e-05"})"], "3");
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="0.001"})"], "3");
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="0.0025"})"], "4");
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="100"})"], "4");
  EXPECT_EQ(samples[R"(timing_wheel_lateness_seconds_bucket{le="+Inf"})"], "5");
  EXPECT_EQ(samples["timing_wheel_lateness_seconds_count"], "5");
  EXPECT_NEAR(std::stod(samples["timing_wheel_lateness_seconds_sum"]), 200.0015309, 200.0 / 32);
}

TEST(Metrics, OfSeveralServicesStandTogether) {
  std::vector<labelled<timer_stats>> services = {{{{"service", "a"}}, some_figures()},
                                                 {{{"service", "b"}}, some_figures()}};
  services[1].stats.fired = 77;
  std::ostringstream out;
  write_prometheus(out, services);
  auto samples = samples_of(out.str());
  EXPECT_EQ(samples.size() % 2, 0U);
  EXPECT_EQ(samples[R"(timing_wheel_timers_fired_total{service="a"})"], "3");
  EXPECT_EQ(samples[R"(timing_wheel_timers_fired_total{service="b"})"], "77");
  const std::string type = "# TYPE timing_wheel_timers_fired_total counter";
  EXPECT_EQ(out.str().find(type), out.str().rfind(type));
}

TEST(Metrics, EscapeTheValuesOfLabels) {
  EXPECT_THAT(page_of({}, {{"path", "C:\\a \"b\"\nc"}}),
              HasSubstr(R"(timing_wheel_timers_due{path="C:\\a \"b\"\nc"} 0)"));
}

TEST(Metrics, RefuseLabelsThatCannotBe) {
  for (const char* name : {"", "1a", "a-b", "__a", "ä", "le", "level", "kind"}) {
    EXPECT_THAT(words_of_refusal({{name, "x"}}), HasSubstr("label \"" + std::string(name) + "\"")) << name;
  }
  EXPECT_THAT(words_of_refusal({{"a", "x"}, {"b", "y"}, {"a", "z"}}), HasSubstr("twice"));
  for (const char* value : {"\x80", "a\xC3", "\xC3(", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                            "\xF8\x88\x80\x80\x80", "\xFF"}) {
    EXPECT_THAT(words_of_refusal({{"a", value}}), HasSubstr("label \"a\" has a value that is not UTF-8"));
  }
  for (const char* value :
       {"", "\x7F", "\xC2\x80", "\xE2\x82\xAC", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_THAT(words_of_refusal({{"_a1", "x"}, {"B", value}}), IsEmpty());
  }
}

TEST(Metrics, RefusedWriteNothing) {
  std::ostringstream out;
  const std::vector<labelled<timer_stats>> services = {{{{"a", ""}}, {}}, {{{"-", ""}}, {}}};
  EXPECT_THROW(write_prometheus(out, services), timer_error);
  EXPECT_THAT(out.str(), IsEmpty());
}

struct grouping : std::numpunct<char> {
  [[nodiscard]] char do_thousands_sep() const override { return '.'; }
  [[nodiscard]] char do_decimal_point() const override { return ','; }
  [[nodiscard]] std::string do_grouping() const override { return "\3"; }
};

TEST(Metrics, DoNotDependOnTheStream) {
  timer_stats figures = some_figures();
  figures.scheduled = 1'234'567;
  std::ostringstream out;
  out.imbue(std::locale(std::locale::classic(), new grouping));  // NOLINT: the locale owns it
  out << std::hex << std::showpos;
  out.width(40);
  write_prometheus(out, figures);
  EXPECT_EQ(out.str(), page_of(figures));
  EXPECT_THAT(out.str(), HasSubstr("timing_wheel_timers_scheduled_total 1234567\n"));
}

TEST(Metrics, AreWhatPromtoolTakes) {
  if (!has_promtool()) {
    GTEST_SKIP() << "there is no promtool: install Debian's package prometheus";
  }
  EXPECT_THAT(promtool_says(page_of(some_figures())), IsEmpty());
  EXPECT_THAT(promtool_says(page_of(some_figures(), {{"a", "\\ \" \n ä"}})), IsEmpty());
  EXPECT_THAT(promtool_says("# HELP a b\n# TYPE a counter\na 1\n"), Not(IsEmpty())) << "it looks";
}

TEST(TimerStats, ArePrintedForPeople) {
  timer_stats figures;
  figures.scheduled = 1'234'567;
  figures.fired = 1'000;
  figures.pending = 999;
  figures.bytes = 3 << 20;
  figures.lateness.record(1500us);
  figures.levels.resize(1);
  figures.levels[0] = {.tick_length = 1, .wheel_size = 512, .flushes = 7, .largest_flush = 12'345};
  std::ostringstream out;
  out << figures;
  EXPECT_EQ(out.str(),
            "timers    1 234 567 scheduled = 1 000 fired + 0 cancelled + 0 returned + 999 pending\n"
            "now       0 due, 0 running\n"
            "refused   0, 0 times by the executor\n"
            "wrong     0 threw, 0 early\n"
            "lateness  median 1.50 ms, p99 1.50 ms, longest 1.50 ms\n"
            "wake-ups  0, 0 in vain, 0 for an earlier timer\n"
            "windows   0 moves saved, 0 wake-ups shared\n"
            "memory    3.00 MiB\n"
            "locks     at most 0 timers under one\n"
            "wheel 0   512 slots of 1 tick, 0 moved down, 7 buckets flushed, largest 12 345\n");
}

}  // namespace
}  // namespace timing_wheel::test
