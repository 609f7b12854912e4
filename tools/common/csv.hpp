#pragma once

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
#include <cstdint>
#include <istream>
#include <stdexcept>
#include <string>
#include <utility>

namespace common {

/// A file of which nothing can be used; `what` says why.
class file_error : public std::runtime_error {
 public:
  file_error(std::uint64_t line, const std::string& reason) : std::runtime_error(reason), line_(line) {}

  /// The first is 1.
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }

 private:
  std::uint64_t line_;
};

/// Bytes for the parser, with a line break at the end: without one it would look at the byte behind the last.
/// A NUL byte throws file_error, because a text has none, and the parser takes it for the end of a field.
class line_source : public io::ByteSourceBase {
 public:
  explicit line_source(std::istream& in) : in_(in) {}

  int read(char* buffer, int size) override {
    in_.read(buffer, size);
    int got = static_cast<int>(in_.gcount());
    const char* const end = buffer + got;
    const char* const nul = std::find(buffer, buffer + got, '\0');
    lines_ += static_cast<std::uint64_t>(std::count(static_cast<const char*>(buffer), nul, '\n'));
    if (nul != end) {
      throw file_error(lines_ + 1, "there is a NUL byte, so the file is not text");
    }
    if (got < size && !ended_) {
      ended_ = true;
      buffer[got++] = '\n';
    }
    return got;
  }

 private:
  std::istream& in_;
  std::uint64_t lines_ = 0;
  bool ended_ = false;
};

template <unsigned Columns>
using csv_reader = io::CSVReader<Columns, io::trim_chars<' ', '\t'>, io::double_quote_escape<',', '"'>,
                                 io::throw_on_overflow, io::empty_line_comment>;

}  // namespace common
