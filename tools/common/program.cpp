#include "common/program.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <new>
#include <ostream>
#include <sstream>

namespace common {
namespace {

/// What the system said last, if it said something.
std::string why() { return errno == 0 ? "" : std::string(": ") + std::strerror(errno); }

/// The largest number if the system does not tell.
std::uint64_t available_memory() {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    available = limit.rlim_cur;
  }
  std::ifstream in("/proc/meminfo");
  for (std::string name; in >> name; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    std::uint64_t kib = 0;
    if (name == "MemAvailable:" && in >> kib) {
      available = std::min(available, kib * 1024);
    }
  }
  return available;
}

}  // namespace

std::string program_name(const char* own) {
  const char* const command = std::getenv("TIMING_WHEEL_COMMAND");
  return command == nullptr || *command == '\0' ? own : command;
}

int run_program(const char* own, const std::function<int()>& run) {
  const auto fail = [own](const char* message, int status) {
    std::cerr << program_name(own) << ": " << message << '\n';
    return status;
  };
  report_large_files();
  try {
    return run();
  } catch (const usage_error& error) {
    return fail(error.what(), exit_usage);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", exit_failed);
  } catch (const std::exception& error) {
    return fail(error.what(), exit_failed);
  }
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t end = digits.size(); end > 3; end -= 3) {
    digits.insert(end - 3, " ");
  }
  return digits;
}

std::string with_decimals(double number, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << number;
  const std::string digits = text.str();
  const std::size_t point = std::min(digits.find('.'), digits.size());
  return grouped(std::stoull(digits.substr(0, point))) + digits.substr(point);
}

std::string quoted(std::string_view field) {
  constexpr std::size_t longest = 40;
  std::string text(field.substr(0, longest));
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  }
  return "'" + text + (field.size() > longest ? "…'" : "'");
}

void report_large_files() noexcept { std::signal(SIGXFSZ, SIG_IGN); }

void check_memory(const std::string& what, std::uint64_t bytes) {
  constexpr std::uint64_t mib = 1U << 20U;
  if (const std::uint64_t available = available_memory(); bytes > available) {
    throw usage_error(what + " need at least " + grouped(bytes / mib) + " MiB of memory, and " +
                      grouped(available / mib) + " MiB are available");
  }
}

void check_target(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored)) {
    return;  // its reader would take our coming and going for the end
  }
  const bool was_there = std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  errno = 0;
  if (!std::ofstream(path, std::ios::app)) {
    throw usage_error(option + ": cannot write " + path + why());
  }
  if (!was_there) {
    std::filesystem::remove(path, ignored);
  }
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream out(path, std::ios::trunc);
  write(out);
  out.close();  // flushes, and fails if anything before it did
  if (!out) {
    throw failure("cannot write " + path + why());
  }
}

// An output that is longer than the buffer has failed before: what the system said then is lost, and one more byte lets
// it say that again.
void finish_output(std::ostream& out) {
  const bool failed_before = !out;
  errno = 0;
  if (!out.flush()) {
    if (failed_before && &out == &std::cout) {
      static_cast<void>(::write(STDOUT_FILENO, "\n", 1) == 1);
    }
    throw failure("cannot write to standard output" + why());
  }
}

}  // namespace common
