#include "common/orders_table.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "common/program.hpp"

namespace common {
namespace {

using std::chrono::sys_seconds;

sys_seconds time_in(const char* column, const char* field) {
  const std::optional<sys_seconds> time = parse_time(field);
  if (!time) {
    throw row_error(std::string(column) + " " + quoted(field) + " is not a time YYYY-MM-DD HH:MM:SS");
  }
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(*time));
  if (date.year() < std::chrono::year(1678) || date.year() > std::chrono::year(2261)) {
    throw row_error(std::string(column) + " " + quoted(field) + " is not between the years 1678 and 2261");
  }
  return *time;
}

/// Whether there is a digit wherever the pattern has a zero, and otherwise what the pattern has.
bool looks_like_a_time(std::string_view text) {
  constexpr std::string_view pattern = "0000-00-00 00:00:00";
  return std::equal(text.begin(), text.end(), pattern.begin(), pattern.end(),
                    [](char c, char expected) { return expected == '0' ? c >= '0' && c <= '9' : c == expected; });
}

}  // namespace

orders_table::orders_table(std::istream& in) : csv_(in) { read_header(); }

void orders_table::read_header() {
  try {
    csv_.read_header("order_id", "order_purchase_timestamp", "order_approved_at");
  } catch (const io::error::missing_column_in_header& error) {
    throw file_error(line(), "the header has no column " + std::string(error.column_name) + ", so no row can be read");
  } catch (const io::error::duplicated_column_in_header& error) {
    throw file_error(line(),
                     "the header has two columns " + std::string(error.column_name) + ", so no row can be read");
  } catch (const io::error::header_missing&) {
    throw file_error(1, "the file is empty: there is no header");
  } catch (const io::error::base&) {
    throw file_error(line(), "the header is not a line of CSV, so no row can be read");
  }
}

std::optional<order_row> orders_table::next() {
  if (!csv_.read_row(id_, purchased_, approved_)) {
    return std::nullopt;
  }
  if (*id_ == '\0') {
    throw row_error("order_id is empty");
  }
  order_row row{time_in("order_purchase_timestamp", purchased_), {}};
  if (*approved_ != '\0') {
    row.approved = time_in("order_approved_at", approved_);
    if (*row.approved < row.purchased) {
      throw row_error("order_approved_at " + quoted(approved_) + " is before order_purchase_timestamp " +
                      quoted(purchased_));
    }
  }
  const auto [first, is_new] = lines_.try_emplace(id_, line());
  if (!is_new) {
    throw row_error("order_id " + quoted(id_) + " was on line " + std::to_string(first->second) + " already");
  }
  return row;
}

std::optional<sys_seconds> parse_time(std::string_view text) {
  if (!looks_like_a_time(text)) {
    return std::nullopt;
  }
  const auto number_at = [&](std::size_t position, std::size_t digits) {
    unsigned number = 0;
    std::from_chars(text.data() + position, text.data() + position + digits, number);
    return number;
  };
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(number_at(0, 4))),
                                         std::chrono::month(number_at(5, 2)), std::chrono::day(number_at(8, 2)));
  const std::chrono::hh_mm_ss time(std::chrono::hours(number_at(11, 2)) + std::chrono::minutes(number_at(14, 2)) +
                                   std::chrono::seconds(number_at(17, 2)));
  if (!date.ok() || number_at(11, 2) > 23 || number_at(14, 2) > 59 || number_at(17, 2) > 59) {
    return std::nullopt;
  }
  return std::chrono::sys_days(date) + time.to_duration();
}

std::ifstream open_input(const std::string& path) {
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

}  // namespace common
