#include "desk/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "common/duration.hpp"

namespace timing_wheel::desk {

namespace {

using std::chrono::microseconds;

bool is_utf8(std::string_view bytes) {
  try {
    static_cast<void>(json(bytes).dump());
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

// C1 control characters, too: some terminals obey them.
bool has_control(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto each = static_cast<unsigned char>(text[at]);
    const bool is_c1 = each == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (each == 0x7F || is_c1 || (each < 0x20 && each != '\t' && each != '\n' && each != '\r')) {
      return true;
    }
  }
  return false;
}

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::optional<instant> read_calendar(const std::string& text) {
  std::tm parts{};
  const char* const rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) {
    return std::nullopt;
  }
  std::int64_t fraction = 0;
  const char* at = rest;
  if (*at == '.') {
    std::int64_t unit = 100'000;
    for (++at; *at >= '0' && *at <= '9'; ++at, unit /= 10) {
      fraction += unit * (*at - '0');
    }
  }
  std::tm zone{};
  const bool has_zone = *at == 'Z' || *at == '+' || *at == '-';
  if (const char* const end = has_zone ? ::strptime(at, "%z", &zone) : nullptr; end == nullptr || *end != '\0') {
    return std::nullopt;
  }
  const std::time_t seconds = ::timegm(&parts);
  const instant when(microseconds(static_cast<std::int64_t>(seconds) * 1'000'000 + fraction));
  const bool is_a_day = time_text(std::chrono::floor<std::chrono::seconds>(when)).substr(0, 19) == text.substr(0, 19);
  return is_a_day ? std::optional(when - std::chrono::seconds(zone.tm_gmtoff)) : std::nullopt;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789 .-%~>") == std::string::npos;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char each) { return (static_cast<unsigned char>(each) & 0xC0) != 0x80; }));
}

}  // namespace

std::string time_text(instant when) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(when);
  const std::time_t seconds = whole.time_since_epoch().count();
  std::tm parts{};
  std::array<char, 40> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr || parts.tm_year > 9999 - 1900 || parts.tm_year < -1900) {
    return when < instant() ? "before all time" : "end of time";
  }
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string all = text.data();
  if (const auto rest = (when - whole).count(); rest != 0) {
    std::snprintf(text.data(), text.size(), ".%06lld", static_cast<long long>(rest));
    all += text.data();
  }
  return all + "Z";
}

instant read_time(const std::string& option, const std::string& text, instant now) {
  if (text == "now") {
    return now;
  }
  if (const std::optional<instant> when = read_calendar(text)) {
    return *when;
  }
  const bool back = text.starts_with("-");
  try {
    const auto delay = durable::saturating_microseconds(common::read_duration(back ? text.substr(1) : text));
    return durable::saturating_add(now, back ? -delay : delay);
  } catch (const common::duration_error& error) {
    throw failure(exit_status::usage, option + ": '" + one_line(text) + "' is no time: give one such as " +
                                          "2026-11-23T18:00:00Z, 'now', or a duration from now on, such as 30min or " +
                                          "-2h (" + error.what() + ")");
  }
}

std::string from_now(instant when, instant now) {
  const bool past = when < now;
  const double seconds = std::abs(std::chrono::duration<double>(when.time_since_epoch()).count() -
                                  std::chrono::duration<double>(now.time_since_epoch()).count());
  struct unit {
    double seconds;
    const char* name;
  };
  constexpr std::array units = {unit{86400, " d"}, unit{3600, " h"}, unit{60, " min"}, unit{1, " s"}};
  const auto fits =
      std::find_if(units.begin(), units.end(), [&](const unit& each) { return seconds >= 2 * each.seconds; });
  const unit chosen = fits == units.end() ? units.back() : *fits;
  std::ostringstream text;
  text << std::fixed << std::setprecision(chosen.seconds == 1 && seconds < 10 ? 1 : 0) << seconds / chosen.seconds
       << chosen.name;
  return past ? text.str() + " ago" : "in " + text.str();
}

std::string since(instant when, instant now) {
  const std::string text = from_now(when, now);
  return text.substr(0, text.find(" ago"));
}

double seconds_since(instant when, instant now) {
  return std::max(0.0, std::chrono::duration<double>(now - when).count());
}

bool is_text(std::string_view bytes) { return is_utf8(bytes) && !has_control(bytes); }

std::string one_line(std::string_view bytes, std::size_t most) {
  const bool text = is_text(bytes);
  std::string line;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char each = bytes[at];
    const auto byte = static_cast<unsigned char>(each);
    const bool is_ambiguous = bytes.substr(at).starts_with("\\x");  // as if it were escaped
    const bool begins = (byte & 0xC0) != 0x80;
    if (begins && line.size() >= most) {
      return line + "...";
    }
    if ((each >= ' ' && each <= '~' && !is_ambiguous) || (text && byte >= 0x80)) {
      line += each;
    } else {
      std::array<char, 5> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(byte));
      line += escaped.data();
    }
  }
  return line;
}

std::string unescaped(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    unsigned byte = 0;
    const bool escaped = text.size() >= 4 && text.starts_with("\\x") &&
                         std::from_chars(text.data() + 2, text.data() + 4, byte, 16).ptr == text.data() + 4;
    bytes += escaped ? static_cast<char>(byte) : text.front();
    text.remove_prefix(escaped ? 4 : 1);
  }
  return bytes;
}

std::string without_ids(std::string_view text) {
  const auto is_digit = [](char each) { return each >= '0' && each <= '9'; };
  const auto is_in_word = [](char each) { return each == '-' || std::isalnum(static_cast<unsigned char>(each)) != 0; };
  std::string folded;
  while (!text.empty()) {
    const auto length = std::find_if_not(text.begin(), text.end(), is_in_word) - text.begin();
    const std::string_view word = text.substr(0, std::max<std::size_t>(static_cast<std::size_t>(length), 1));
    text.remove_prefix(word.size());
    const bool is_id = word.size() >= 8 &&
                       word.find_first_not_of("0123456789abcdefABCDEF-x") == std::string_view::npos &&
                       std::any_of(word.begin(), word.end(), is_digit);
    for (const char each : word) {
      if (!is_id && !is_digit(each)) {
        folded += each;
      } else if (!folded.ends_with('#')) {
        folded += '#';
      }
    }
  }
  return folded;
}

void set_bytes(json& object, const std::string& name, std::string_view bytes) {
  if (is_text(bytes)) {
    object[name] = bytes;
  } else {
    object[name + "_base64"] = to_base64(bytes);
  }
}

std::string kind_text(const std::string& kind) { return is_utf8(kind) ? kind : one_line(kind, kind.size() * 4); }

void set_kind(json& object, const std::string& kind) {
  object["kind"] = kind_text(kind);
  if (!is_utf8(kind)) {
    object["kind_base64"] = to_base64(kind);
  }
}

std::string text_of(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

std::optional<std::int64_t> read_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// RFC 4648, section 4.
std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    unsigned bits = 0;
    for (std::size_t each = 0; each < 3; ++each) {
      bits = bits << 8U | (each < count ? static_cast<unsigned char>(bytes[at + each]) : 0U);
    }
    for (std::size_t each = 0; each < 4; ++each) {
      text += each <= count ? digits[bits >> (18U - 6U * each) & 63U] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  unsigned bits = 0;
  for (std::size_t at = 0; at < text.size() - padding; ++at) {
    const std::size_t value = digits.find(text[at]);
    if (value == std::string_view::npos) {
      return std::nullopt;
    }
    bits = bits << 6U | static_cast<unsigned>(value);
    if (at % 4 != 0) {
      bytes += static_cast<char>(bits >> (6U - 2U * (at % 4)) & 0xFFU);
    }
  }
  return bytes;
}

void write_hex(std::ostream& out, std::string_view bytes) {
  constexpr std::size_t in_line = 16;
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  for (std::size_t begin = 0; begin < bytes.size(); begin += in_line) {
    const std::string_view line = bytes.substr(begin, in_line);
    text << "  " << std::setw(6) << begin << ' ';
    for (const char each : line) {
      text << ' ' << std::setw(2) << static_cast<unsigned>(static_cast<unsigned char>(each));
    }
    text << std::string(3 * (in_line - line.size()) + 2, ' ');
    for (const char each : line) {
      text << (each >= ' ' && each <= '~' ? each : '.');
    }
    text << '\n';
  }
  out << text.str();
}

void table::write(std::ostream& out) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width_of(row[column]), ' ');
      const bool right = rows_.size() > 1 && is_number(rows_[1][column]);
      line += (column == 0 ? "" : "  ") + (right ? padding + row[column] : row[column] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

}  // namespace timing_wheel::desk
