#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "compare/options.hpp"
#include "compare/output.hpp"
#include "compare/rules.hpp"
#include "compare/run.hpp"
#include "compare/tool.hpp"
#include "compare/workload.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"

namespace timing_wheel::compare {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "timing_wheel_compare");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string error_of(const std::vector<const char*>& arguments) {
  try {
    static_cast<void>(make_workload(parse(arguments).workload));
  } catch (const usage_error& error) {
    return error.what();
  }
  return "no error";
}

engine_result run_checked(const workload& plan, const std::string& engine, bool with_trace = false) {
  const engine_spec spec = parse_engine(engine);
  engine_result result = run_engine(plan, spec, with_trace);
  EXPECT_THAT(check(plan, spec, result), IsEmpty());
  return result;
}

workload plan_of(const std::vector<const char*>& arguments) { return make_workload(parse(arguments).workload); }

std::vector<tick> wakeups_of(const engine_result& result) {
  std::vector<tick> found;
  for (const traced_wakeup& one : result.traced->wakeups) {
    found.push_back(one.when);
  }
  return found;
}

/// With a trace, and with what the arguments say of the engine's timers.
engine_result run_checked(std::vector<const char*> arguments, const char* engine) {
  arguments.insert(arguments.end(), {"--engine", engine});
  const options parsed = parse(arguments);
  const workload plan = make_workload(parsed.workload);
  engine_result result = run_engine(plan, parsed.engines.front(), true);
  EXPECT_THAT(check(plan, parsed.engines.front(), result), IsEmpty());
  return result;
}

/// A file that goes away with the test.
class scratch_file {
 public:
  explicit scratch_file(const std::string& text = "") { std::ofstream(path_) << text; }
  ~scratch_file() { std::filesystem::remove(path_); }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] nlohmann::ordered_json json() const {
    std::ifstream in(path_);
    return nlohmann::ordered_json::parse(in);
  }

 private:
  std::string path_ =
      ::testing::TempDir() + "compare_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".tmp";
};

TEST(WorkedTrace, NamesEachMove) {
  const workload plan = plan_of({"--delays", "list:2,10,60,234,1000"});
  const engine_result result = run_checked(plan, "hierarchical:tick=1ms,size=20", true);
  std::ostringstream out;
  print_trace(out, result);
  EXPECT_THAT(out.str(), HasSubstr("  220: handles 1, moves 3 from level 2 to 1\n"));
  EXPECT_THAT(out.str(), HasSubstr("  800: handles 1, moves 4 from level 3 to 2\n"));
}

class DigitRule : public ::testing::TestWithParam<std::uint32_t> {};

// As the rule is told: by the digits of the due tick, for timers added while the clock is 0.
TEST_P(DigitRule, CountsNonZeroDigitsBelowTheTopOne) {
  const std::uint32_t size = GetParam();
  for (tick due = 1; due < 20'000'000; due += 1 + due / 300) {
    std::uint64_t digits = 0;
    for (tick rest = due; rest >= size; rest /= size) {
      digits += rest % size != 0 ? 1U : 0U;
    }
    ASSERT_EQ(moves_of({0, due, {}}, size).size(), digits) << due;
  }
}

// Each delay alone in an engine: the moves that the engine makes, and where, are those of the rule.
TEST_P(DigitRule, HoldsForWhatTheEngineDoes) {
  workload plan;
  for (std::int64_t delay = 1; delay < 3'000'000; delay += 1 + delay / 200) {
    plan.timers.push_back({0ms, 1ms * delay, nanoseconds::max()});
  }
  ASSERT_THAT(plan.timers, SizeIs(::testing::Gt(2000U)));
  run_checked(plan, "hierarchical:tick=1ms,size=" + std::to_string(GetParam()), true);
}

TEST_P(DigitRule, HoldsForTimersAddedWhileTheClockRuns) {
  workload_spec spec;
  spec.timers = 3000;
  spec.delays = parse_delays("uniform:1ms,20min");
  spec.arrivals = parse_arrivals("poisson:1.7");
  spec.cancel = parse_cancel("0.4");
  run_checked(make_workload(spec), "hierarchical:tick=1ms,size=" + std::to_string(GetParam()), true);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DigitRule, ::testing::Values(3U, 10U, 20U, 64U, 256U, 512U));

TEST(DigitRuleStory, StopsAtTheCancellation) {
  EXPECT_THAT(moves_of({0, 1111, {}}, 10),
              ElementsAre(move_step{1000, 3, 2}, move_step{1100, 2, 1}, move_step{1110, 1, 0}));
  EXPECT_THAT(moves_of({0, 1111, 1100}, 10), SizeIs(2));
  EXPECT_THAT(moves_of({0, 1111, 999}, 10), IsEmpty());
}

TEST(DigitRuleStory, StartsWhereTheClockIs) {
  EXPECT_THAT(moves_of({995, 1004, {}}, 10), IsEmpty()) << "9 ticks away: the lowest wheel";
  EXPECT_THAT(moves_of({995, 1005, {}}, 10), ElementsAre(move_step{1000, 1, 0}));
  EXPECT_THAT(moves_of({905, 1899, {}}, 10), ElementsAre(move_step{1800, 2, 1}, move_step{1890, 1, 0}))
      << "994 ticks away, within ten of the third wheel's";
  EXPECT_THAT(moves_of({5, 1004, {}}, 10), ElementsAre(move_step{1000, 3, 0}))
      << "999 ticks away, but ten of the third wheel's";
}

TEST(LooksRule, CountsOncePerRevolution) {
  EXPECT_EQ(looks_of({0, 130, {}}, 64), 3U);
  EXPECT_EQ(looks_of({0, 64, {}}, 64), 1U);
  EXPECT_EQ(looks_of({100, 229, {}}, 64), 3U);
  EXPECT_EQ(looks_of({0, 130, 66}, 64), 2U) << "the visit at 66 comes before the cancellation";
  EXPECT_EQ(looks_of({0, 130, 65}, 64), 1U);
  EXPECT_EQ(looks_of({0, 130, 1}, 64), 0U);
}

const std::vector<std::vector<const char*>> kinds_of_workload = {
    {"--timers", "500"},
    {"--timers", "800", "--delays", "uniform:1ms,2min", "--arrivals", "poisson:37"},
    {"--timers", "800", "--delays", "exponential:5s", "--arrivals", "even:10s", "--cancel", "0.5"},
    {"--timers", "800", "--delays", "bimodal:100ms,5min,0.5", "--arrivals", "poisson:555", "--cancel",
     "0.95,uniform:0s,1min"},
    {"--delays", "list:0,2,10,60.5,234,1000", "--timers", "600", "--arrivals", "even:3s", "--cancel", "1,30ms"},
};

TEST(Engines, FireTheSameTimersOnEveryKindOfWorkload) {
  for (const auto& arguments : kinds_of_workload) {
    const workload plan = plan_of(arguments);
    std::vector<engine_result> results;
    for (const char* engine :
         {"hierarchical:tick=1ms,size=20", "hierarchical:tick=7ms,size=3", "hashed:tick=1ms,slots=512",
          "hashed:tick=10ms,slots=12", "heap", "heap:tick=7ms", "flat", "flat:tick=10ms", "default",
          "noncascading:tick=1ms,size=64,levels=8", "noncascading:tick=7ms,size=9,levels=6",
          "sorted:tick=1ms,slots=512", "sorted:tick=10ms,slots=7", "threads:tick=1ms,size=20",
          "threads:tick=7ms,size=3", "session:tick=1s"}) {
      results.push_back(run_checked(plan, engine));
    }
    EXPECT_THAT(check_agreement(results), IsEmpty()) << plan.delays;
    EXPECT_EQ(results[3].slots, 16U) << "12 are rounded up";
    EXPECT_EQ(results[0].fired + results[0].cancelled, plan.timers.size());
  }
}

TEST(Engines, ReadOrdersAndDelaysFromFiles) {
  const scratch_file orders(
      "order_id,order_status,order_purchase_timestamp,order_approved_at\n"
      "b,delivered,2018-01-01 00:10:00,2018-01-01 00:40:00\n"
      "a,delivered,2018-01-01 00:00:00,2018-01-01 00:29:59\n"
      "c,canceled,2018-01-01 00:20:00,\n");
  const engine_result result = run_checked(plan_of({"--delays", ("csv:" + orders.path()).c_str()}), "heap");
  EXPECT_EQ(result.cancelled, 1U) << "at half an hour exactly it is too late";
  EXPECT_EQ(result.fired, 2U);

  const scratch_file delays("delay_ms\n5\n1.5\n\n700\n");
  EXPECT_THAT(plan_of({"--delays", ("csv:" + delays.path()).c_str()}).timers, SizeIs(3));
}

TEST(Engines, WakeAsThePollerDoes) {
  const workload plan = plan_of({"--delays", "list:1000", "--arrivals", "burst"});
  EXPECT_EQ(run_checked(plan, "heap").wakeups, 1U);
  EXPECT_EQ(run_checked(plan, "flat").wakeups, 1U);
  EXPECT_EQ(run_checked(plan, "hierarchical:tick=1ms,size=512").wakeups, 2U);
  const engine_result rounds = run_checked(plan, "hashed:tick=1ms,slots=512");
  EXPECT_EQ(rounds.wakeups, 1000U);
  EXPECT_EQ(rounds.empty_wakeups, 998U);
}

TEST(Engines, AreLateByTheRoundingOfTheTick) {
  const engine_result result = run_checked(plan_of({"--delays", "list:21,25,30"}), "heap:tick=10ms");
  EXPECT_EQ(result.lateness.max, 9ms);
  EXPECT_EQ(result.lateness.p50, 5ms);
  EXPECT_EQ(result.lateness_ticks.max, 0U);
}

// What each family is there to show, on delays whose counts can be told by hand.
TEST(Families, ThatDoNotCascadeFireFromTheirLevelLateByUpToItsTick) {
  const workload plan = plan_of({"--delays", "list:62,63,64,504,505,513"});
  const engine_result result = run_checked(plan, "noncascading:tick=1ms,size=64,levels=3", true);
  EXPECT_THAT(wakeups_of(result), ElementsAre(62, 64, 512, 576)) << "63 begins level 2, and 504 begins level 3";
  EXPECT_EQ(result.lateness_ticks.max, 63U) << "513 fires at 576";
  EXPECT_EQ(result.lateness_width, 64ms);
  EXPECT_EQ(result.moves, 0U);
}

TEST(Families, ThatDoNotCascadeAreLateByLessThanTheirShareOfTheDelay) {
  const engine_spec spec = parse_engine("noncascading:tick=1ms,size=64,levels=8");
  for (tick delay = 1; delay < 100'000'000; delay += 1 + delay / 100) {
    for (const tick added : {tick{0}, tick{12'345'678}}) {
      const timer_in_ticks timer{added, added + delay, {}};
      const tick late = fires_at(spec, 0, timer) - timer.due;
      ASSERT_LT(late, level_tick(spec, timer)) << delay;
      ASSERT_TRUE(late == 0 || late * 63 < delay * 8) << delay;
    }
  }
}

TEST(Families, ThatSortTheirSlotsLookAtNoTimerInVain) {
  const workload plan = plan_of({"--delays", "list:30,10,22,14", "--cancel", "0"});
  const engine_result result = run_checked(plan, "sorted:tick=1ms,slots=4", true);
  EXPECT_EQ(run_checked(plan, "hashed:tick=1ms,slots=4").looks, 8U + 3U + 6U + 4U);
  EXPECT_EQ(result.looks, 0U);
  EXPECT_EQ(result.wakeups, 30U);
  EXPECT_EQ(result.heap_operations, 8U);
}

TEST(Families, OfThreadsThatPollWakeAtEachTickOfEachLevel) {
  const workload plan = plan_of({"--delays", "list:2,10,60,234,1000"});
  const engine_result result = run_checked(plan, "threads:tick=1ms,size=20", true);
  EXPECT_EQ(result.wakeups, 1000U / 1 + 1000U / 20 + 1000U / 400);
  EXPECT_THAT(result.traced->moves_per_timer, ElementsAre(0, 0, 0, 1, 1));
}

TEST(Families, OfSessionsRoundDeadlinesUpToTheTickOfTheirBuckets) {
  const engine_result result = run_checked(plan_of({"--delays", "list:1,1000,1001,2999"}), "session:tick=1s", true);
  EXPECT_THAT(wakeups_of(result), ElementsAre(1, 2, 3));
  EXPECT_EQ(result.empty_wakeups, 0U);
  EXPECT_EQ(result.flush_max, 2U);
  EXPECT_EQ(result.lateness.max, 999ms);
}

TEST(Families, TellTheMemoryOfTheirTimers) {
  const workload plan = plan_of({"--timers", "10000", "--delays", "constant:1s"});
  for (const auto& [engine, least, most] :
       {std::tuple("noncascading:tick=1ms,size=64,levels=8", 12, 24), std::tuple("sorted:tick=1ms,slots=8", 16, 36),
        std::tuple("threads:tick=1ms,size=20", 20, 40), std::tuple("session:tick=1s", 28, 80)}) {
    EXPECT_THAT(run_checked(plan, engine).bytes_per_timer(), AllOf(Ge(least), Le(most))) << engine;
  }
}

TEST(Families, ThatTheLibraryShipsHaveItsSizes) {
  const workload plan = plan_of({"--delays", "list:1023,1024,2000,2097152"});
  const engine_result result = run_checked(plan, "default", true);
  const std::vector<level_stats> own = hierarchical_wheel().stats().levels;
  EXPECT_EQ(result.wheel_sizes.front(), own.front().wheel_size);
  EXPECT_THAT(result.wheel_sizes, ElementsAre(1024, 2048));
  EXPECT_THAT(result.traced->moves_per_timer, ElementsAre(0, 0, 1, 0));
}

TEST(WindowRule, PutsATimerOffToTheLongestTickInItsWindow) {
  // Of 234 + 30: 240 is a multiple of 20, and 256 of 2^8. Of 999 + 300: 1200 is a multiple of 400.
  const std::vector<const char*> arguments = {"--delays", "list:234,999", "--window", "30ms"};
  EXPECT_THAT(wakeups_of(run_checked(arguments, "hierarchical:tick=1ms,size=20")), ElementsAre(240, 800, 1000));
  EXPECT_THAT(wakeups_of(run_checked(arguments, "heap")), ElementsAre(256, 1024));
  EXPECT_THAT(wakeups_of(run_checked(arguments, "sorted:tick=1ms,slots=2000")), SizeIs(999)) << "it knows no windows";
  const engine_result far = run_checked({"--delays", "list:999", "--window", "300ms"}, "hierarchical:tick=1ms,size=20");
  EXPECT_THAT(wakeups_of(far), ElementsAre(1200));
  EXPECT_EQ(far.moves, 0U);
  EXPECT_EQ(far.lateness_ticks.max, 201U);
}

TEST(WindowRule, HoldsForRandomWorkloads) {
  for (const char* engine : {"hierarchical:tick=1ms,size=20", "hierarchical:tick=3ms,size=7", "default", "heap"}) {
    for (const char* window : {"1ms", "19ms", "500ms", "10s", "2h"}) {
      const std::vector<const char*> arguments = {"--delays", "uniform:0s,20min", "--timers", "2000",     "--arrivals",
                                                  "even:7s",  "--cancel",         "0.3",      "--window", window};
      EXPECT_EQ(run_checked(arguments, engine).early, 0U) << engine << ", " << window;
    }
  }
}

TEST(WindowRule, HoldsForAWindowThatIsLongAgainstTheRun) {
  const engine_result century =
      run_checked({"--timers", "2", "--delays", "constant:36500d", "--window", "36500d"}, "heap:tick=1ns");
  EXPECT_GE(century.lateness.max, 24h * 365 * 46);
  EXPECT_EQ(century.lateness_parts[3], 2U) << "2^62 ns - 100 years, in twentieths of 2^63 ns";
  const engine_result day = run_checked({"--timers", "10", "--delays", "constant:10ms", "--window", "1d"}, "heap");
  EXPECT_THAT(day.along.wakeups, SizeIs(Le(1801U)));
}

TEST(Families, ThatCannotHoldADelayAreRefused) {
  const workload plan = plan_of({"--delays", "list:503,504"});
  try {
    static_cast<void>(shape_of(plan, parse_engine("noncascading:tick=1ms,size=64,levels=2")));
    FAIL() << "504 ticks are 63 × 8";
  } catch (const usage_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a delay of 504 ticks"), HasSubstr("less than 504")));
  }
  EXPECT_EQ(shape_of(plan, parse_engine("noncascading:tick=1ms,size=64,levels=3")).levels, 3U);
}

TEST(Workload, IsTheSameForTheSameSeed) {
  const std::vector<const char*> arguments = {"--timers", "50", "--delays", "exponential:5s", "--cancel", "0.5"};
  const workload first = plan_of(arguments);
  const workload second = plan_of(arguments);
  ASSERT_EQ(first.timers.size(), second.timers.size());
  for (std::size_t i = 0; i < first.timers.size(); ++i) {
    EXPECT_EQ(first.timers[i].due, second.timers[i].due);
    EXPECT_EQ(first.timers[i].cancelled, second.timers[i].cancelled);
  }
}

// A burst is added without a wake-up.
TEST(Progress, IsToldInEachPartOfTheWork) {
  const workload plan = plan_of({"--timers", "100000"});
  const engine_spec heap = parse_engine("heap");
  const auto stop = [](double /*share*/) { throw std::runtime_error("stop"); };
  EXPECT_THROW(static_cast<void>(make_workload(parse({"--timers", "100000"}).workload, stop)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(run_engine(plan, heap, false, stop)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(time_engine(plan, heap, false, stop)), std::runtime_error);
}

TEST(Workload, ComesAtTheRateGiven) {
  for (const auto& [rate, seconds] : {std::tuple("poisson:1", 1e5), std::tuple("poisson:700000000", 1e5 / 7e8)}) {
    const workload plan = plan_of({"--timers", "100000", "--arrivals", rate});
    EXPECT_NEAR(std::chrono::duration<double>(plan.timers.back().arrival).count() / seconds, 1, 0.01) << rate;
  }
}

TEST(Options, NameTheValueAndTheAcceptedForms) {
  EXPECT_THAT(error_of({"--window", "soon"}), AllOf(HasSubstr("--window"), HasSubstr("'soon'"), HasSubstr("30min")));
  EXPECT_THAT(error_of({"--delays", "sometimes:3s"}), AllOf(HasSubstr("'sometimes:3s'"), HasSubstr("constant:30min")));
  EXPECT_THAT(error_of({"--delays", "constant:30"}), AllOf(HasSubstr("'30' is not a duration"), HasSubstr("30min")));
  EXPECT_THAT(error_of({"--delays", "constant:36501d"}), HasSubstr("longer than 100 years"));
  EXPECT_THAT(error_of({"--delays", "uniform:5s,1s"}), HasSubstr("lower end"));
  EXPECT_THAT(error_of({"--delays", "bimodal:1s,2s,1.5"}), HasSubstr("'1.5' is not a share in [0, 1]"));
  EXPECT_THAT(error_of({"--delays", "list:1,x"}), HasSubstr("'x' is not a number of milliseconds"));
  EXPECT_THAT(error_of({"--delays", "csv:/no/such/file"}), HasSubstr("cannot read /no/such/file"));
  EXPECT_THAT(error_of({"--timers", "many"}), HasSubstr("[1, 1000000000]"));
  EXPECT_THAT(error_of({"--arrivals", "even:0s"}), HasSubstr("'0s' must be longer than 0"));
  EXPECT_THAT(error_of({"--arrivals", "poisson:-1"}), HasSubstr("'-1' is not a rate"));
  EXPECT_THAT(error_of({"--arrivals", "poisson:nan"}), HasSubstr("'nan' is not a rate"));
  EXPECT_THAT(error_of({"--seed", "-1"}), HasSubstr("'-1' is not a whole number in [0, 9223372036854775807]"));
  EXPECT_THAT(error_of({"--cancel", "95"}), AllOf(HasSubstr("'95'"), HasSubstr("0.95")));
  EXPECT_THAT(error_of({"--engine", "rounds"}), AllOf(HasSubstr("'rounds'"), HasSubstr("hashed:tick=10ms,slots=512")));
  EXPECT_THAT(error_of({"--engine", "hashed:size=4"}), HasSubstr("'size=4' is no setting of it"));
  EXPECT_THAT(error_of({"--engine", "hierarchical:size=1"}), HasSubstr("[2, 16777216]"));
  EXPECT_THAT(error_of({"--engine", "heap:tick=0ms"}), HasSubstr("longer than 0"));
  EXPECT_THAT(error_of({"--engine", "default:tick=1ms"}), HasSubstr("'tick=1ms' is no setting of it"));
  EXPECT_THAT(error_of({"--engine", "sorted:levels=3"}), HasSubstr("'levels=3' is no setting of it"));
  EXPECT_THAT(error_of({"--engine", "noncascading:levels=13"}), HasSubstr("'13' is not a number of levels in [1, 12]"));
  EXPECT_THAT(error_of({"--engine", "hierarchical:tick=1ms,tick=2ms,size=4"}), HasSubstr("tick is given twice"));
}

TEST(Options, NameAFileOnce) {
  const scratch_file file("5\n");
  const std::string delays = "csv:" + file.path();
  EXPECT_THAT(error_of({"--report", "x.html", "--json", "./x.html"}),
              HasSubstr("--json and --report name the same file, x.html"));
  EXPECT_THAT(error_of({"--delays", delays.c_str(), "--json", file.path().c_str()}),
              HasSubstr("--delays and --json name the same file"));
  EXPECT_EQ(error_of({"--delays", delays.c_str(), "--report", "x.html", "--json", "x.json"}), "no error");
}

TEST(Options, KeepTheOrderOfEngines) {
  const options chosen = parse({"--engine", "heap", "--engine", "flat", "--engine", "hashed:tick=10ms,slots=64"});
  ASSERT_THAT(chosen.engines, SizeIs(3));
  EXPECT_EQ(chosen.engines[0].type, engine_spec::kind::heap);
  EXPECT_EQ(chosen.engines[1].type, engine_spec::kind::flat);
  EXPECT_EQ(chosen.engines[2].tick, 10ms);
  EXPECT_EQ(chosen.engines[2].size, 64U);
}

TEST(FlatWheel, TellsWhichTickIsLongEnough) {
  const workload plan = plan_of({"--delays", "constant:1d", "--timers", "3"});
  std::string told;
  try {
    static_cast<void>(run_engine(plan, parse_engine("flat"), false));
  } catch (const usage_error& error) {
    told = error.what();
  }
  EXPECT_THAT(told, AllOf(HasSubstr("86400000 ticks"), HasSubstr("16777216")));
  const std::string tick = told.substr(told.rfind(' ') + 1);
  EXPECT_LE(flat_slots(plan, parse_engine("flat:tick=" + tick)), 1U << 24U) << tick;
}

TEST(FlatWheel, PaysForADayWithMemory) {
  const workload plan = plan_of({"--delays", "uniform:1s,1d", "--timers", "5000"});
  const engine_result flat = run_checked(plan, "flat:tick=1s");
  const engine_result levels = run_checked(plan, "hierarchical:tick=1s,size=60");
  EXPECT_EQ(flat.moves, 0U);
  EXPECT_GT(flat.slots, 86'300U);
  EXPECT_GT(flat.bytes, 5 * levels.bytes);
}

TEST(Json, HasEachCountInTheOrderGiven) {
  const scratch_file file;
  const options chosen = parse({"--delays", "list:2,10,60,234,1000", "--engine", "heap", "--engine",
                                "hierarchical:tick=1ms,size=20", "--trace", "--json", file.path().c_str()});
  std::ostringstream out;
  ASSERT_EQ(run_tool(chosen, out, out), 0) << out.str();
  const nlohmann::ordered_json json = file.json();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("workload", "machine", "engines", "problems"));
  EXPECT_EQ(json["engines"][0]["engine"], "heap");
  const nlohmann::ordered_json& wheel = json["engines"][1];
  EXPECT_EQ(wheel["engine"], "hierarchical:tick=1ms,size=20");
  for (const char* key : {"fired", "cancelled", "early", "lateness_ticks", "moves", "looks", "wakeups", "empty_wakeups",
                          "wakeups_at", "levels", "flush_max", "flush_histogram", "heap_pushes", "bytes_per_timer"}) {
    EXPECT_TRUE(wheel.contains(key)) << key;
  }
  EXPECT_EQ(wheel["wheel_sizes"].dump(), "[20]");
  EXPECT_EQ(wheel["wakeups_at"].dump(), "[2,10,60,220,234,800,1000]");
  EXPECT_EQ(wheel["moves"]["per_timer"].dump(), "[0,0,0,1,1]");
  EXPECT_EQ(wheel["moves"]["per_level"].dump(), "[0,1,1]");
  EXPECT_EQ(wheel["heap_pushes"], 7) << "each time that a bucket gets its first timer";
}

TEST(Json, ReplacesWhatIsNotUtf8) {
  comparison all;
  all.plan = plan_of({"--timers", "1"});
  all.plan.delays = "csv:x\xff.csv";
  std::ostringstream out;
  write_json(out, all);
  EXPECT_THAT(out.str(), HasSubstr("csv:x\xef\xbf\xbd.csv"));
}

TEST(Json, HasTimesOnlyInATimedRun) {
  const scratch_file file;
  const std::string path = file.path();
  std::ostringstream out;
  ASSERT_EQ(run_tool(parse({"--timers", "100", "--engine", "heap", "--json", path.c_str()}), out, out), 0);
  EXPECT_FALSE(file.json()["engines"][0].contains("ns_per_operation"));
  ASSERT_EQ(run_tool(parse({"--timers", "100", "--engine", "heap", "--timed", "--json", path.c_str()}), out, out), 0);
  EXPECT_TRUE(file.json()["engines"][0].contains("ns_per_operation"));
  EXPECT_TRUE(file.json()["engines"][0].contains("longest_step_us"));
}

/// What the tool says if an engine counted something else.
std::string said_after(const std::function<void(engine_result&)>& spoil,
                       const std::vector<const char*>& engines = {"hierarchical:size=20", "hashed:slots=64"}) {
  std::vector<const char*> command = {"--timers", "100", "--delays", "uniform:1ms,9s"};
  for (const char* engine : engines) {
    command.insert(command.end(), {"--engine", engine});
  }
  const options chosen = parse(command);
  std::ostringstream out;
  std::ostringstream err;
  const int status = run_tool(chosen, out, err, [&](const auto&... arguments) {
    engine_result result = run_engine(arguments...);
    spoil(result);
    return result;
  });
  EXPECT_EQ(status, 1);
  EXPECT_THAT(out.str(), HasSubstr("WRONG"));
  return err.str();
}

TEST(Mismatch, OfTheMovesIsReportedWithTheNumbers) {
  const std::string said = said_after([](engine_result& result) {
    if (result.spec.type == engine_spec::kind::hierarchical) {
      result.levels[1].moves += 1000;
      result.levels[1].largest_flush += 1000;
    }
  });
  EXPECT_THAT(said, AllOf(HasSubstr("hierarchical:size=20: moves from level 1: counted 1"), HasSubstr("the rules say "),
                          HasSubstr("hierarchical:size=20: largest flush of level 1: counted 1")));
}

TEST(Mismatch, OfLooksWakeupsAndFiringsIsReported) {
  EXPECT_THAT(said_after([](engine_result& result) { ++result.looks; }), HasSubstr("looks: counted "));
  EXPECT_THAT(said_after([](engine_result& result) { ++result.wakeups; }), HasSubstr("wake-ups: counted "));
  EXPECT_THAT(said_after([](engine_result& result) { ++result.empty_wakeups; }),
              HasSubstr("empty wake-ups: counted 1"));
  EXPECT_THAT(said_after([](engine_result& result) { ++result.flush_classes[40]; }),
              HasSubstr("wake-ups with fewer than 2^40 timers, and at least half as many: counted 1, the rules say 0"));
  EXPECT_THAT(said_after([](engine_result& result) { --result.fired; }),
              HasSubstr("fired: counted 99, the rules say 100"));
  EXPECT_THAT(said_after([](engine_result& result) { result.early = 3; }), HasSubstr("fired early: counted 3"));
}

TEST(Mismatch, OfEachFamilyIsReported) {
  const auto said = [](const char* engine, const auto& spoil) { return said_after(spoil, {engine}); };
  const char* const noncascading = "noncascading:tick=1ms,size=64,levels=8";
  EXPECT_THAT(said(noncascading, [](engine_result& result) { ++result.lateness_ticks.max; }),
              HasSubstr("latest, in ticks: counted "));
  EXPECT_THAT(said(noncascading, [](engine_result& result) { ++result.wrong_ticks; }),
              HasSubstr("fired in a wrong tick: counted 1, the rules say 0"));
  EXPECT_THAT(said(noncascading, [](engine_result& result) { result.lateness.max = 512ms; }),
              HasSubstr("late by 512ms, the rules say less than 503ms"));
  EXPECT_THAT(said("session:tick=1s", [](engine_result& result) { result.lateness.max = 1s; }),
              HasSubstr("late by 1s, the rules say less than 1s"));
  EXPECT_THAT(said("sorted:tick=1ms,slots=8", [](engine_result& result) { ++result.looks; }),
              HasSubstr("looks: counted 1, the rules say 0"));
  EXPECT_THAT(said("sorted:tick=1ms,slots=8", [](engine_result& result) { ++result.heap_operations; }),
              HasSubstr("heap operations: counted 201, the rules say 200"));
  EXPECT_THAT(said("threads:tick=1ms,size=8", [](engine_result& result) { --result.wakeups; }),
              HasSubstr("wake-ups: counted "));
  EXPECT_THAT(said("default", [](engine_result& result) { ++result.levels[1].moves; }),
              HasSubstr("moves from level 1: counted "));
}

TEST(Mismatch, BetweenEnginesIsReported) {
  EXPECT_THAT(said_after([](engine_result& result) { result.fired_set += result.looks; }),
              HasSubstr("not the same 100 as"));
  EXPECT_THAT(said_after([](engine_result& result) { result.fired_ticks += result.looks; }),
              HasSubstr("in other ticks than"));
}

}  // namespace
}  // namespace timing_wheel::compare
