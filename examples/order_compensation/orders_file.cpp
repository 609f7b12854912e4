#include "orders_file.hpp"

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
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "ledger.hpp"
#include "options.hpp"

namespace order_compensation {
namespace {

using std::chrono::sys_seconds;

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

using csv_reader = io::CSVReader<4, io::trim_chars<' ', '\t'>, io::double_quote_escape<',', '"'>, io::throw_on_overflow,
                                 io::empty_line_comment>;

/// A field as it can be shown in one short line.
std::string quoted(std::string_view field) {
  constexpr std::size_t longest = 40;
  std::string text(field.substr(0, longest));
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  }
  return "'" + text + (field.size() > longest ? "…'" : "'");
}

struct row {
  const char* id = nullptr;
  const char* status = nullptr;
  const char* purchased = nullptr;
  const char* approved = nullptr;
};

/// What is wrong with one row, as far as the row itself tells.
struct row_error {
  std::string reason;
};

sys_seconds time_in(const char* column, const char* field) {
  const std::optional<sys_seconds> time = parse_time(field);
  if (!time) {
    throw row_error{std::string(column) + " " + quoted(field) + " is not a time YYYY-MM-DD HH:MM:SS"};
  }
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(*time));
  if (date.year() < std::chrono::year(1678) || date.year() > std::chrono::year(2261)) {
    throw row_error{std::string(column) + " " + quoted(field) + " is not between the years 1678 and 2261"};
  }
  return *time;
}

order order_in(const row& fields) {
  if (*fields.id == '\0') {
    throw row_error{"order_id is empty"};
  }
  order result{hash_of(std::string_view(fields.id)), time_in("order_purchase_timestamp", fields.purchased), {}};
  if (*fields.approved != '\0') {
    result.approved = time_in("order_approved_at", fields.approved);
    if (*result.approved < result.purchased) {
      throw row_error{"order_approved_at " + quoted(fields.approved) + " is before order_purchase_timestamp " +
                      quoted(fields.purchased)};
    }
  }
  return result;
}

class orders_reader {
 public:
  orders_reader(std::istream& in, progress& shown) : csv_("", std::make_unique<line_source>(in)), progress_(shown) {}

  orders_file read() {
    if (read_header()) {
      while (read_row()) {
      }
    }
    return std::move(result_);
  }

 private:
  bool read_header() {
    try {
      csv_.read_header(io::ignore_extra_column, "order_id", "order_status", "order_purchase_timestamp",
                       "order_approved_at");
      return true;
    } catch (const io::error::missing_column_in_header& error) {
      leave_out("the header has no column " + std::string(error.column_name) + ", so no row can be read");
    } catch (const io::error::duplicated_column_in_header& error) {
      leave_out("the header has two columns " + std::string(error.column_name) + ", so no row can be read");
    } catch (const io::error::header_missing&) {
      leave_out("the file is empty: there is no header");
    } catch (const io::error::base&) {
      leave_out("the header is not a line of CSV, so no row can be read");
    }
    return false;
  }

  /// \returns false at the end of the file.
  bool read_row() {
    try {
      row fields;
      if (!csv_.read_row(fields.id, fields.status, fields.purchased, fields.approved)) {
        return false;
      }
      add(fields);
    } catch (const row_error& error) {
      leave_out(error.reason);
    } catch (const io::error::too_few_columns&) {
      leave_out("too few columns");
    } catch (const io::error::too_many_columns&) {
      leave_out("too many columns");
    } catch (const io::error::escaped_string_not_closed&) {
      leave_out("a quote is not closed");
    } catch (const io::error::line_length_limit_exceeded&) {
      leave_out("the line is longer than 16 MiB; the rest of the file was not read");
      return false;
    }
    return true;
  }

  void add(const row& fields) {
    const order good = order_in(fields);
    const auto [first, is_new] = lines_.try_emplace(fields.id, csv_.get_file_line());
    if (!is_new) {
      throw row_error{"order_id " + quoted(fields.id) + " was on line " + std::to_string(first->second) + " already"};
    }
    result_.orders.push_back(good);
    if (constexpr std::size_t often = 4096; result_.orders.size() % often == 0 && progress_.due()) {
      progress_.show("read " + std::to_string(result_.orders.size()) + " orders");
    }
  }

  void leave_out(std::string reason) {
    ++result_.malformed;
    if (result_.reported.size() < max_reported_rows) {
      result_.reported.push_back({std::max(csv_.get_file_line(), 1U), std::move(reason)});
    }
  }

  csv_reader csv_;
  progress& progress_;
  std::unordered_map<std::string, unsigned> lines_;  // of each id, for the rows that are good
  orders_file result_;
};

constexpr std::string_view time_pattern = "0000-00-00 00:00:00";

/// Whether there is a digit wherever the pattern has a zero, and otherwise what the pattern has.
bool looks_like_a_time(std::string_view text) {
  return std::equal(text.begin(), text.end(), time_pattern.begin(), time_pattern.end(),
                    [](char c, char expected) { return expected == '0' ? c >= '0' && c <= '9' : c == expected; });
}

int number_at(std::string_view text, std::size_t position, std::size_t digits) {
  int number = 0;
  for (const char c : text.substr(position, digits)) {
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

std::optional<sys_seconds> parse_time(std::string_view text) {
  if (!looks_like_a_time(text)) {
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

orders_file read_orders(std::istream& in, const std::string& name, progress& shown) {
  orders_file result = orders_reader(in, shown).read();
  if (in.bad()) {
    throw usage_error("cannot read " + name + " to its end");
  }
  return result;
}

std::ifstream open_orders(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw usage_error("cannot read " + path + ": it is a directory");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw usage_error("cannot read " + path + ": " + std::strerror(errno));
  }
  return in;
}

}  // namespace order_compensation
