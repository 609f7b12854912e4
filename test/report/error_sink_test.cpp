#include "report/error_sink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/service_stderr.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using detail::error_sink;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr time_point at(std::chrono::nanoseconds since_epoch) { return time_point(since_epoch); }

/// Reports a `std::runtime_error` of `what`, as the runner does for one of the user's.
void report(error_sink& sink, const std::string& what, time_point now, const char* who = "a callback") {
  try {
    throw std::runtime_error(what);
  } catch (...) {
    sink.report(who, 7, now);
  }
}

std::ptrdiff_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(ErrorSink, GivesTheUsersHandlerTheExceptionAndTheTag) {
  std::vector<std::string> seen;
  error_sink sink([&](const std::exception_ptr& failure, std::uint64_t tag) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::runtime_error& e) {
      seen.push_back(e.what() + std::to_string(tag));
    }
  });
  captured_stderr output;
  report(sink, "disk", at(0s));
  report(sink, "disk", at(0s));
  EXPECT_THAT(seen, ElementsAre("disk7", "disk7")) << "each one, however many";
  EXPECT_THAT(output.text(), IsEmpty());
}

TEST(ErrorSink, TellsOneKindOnceASecond) {
  error_sink sink(nullptr);
  captured_stderr output;
  for (std::chrono::milliseconds now = 0ms; now < 3s; now += 10ms) {
    report(sink, "disk", at(now));
  }
  EXPECT_EQ(lines_of(output.text()), 3);
}

TEST(ErrorSink, TakesAnotherTextOrAnotherThrowerForAnotherKind) {
  error_sink sink(nullptr);
  captured_stderr output;
  report(sink, "disk", at(0s));
  report(sink, "net", at(0s));
  report(sink, "disk", at(0s), "the executor");
  EXPECT_EQ(lines_of(output.text()), 3);
}

TEST(ErrorSink, ToldInTurnOfSixteenKindsSaysEachOnceASecond) {
  error_sink sink(nullptr);
  captured_stderr output;
  for (int round = 0; round < 10; ++round) {
    for (int kind = 0; kind < 16; ++kind) {
      report(sink, std::to_string(kind), at(0s));
    }
  }
  EXPECT_EQ(lines_of(output.text()), 16);
}

TEST(ErrorSink, OfMoreKindsForgetsTheOneThatMaySpeakSoonest) {
  error_sink sink(nullptr);
  captured_stderr output;
  for (int kind = 0; kind < 17; ++kind) {
    report(sink, std::to_string(kind), at(kind * 1ms));
  }
  report(sink, "16", at(20ms));  // remembered
  report(sink, "0", at(20ms));   // forgotten for it
  EXPECT_EQ(lines_of(output.text()), 18);
}

TEST(ErrorSink, LetsGoOfTheHandlerWhenItRetires) {
  auto captured = std::make_shared<int>(0);
  error_sink sink([captured](const std::exception_ptr&, std::uint64_t) {});
  sink.retire();
  EXPECT_EQ(captured.use_count(), 1);
}

}  // namespace
}  // namespace timing_wheel::test
