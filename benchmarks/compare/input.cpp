#include "compare/input.hpp"

// One thread reads; the parser's own would only read ahead.
#define CSV_IO_NO_THREAD
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-truncation"  // it copies a file name that we do not give it
#endif
#include <libfccp/csv.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <string_view>
#include <utility>

namespace timing_wheel::compare {
namespace {

using std::chrono::sys_seconds;

constexpr const char* forms =
    "one delay in milliseconds per row, or orders with the columns order_id, order_status, order_purchase_timestamp "
    "and "
    "order_approved_at";

/// Bytes for the parser, with a line break at the end: without one it would look at the byte behind the last.
class line_source : public io::ByteSourceBase {
 public:
  explicit line_source(std::istream& in) : in_(in) {}

  int read(char* buffer, int size) override {
    in_.read(buffer, size);
    int got = static_cast<int>(in_.gcount());
    if (got < size && !ended_) {
      ended_ = true;
      buffer[got++] = '\n';
    }
    return got;
  }

 private:
  std::istream& in_;
  bool ended_ = false;
};

template <unsigned Columns>
using csv_reader = io::CSVReader<Columns, io::trim_chars<' ', '\t', '\r'>, io::double_quote_escape<',', '"'>,
                                 io::throw_on_overflow, io::empty_line_comment>;

std::ifstream open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw usage_error("--delays: cannot read " + path + ": it is a directory");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw usage_error("--delays: cannot read " + path + ": " + std::strerror(errno));
  }
  return in;
}

[[noreturn]] void refuse(const std::string& path, unsigned line, const std::string& why) {
  throw usage_error("--delays: " + path + " line " + std::to_string(line) + ": " + why + "; accepted: " + forms);
}

int number_at(std::string_view text, std::size_t position, std::size_t digits) {
  int number = 0;
  for (const char c : text.substr(position, digits)) {
    number = number * 10 + (c - '0');
  }
  return number;
}

std::optional<sys_seconds> parse_time(std::string_view text) {
  constexpr std::string_view pattern = "0000-00-00 00:00:00";
  if (!std::equal(text.begin(), text.end(), pattern.begin(), pattern.end(),
                  [](char c, char expected) { return expected == '0' ? c >= '0' && c <= '9' : c == expected; })) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date(std::chrono::year(number_at(text, 0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number_at(text, 5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number_at(text, 8, 2))));
  const std::chrono::hours hour(number_at(text, 11, 2));
  const std::chrono::minutes minute(number_at(text, 14, 2));
  const std::chrono::seconds second(number_at(text, 17, 2));
  if (!date.ok() || hour.count() > 23 || minute.count() > 59 || second.count() > 59) {
    return std::nullopt;
  }
  return std::chrono::sys_days(date) + hour + minute + second;
}

class orders_reader {
 public:
  orders_reader(std::string path, std::istream& in)
      : path_(std::move(path)), csv_("", std::make_unique<line_source>(in)) {
    csv_.read_header(io::ignore_extra_column, "order_purchase_timestamp", "order_approved_at");
  }

  std::vector<order_times> read() {
    std::vector<order_times> orders;
    const char* purchased = nullptr;
    const char* approved = nullptr;
    while (csv_.read_row(purchased, approved)) {
      order_times& one = orders.emplace_back(order_times{time_of(purchased), {}});
      if (*approved != '\0') {
        one.approved = time_of(approved);
        if (*one.approved < one.purchased) {
          refuse(path_, csv_.get_file_line(), "it is approved before it is purchased");
        }
      }
    }
    return orders;
  }

  [[nodiscard]] unsigned line() const { return csv_.get_file_line(); }

 private:
  sys_seconds time_of(const char* field) {
    const std::optional<sys_seconds> time = parse_time(field);
    if (!time || std::chrono::abs(time->time_since_epoch()) > longest_delay) {
      refuse(path_, csv_.get_file_line(),
             "'" + std::string(field) + "' is not a time YYYY-MM-DD HH:MM:SS within 100 years of 1970");
    }
    return *time;
  }

  std::string path_;
  csv_reader<2> csv_;
};

std::vector<nanoseconds> read_delays(const std::string& path, std::istream& in) {
  csv_reader<1> csv("", std::make_unique<line_source>(in));
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
      refuse(path, csv.get_file_line(), "'" + std::string(text) + "' is not a delay in milliseconds");
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
      result.orders = orders_reader(path, in).read();
    } else {
      result.delays = read_delays(path, in);
    }
  } catch (const io::error::base& error) {
    throw usage_error("--delays: " + path + ": " + error.what() + "; accepted: " + forms);
  }
  if (result.orders.empty() && result.delays.empty()) {
    throw usage_error("--delays: " + path + " has no row; accepted: " + forms);
  }
  return result;
}

}  // namespace timing_wheel::compare
