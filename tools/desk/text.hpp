#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/durable/request.hpp"

// What is written for people and for programs, and read from them.

namespace timing_wheel::desk {

using durable::instant;
using json = nlohmann::ordered_json;

/// Each way to end, as docs/desk.md lists them.
enum class exit_status : std::uint8_t { done = 0, nothing_matched = 1, usage = 2, no_store = 3, refused = 4 };

/// Ends the program with this status and this one line.
class failure : public std::runtime_error {
 public:
  failure(exit_status status, const std::string& why) : std::runtime_error(why), status_(status) {}

  [[nodiscard]] exit_status status() const noexcept { return status_; }

 private:
  exit_status status_;
};

/// "2026-11-23T18:00:00.25Z"; "end of time" where the calendar ends.
[[nodiscard]] std::string time_text(instant when);
/// Reads "2026-11-23T18:00:00Z", with a fraction or without; "now"; or a duration from now on, such as "30min" or
/// "-2h". \throws failure (usage) that begins with `option`.
[[nodiscard]] instant read_time(const std::string& option, const std::string& text, instant now);
/// "in 30 min", "2 h ago", to people.
[[nodiscard]] std::string from_now(instant when, instant now);
/// "2 h": how long ago it was.
[[nodiscard]] std::string since(instant when, instant now);
/// How many seconds, at least 0.
[[nodiscard]] double seconds_since(instant when, instant now);

/// Whether it is UTF-8 without control characters but for white space, so that it may be shown as it is.
[[nodiscard]] bool is_text(std::string_view bytes);
/// One line for people; what is no text as `\x1b`, and at most `most` bytes of it.
[[nodiscard]] std::string one_line(std::string_view bytes, std::size_t most = 80);
/// The text with `#` for each number, and for what looks like an id: eight hexadecimal digits, x and dashes, or more.
[[nodiscard]] std::string without_ids(std::string_view text);
/// The bytes of which `one_line` has made the text: `\x` and two hexadecimal digits are one.
[[nodiscard]] std::string unescaped(std::string_view text);
/// Sets `name` to the text, or `name_base64` to the bytes if they are no text.
void set_bytes(json& object, const std::string& name, std::string_view bytes);
/// The kind; as `one_line` shows it if it is not UTF-8, as one that SQL has written may be.
[[nodiscard]] std::string kind_text(const std::string& kind);
/// Sets `kind` to that, and also `kind_base64` to the bytes if they are not UTF-8.
void set_kind(json& object, const std::string& kind);
/// \returns none if it is no decimal integer of 64 bits.
[[nodiscard]] std::optional<std::int64_t> read_integer(std::string_view text);
/// In one line, with U+FFFD for bytes that are not UTF-8.
[[nodiscard]] std::string text_of(const json& object);
[[nodiscard]] std::string to_base64(std::string_view bytes);
/// \returns none if it is no base64.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);
/// For lines of hexadecimal bytes, sixteen each, beside their characters.
void write_hex(std::ostream& out, std::string_view bytes);

/// Columns that are as wide as what is in them. The first row names them; numbers stand to the right.
class table {
 public:
  explicit table(std::vector<std::string> names) : rows_{std::move(names)} {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void write(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace timing_wheel::desk
