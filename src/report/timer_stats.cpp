#include "timing_wheel/timer_stats.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <ostream>
#include <string>

namespace timing_wheel {

namespace {

// With a space between thousands.
std::string text_of(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ' ');
  }
  return digits;
}

// Three digits of a number that is not negative, and its unit.
std::string scaled(double number, double step, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  while (number >= step && unit + 1 != units.end()) {
    number /= step;
    ++unit;
  }
  std::array<char, 32> text{};
  const int digits = number >= 100 || unit == units.begin() ? 0 : number >= 10 ? 1 : 2;
  const int size = std::snprintf(text.data(), text.size(), "%.*f %s", digits, number, *unit);
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string text_of(std::chrono::nanoseconds duration) {
  return scaled(static_cast<double>(duration.count()), 1000, {"ns", "us", "ms", "s"});
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const timer_stats& of) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& words) {
    text.append(name).append(words).append("\n");
  };
  line("timers    ", text_of(of.scheduled) + " scheduled = " + text_of(of.fired) + " fired + " + text_of(of.cancelled) +
                         " cancelled + " + text_of(of.returned) + " returned + " + text_of(of.pending) + " pending");
  line("now       ", text_of(of.due) + " due, " + text_of(of.running) + " running");
  line("refused   ", text_of(of.rejected) + ", " + text_of(of.refused) + " times by the executor");
  line("wrong     ", text_of(of.failed) + " threw, " + text_of(of.early) + " early");
  line("lateness  ", "median " + text_of(of.lateness.quantile(0.5)) + ", p99 " + text_of(of.lateness.quantile(0.99)) +
                         ", longest " + text_of(of.lateness.max()));
  line("wake-ups  ", text_of(of.wakeups) + ", " + text_of(of.empty_wakeups) + " in vain, " +
                         text_of(of.earlier_wakeups) + " for an earlier timer");
  line("windows   ", text_of(of.moves_saved) + " moves saved, " + text_of(of.wakeups_shared) + " wake-ups shared");
  line("memory    ", scaled(static_cast<double>(of.bytes), 1024, {"bytes", "KiB", "MiB", "GiB"}));
  line("locks     ", "at most " + text_of(of.largest_hold) + " timers under one");
  for (std::size_t i = 0; i < of.levels.size(); ++i) {
    const level_stats& level = of.levels[i];
    line(("wheel " + std::to_string(i) + "   ").c_str(),
         std::to_string(level.wheel_size) + " slots of " + text_of(static_cast<std::uint64_t>(level.tick_length)) +
             (level.tick_length == 1 ? " tick, " : " ticks, ") + text_of(level.moves) + " moved down, " +
             text_of(level.flushes) + " buckets flushed, largest " + text_of(level.largest_flush));
  }
  return out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace timing_wheel
