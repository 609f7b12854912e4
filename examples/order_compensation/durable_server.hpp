#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "durable_process.hpp"

namespace order_compensation {

/// A PostgreSQL server of our own, in a new folder beside the program, or where others may go. It is gone with the
/// object, also if this process is killed. As root it runs as the user `postgres`.
///
/// Thread safety: as a plain object.
class private_server {
 public:
  /// \throws common::usage_error that says what to install; common::failure.
  private_server();
  private_server(const private_server&) = delete;
  private_server& operator=(const private_server&) = delete;
  ~private_server();

  [[nodiscard]] std::string conninfo() const;
  /// As a crash does, and starts it again.
  void kill_and_start();
  /// The folder stays, with what is in it.
  void keep();

 private:
  void make_folder();
  void make_server();
  void start() const;
  // Runs one of the server's programs, as its user. \returns whether it ended well.
  [[nodiscard]] bool succeeds(std::vector<std::string> command) const;
  void run(const char* program, std::vector<std::string> arguments) const;
  [[nodiscard]] std::vector<std::string> as_its_user(std::vector<std::string> command) const;

  std::filesystem::path programs_;
  std::filesystem::path folder_;
  std::optional<child_process> guard_;  // waits for our end, and cleans up
};

}  // namespace order_compensation
