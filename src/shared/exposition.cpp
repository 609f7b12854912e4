#include "shared/exposition.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

#include "shared/utf8.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::detail {

namespace {

struct bound {
  std::chrono::nanoseconds value;
  const char* seconds;
};

constexpr std::array bounds = {
    bound{std::chrono::nanoseconds(1'000), "1e-06"},        bound{std::chrono::nanoseconds(2'500), "2.5e-06"},
    bound{std::chrono::nanoseconds(5'000), "5e-06"},        bound{std::chrono::nanoseconds(10'000), "1e-05"},
    bound{std::chrono::nanoseconds(25'000), "2.5e-05"},     bound{std::chrono::nanoseconds(50'000), "5e-05"},
    bound{std::chrono::nanoseconds(100'000), "0.0001"},     bound{std::chrono::nanoseconds(250'000), "0.00025"},
    bound{std::chrono::nanoseconds(500'000), "0.0005"},     bound{std::chrono::nanoseconds(1'000'000), "0.001"},
    bound{std::chrono::nanoseconds(2'500'000), "0.0025"},   bound{std::chrono::nanoseconds(5'000'000), "0.005"},
    bound{std::chrono::nanoseconds(10'000'000), "0.01"},    bound{std::chrono::nanoseconds(25'000'000), "0.025"},
    bound{std::chrono::nanoseconds(50'000'000), "0.05"},    bound{std::chrono::nanoseconds(100'000'000), "0.1"},
    bound{std::chrono::nanoseconds(250'000'000), "0.25"},   bound{std::chrono::nanoseconds(500'000'000), "0.5"},
    bound{std::chrono::nanoseconds(1'000'000'000), "1"},    bound{std::chrono::nanoseconds(2'500'000'000), "2.5"},
    bound{std::chrono::nanoseconds(5'000'000'000), "5"},    bound{std::chrono::nanoseconds(10'000'000'000), "10"},
    bound{std::chrono::nanoseconds(25'000'000'000), "25"},  bound{std::chrono::nanoseconds(50'000'000'000), "50"},
    bound{std::chrono::nanoseconds(100'000'000'000), "100"}};

// What std::isalpha says depends on the locale.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(std::string_view name) {
  return !name.empty() && is_letter(name.front()) && !name.starts_with("__") &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_taken(std::string_view name) { return name == "le" || name == "level" || name == "kind"; }

// Of bytes that are not UTF-8, those beyond ASCII become text such as `\xfe`.
void append_value(std::string& to, std::string_view value) {
  const bool is_text = is_utf8(value);
  for (const char& c : value) {
    if (!is_text && static_cast<unsigned char>(c) >= 0x80) {
      append_escaped(to += '\\', {&c, 1});
    } else if (c == '\n') {
      to += "\\n";
    } else {
      to.append(c == '\\' || c == '"' ? "\\" : "") += c;
    }
  }
}

void append_label(std::string& to, std::string_view name, std::string_view value) {
  to += to.back() == '{' ? "" : ",";
  to.append(name).append("=\"");
  append_value(to, value);
  to += '"';
}

void append_number(std::string& to, double value) {
  constexpr double exact_below = 9007199254740992.0;  // 2^53
  std::array<char, 32> digits{};
  char* const last = digits.data() + digits.size();
  const bool whole = std::floor(value) == value && std::abs(value) < exact_below;
  const auto end = whole ? std::to_chars(digits.data(), last, static_cast<std::int64_t>(value))
                         : std::to_chars(digits.data(), last, value);
  to.append(digits.data(), end.ptr);
}

}  // namespace

void validate(const metric_labels& labels) {
  for (auto one = labels.begin(); one != labels.end(); ++one) {
    const std::string& name = one->first;
    const bool twice = std::any_of(labels.begin(), one, [&](const auto& other) { return other.first == name; });
    if (!is_name(name) || is_taken(name) || twice) {
      throw timer_error(timer_errc::invalid_option,
                        "label \"" + name + "\" " +
                            (twice            ? "is there twice"
                             : is_taken(name) ? "is one that the figures have themselves"
                                              : "must be of letters, digits and _, and begin with no digit and no __"));
    }
    if (!is_utf8(one->second)) {
      throw timer_error(timer_errc::invalid_option, "label \"" + name + "\" has a value that is not UTF-8");
    }
  }
}

metric_labels with(metric_labels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

void exposition::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
  text_.append(type).append("\n");
}

void exposition::sample(const metric_labels& labels, double value) { line("", labels, "", value); }

void exposition::sample(const metric_labels& labels, const histogram& durations) {
  for (const bound& each : bounds) {
    line("_bucket", labels, each.seconds, static_cast<double>(durations.count_up_to(each.value)));
  }
  line("_bucket", labels, "+Inf", static_cast<double>(durations.count()));
  line("_sum", labels, "", durations.sum().count());
  line("_count", labels, "", static_cast<double>(durations.count()));
}

void exposition::line(std::string_view suffix, const metric_labels& labels, std::string_view bound, double value) {
  text_.append(name_).append(suffix);
  if (!labels.empty() || !bound.empty()) {
    text_ += '{';
    for (const auto& [name, of] : labels) {
      append_label(text_, name, of);
    }
    if (!bound.empty()) {
      append_label(text_, "le", bound);
    }
    text_ += '}';
  }
  text_ += ' ';
  append_number(text_, value);
  text_ += '\n';
}

}  // namespace timing_wheel::detail
