#include "compare/input.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <istream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace timing_wheel::compare {
namespace {

using std::chrono::sys_seconds;

constexpr const char* header_of_delays = "delay_ms";

std::string forms() {
  return std::string("one delay in milliseconds per row, under the header ") + header_of_delays +
         " or none, or orders with the columns " + common::order_columns;
}

[[noreturn]] void refuse(const std::string& path, std::uint64_t line, const std::string& why) {
  throw usage_error("--delays: " + path + " line " + std::to_string(line) + ": " + why + "; accepted: " + forms());
}

std::ifstream open(const std::string& path) {
  try {
    return common::open_input(path);
  } catch (const usage_error& error) {
    throw usage_error("--delays: " + std::string(error.what()));
  }
}

void check_range(std::chrono::sys_seconds time) {
  if (std::chrono::abs(time.time_since_epoch()) > longest_delay) {
    throw common::row_error("a time is not within 100 years of 1970");
  }
}

std::vector<common::order_row> read_orders(const std::string& path, std::istream& in) {
  common::orders_table table(in);
  std::vector<common::order_row> orders;
  try {
    while (const auto row = table.next()) {
      check_range(row->purchased);
      check_range(row->approved.value_or(row->purchased));
      orders.push_back(*row);
    }
  } catch (const common::row_error& error) {
    refuse(path, table.line(), error.what());
  }
  return orders;
}

std::vector<nanoseconds> read_delays(const std::string& path, std::istream& in) {
  common::csv_table<1> csv(in);
  std::vector<nanoseconds> delays;
  const char* field = nullptr;
  try {
    for (bool is_first = true; csv.read_row(field); is_first = false) {
      const std::string_view text(field);
      if (is_first && text == header_of_delays) {
        continue;
      }
      double number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool is_whole = error == std::errc() && end == text.data() + text.size();
      if (!is_whole || !(number >= 0) || number > static_cast<double>(longest_delay.count()) / 1e6) {
        throw common::row_error(common::quoted(text) + " is not a delay in milliseconds" +
                                (is_first ? std::string(" and not the header ") + header_of_delays : ""));
      }
      delays.emplace_back(std::llround(number * 1e6));
    }
  } catch (const common::row_error& error) {
    refuse(path, csv.line(), error.what());
  }
  return delays;
}

/// The first line that is not blank, or its begin; none if all are. A file of orders has a comma there.
std::string first_line(std::istream& in) {
  std::array<char, 4096> line{};
  (in >> std::ws).getline(line.data(), line.size());
  in.clear();
  in.seekg(0);
  return line.data();
}

}  // namespace

timers_file read_timers(const std::string& path) {
  timers_file result;
  std::ifstream file = open(path);
  std::istringstream copy;
  const bool can_seek = file.tellg() >= 0;
  if (!can_seek) {  // a pipe, of which nothing can be read twice
    copy.str(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::istream& in = can_seek ? static_cast<std::istream&>(file) : copy;
  const std::string first = first_line(in);
  try {
    if (first.find(',') != std::string::npos) {
      result.orders = read_orders(path, in);
    } else {
      result.delays = read_delays(path, in);
    }
  } catch (const common::file_error& error) {
    refuse(path, error.line(), error.what());
  }
  if (in.bad()) {
    throw usage_error("--delays: cannot read " + path + " to its end");
  }
  if (result.orders.empty() && result.delays.empty()) {
    throw usage_error("--delays: " + path + (first.empty() ? ": the file is empty" : " has no row") +
                      "; accepted: " + forms());
  }
  return result;
}

}  // namespace timing_wheel::compare
