#include "compare/input.hpp"

#include <charconv>
#include <cmath>
#include <fstream>
#include <istream>
#include <memory>
#include <string_view>
#include <utility>

#include "common/orders_table.hpp"

namespace timing_wheel::compare {
namespace {

using std::chrono::sys_seconds;

std::string forms() {
  return std::string("one delay in milliseconds per row, or orders with the columns ") + common::order_columns;
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

std::vector<order_times> read_orders(const std::string& path, std::istream& in) {
  common::orders_table table(in);
  std::vector<order_times> orders;
  try {
    while (const auto row = table.next()) {
      check_range(row->purchased);
      check_range(row->approved.value_or(row->purchased));
      orders.push_back({row->purchased, row->approved});
    }
  } catch (const common::row_error& error) {
    refuse(path, table.line(), error.what());
  }
  return orders;
}

std::vector<nanoseconds> read_delays(const std::string& path, std::istream& in) {
  common::csv_reader<1> csv("", std::make_unique<common::line_source>(in));
  csv.set_header("delay");
  std::vector<nanoseconds> delays;
  const char* field = nullptr;
  while (csv.read_row(field)) {
    const std::string_view text(field);
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (!whole && delays.empty() && csv.get_file_line() == 1) {
      continue;  // the name of the column
    }
    if (!whole || !(number >= 0) || number > static_cast<double>(longest_delay.count()) / 1e6) {
      refuse(path, csv.get_file_line(), common::quoted(text) + " is not a delay in milliseconds");
    }
    delays.emplace_back(std::llround(number * 1e6));
  }
  return delays;
}

}  // namespace

timers_file read_timers(const std::string& path) {
  timers_file result;
  std::ifstream in = open(path);
  std::string header;
  std::getline(in, header);
  in.clear();
  in.seekg(0);
  try {
    if (header.find("order_purchase_timestamp") != std::string::npos) {
      result.orders = read_orders(path, in);
    } else {
      result.delays = read_delays(path, in);
    }
  } catch (const common::file_error& error) {
    refuse(path, error.line(), error.what());
  } catch (const io::error::base& error) {
    throw usage_error("--delays: " + path + ": " + error.what() + "; accepted: " + forms());
  }
  if (in.bad()) {
    throw usage_error("--delays: cannot read " + path + " to its end");
  }
  if (result.orders.empty() && result.delays.empty()) {
    throw usage_error("--delays: " + path + " has no row; accepted: " + forms());
  }
  return result;
}

}  // namespace timing_wheel::compare
