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
#include <deque>
#include <istream>
#include <memory>
#include <stdexcept>
#include <string>

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

/// A row that cannot be used; `what` says why.
class row_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A line that the parser cannot read as it is.
struct line_fault {
  unsigned line = 1;
  bool is_long = false;  ///< Else it has a NUL byte.

  [[nodiscard]] const char* what() const {
    return is_long ? "the line is longer than 16 MiB" : "there is a NUL byte, so the line is not text";
  }
};

/// Bytes for the parser, with a line break at the end: without one it would look at the byte behind the last. Cuts
/// lines that are too long for the parser, replaces NUL bytes, which it takes for the end of a field, and notes these
/// lines. If the first is one of them, throws file_error: a file that is no text may have no second line.
class line_source : public io::ByteSourceBase {
 public:
  line_source(std::istream& in, std::deque<line_fault>& faults) : in_(in), faults_(faults) {}

  int read(char* buffer, int size) override {
    int kept = 0;
    while (!ended_ && kept < size) {
      in_.read(buffer + kept, size - kept);
      const auto got = static_cast<int>(in_.gcount());
      ended_ = got < size - kept;
      kept += keep(buffer + kept, got);
      if (ended_) {
        buffer[kept++] = '\n';
      }
    }
    return kept;
  }

 private:
  /// \returns how many bytes are left; they come first.
  int keep(char* bytes, int count) {
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      if (bytes[i] == '\0') {
        note({line_});
      }
      if (bytes[i] == '\n') {
        ++line_;
        length_ = 0;
      } else if (++length_ > longest) {
        note({line_, true});
        length_ = longest;
        continue;
      }
      bytes[kept++] = bytes[i] == '\0' ? '?' : bytes[i];
    }
    return kept;
  }

  void note(line_fault fault) {
    if (fault.line == 1) {
      throw file_error(fault.line, fault.what());
    }
    if (faults_.empty() || faults_.back().line != fault.line) {
      faults_.push_back(fault);
    }
  }

  static constexpr int longest = (1 << 24) - 1;

  std::istream& in_;
  std::deque<line_fault>& faults_;
  unsigned line_ = 1;
  int length_ = 0;  // of the line, without its break
  bool ended_ = false;
};

/// CSV. Fields may be quoted, lines may end with CR LF, a byte order mark is skipped, and so are blank lines. A quoted
/// field cannot contain a line break.
template <unsigned Columns>
class csv_table {
 public:
  /// \throws file_error if the first line is too long, or no text.
  explicit csv_table(std::istream& in) : csv_("", std::make_unique<line_source>(in, faults_)) {}

  /// There may be other columns. Without a call, each row has all columns, in their order.
  /// \throws file_error or io::error::base.
  template <class... Names>
  void read_header(Names... names) {
    csv_.read_header(io::ignore_extra_column, names...);
    if (const char* const why = fault_of_line()) {
      throw file_error(line(), why);
    }
  }

  /// The fields stay until the next call. \returns false at the end.
  /// \throws row_error, after which the next row can be read.
  template <class... Fields>
  [[nodiscard]] bool read_row(Fields&... fields) {
    const char* why = nullptr;
    bool more = true;
    try {
      more = csv_.read_row(fields...);
    } catch (const io::error::too_few_columns&) {
      why = "too few columns";
    } catch (const io::error::too_many_columns&) {
      why = "too many columns";
    } catch (const io::error::escaped_string_not_closed&) {
      why = "a quote is not closed";
    }
    if (const char* const fault = fault_of_line()) {
      why = fault;
    }
    if (why != nullptr) {
      throw row_error(why);
    }
    return more;
  }

  /// That of the row read last; the first is 1.
  [[nodiscard]] std::uint64_t line() const { return std::max(csv_.get_file_line(), 1U); }

 private:
  /// Forgets the faults until that of this line.
  const char* fault_of_line() {
    const char* why = nullptr;
    for (; !faults_.empty() && faults_.front().line <= line(); faults_.pop_front()) {
      why = faults_.front().line == line() ? faults_.front().what() : nullptr;
    }
    return why;
  }

  std::deque<line_fault> faults_;  // of lines that the source has read, and the parser has not
  io::CSVReader<Columns, io::trim_chars<' ', '\t'>, io::double_quote_escape<',', '"'>, io::throw_on_overflow,
                io::empty_line_comment>
      csv_;
};

}  // namespace common
