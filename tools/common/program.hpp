#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>

namespace common {

inline constexpr int exit_failed = 1;  ///< The data or the outcome is wrong, or could not be written.
inline constexpr int exit_usage = 2;   ///< See usage_error.

/// An argument, or a file named by one, that cannot be used: the program ends with status 2 and this one line.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Data that are wrong, or an outcome that cannot be written: the program ends with status 1 and this one line.
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the user types to run this program. The script that runs it says so in TIMING_WHEEL_COMMAND; else it is `own`.
[[nodiscard]] std::string program_name(const char* own);

/// What `main` returns: the status of `run`, or one for what it throws, which is told in a line. From then on a write
/// beyond the largest size of a file fails (`report_large_files`).
[[nodiscard]] int run_program(const char* own, const std::function<int()>& run);

/// 1234567 as "1 234 567".
[[nodiscard]] std::string grouped(std::uint64_t number);
[[nodiscard]] std::string with_decimals(double number, int decimals);

/// A field as it can be shown in one short line, in quotes.
[[nodiscard]] std::string quoted(std::string_view field);

/// A write beyond the largest size of a file (`ulimit -f`) fails from now on. Otherwise it ends the program.
void report_large_files() noexcept;

/// \throws usage_error, beginning with `what`, if the system has not so much memory now, or may not give it to this
/// program (`ulimit -v`). Without this, the system would end some program, and not tell why.
void check_memory(const std::string& what, std::uint64_t bytes);

/// Makes sure that a file can be written, and leaves what is there as it is: a run that fails later destroys no older
/// result, and leaves no empty file behind.
/// \throws usage_error with the name of the option.
void check_target(const std::string& option, const std::string& path);

/// Replaces the file by what `write` writes. \throws failure if not all of it could be written.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

/// The last that a program does with its standard output. \throws failure if something written to it was lost.
void finish_output(std::ostream& out);

}  // namespace common
