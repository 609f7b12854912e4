#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "common/duration.hpp"
#include "common/program.hpp"

namespace common {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Why it is no duration.
std::string refusal_of(const std::string& text, std::chrono::nanoseconds longest = std::chrono::nanoseconds::max()) {
  try {
    static_cast<void>(read_duration(text, longest));
  } catch (const duration_error& error) {
    return error.what();
  }
  return "none";
}

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(Duration, KnowsEveryUnitAndFractionsToTheNanosecond) {
  EXPECT_EQ(read_duration("7ns"), 7ns);
  EXPECT_EQ(read_duration("250us"), 250us);
  EXPECT_EQ(read_duration("1500ms"), 1500ms);
  EXPECT_EQ(read_duration("30min"), 30min);
  EXPECT_EQ(read_duration("30m"), 30min);
  EXPECT_EQ(read_duration("0s"), 0s);
  EXPECT_EQ(read_duration("2.5s"), 2500ms);
  EXPECT_EQ(read_duration(".25h"), 15min);
  EXPECT_EQ(read_duration("1.s"), 1s);
  EXPECT_EQ(read_duration("1.999999999d"), 48h - 86'400ns);
  EXPECT_EQ(read_duration("0.4ns"), 0ns);
  EXPECT_EQ(read_duration("0.6ns"), 1ns);
}

TEST(Duration, MayHaveSeveralPartsTheLongestFirst) {
  EXPECT_EQ(read_duration("1h30m"), 90min);
  EXPECT_EQ(read_duration("1d2h3min4s5ms6us7ns"), 26h + 3min + 4s + 5ms + 6us + 7ns);
  for (const char* text : {"30m1h", "1h1h", "1min1m"}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("longer unit comes first")) << text;
  }
}

TEST(Duration, SaysWhatIsWrong) {
  EXPECT_EQ(refusal_of(""), "it is empty");
  EXPECT_EQ(refusal_of("-5s"), "it is negative");
  EXPECT_EQ(refusal_of("5"), "the unit is missing");
  EXPECT_EQ(refusal_of("1h30"), "the unit is missing");
  EXPECT_EQ(refusal_of("s"), "the number is missing");
  EXPECT_EQ(refusal_of(".s"), "the number is missing");
  EXPECT_EQ(refusal_of("1.2.3s"), "'1.2.3' is no number");
  EXPECT_EQ(refusal_of("5parsecs"), "'parsecs' is no unit");
  for (const char* text : {"+5s", "5 s", " 5s", "5s ", "5S", "0x5s", "1e3s", "infs", "1h-30m"}) {
    EXPECT_NE(refusal_of(text), "none") << text;
  }
}

TEST(Duration, RefusesWhatDoesNotFit) {
  EXPECT_EQ(read_duration("9223372036854775807ns"), std::chrono::nanoseconds::max());
  for (const char* text : {"9223372036854775808ns", "99999999999999999999s", "2562048h", "2562047h59m",
                           "9223372036s900ms", "9223372036.9s"}) {
    EXPECT_EQ(refusal_of(text), "it is longer than 292 years") << text;
  }
  EXPECT_EQ(read_duration("36500d", 24h * 36500), 24h * 36500);
  EXPECT_EQ(refusal_of("36500d1ns", 24h * 36500), "it is longer than 100 years");
}

TEST(Duration, IsShownInTheLargestUnitThatFitsAndReadBack) {
  const std::pair<std::chrono::nanoseconds, const char*> shown[] = {
      {0ns, "0ns"},           {1ns, "1ns"},     {999ns, "999ns"}, {1500us, "1.5ms"}, {107289ns, "107.289us"},
      {262144ms, "262.144s"}, {30min, "30min"}, {25h, "25h"}};
  for (const auto& [duration, text] : shown) {
    EXPECT_EQ(format_duration(duration), text);
    EXPECT_EQ(read_duration(text), duration) << text;
  }
}

TEST(ProgramName, IsWhatTheScriptSaysOrItsOwn) {
  ::unsetenv("TIMING_WHEEL_COMMAND");
  EXPECT_EQ(program_name("own"), "own");
  ::setenv("TIMING_WHEEL_COMMAND", "./dev demo", 1);
  EXPECT_EQ(program_name("own"), "./dev demo");
  ::unsetenv("TIMING_WHEEL_COMMAND");
}

TEST(Memory, ThatIsNotThereIsRefused) {
  check_memory("--checks: 1 check", 1U << 20U);
  EXPECT_THAT(failure_of([] { check_memory("--checks: many", std::uint64_t{1} << 60U); }),
              StartsWith("--checks: many need at least 1 099 511 627 776 MiB of memory, and "));
}

TEST(Outputs, ThatAreFullAreAFailure) {
  std::ofstream full("/dev/full");
  full << "lost";
  EXPECT_THAT(failure_of([&] { finish_output(full); }), StartsWith("cannot write to standard output: No space left"));
  const auto write = [](std::ostream& out) { out << "lost"; };
  EXPECT_THAT(failure_of([&] { write_file("/dev/full", write); }), StartsWith("cannot write /dev/full: No space left"));
  const auto write_much = [](std::ostream& out) { out << std::string(100'000, 'x'); };
  EXPECT_NE(failure_of([&] { write_file("/dev/full", write_much); }), "none");
}

TEST(Outputs, AreCheckedBeforehandWithoutATrace) {
  const std::string path = ::testing::TempDir() + "common_test_target.tmp";
  std::filesystem::remove(path);
  check_target("--json", path);
  EXPECT_FALSE(std::filesystem::exists(path));

  std::ofstream(path) << "old";
  check_target("--json", path);
  EXPECT_EQ(std::filesystem::file_size(path), 3U);
  std::filesystem::remove(path);

  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  check_target("--json", path);  // does not wait for a reader
  std::filesystem::remove(path);

  EXPECT_THAT(failure_of([&] { check_target("--json", "/no/such/file"); }),
              StartsWith("--json: cannot write /no/such/file: No such file"));
}

}  // namespace
}  // namespace common
