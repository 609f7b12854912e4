#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "durable/postgres/connection.hpp"

namespace timing_wheel::durable::postgres {

/// A connection string that has been read.
class address {
 public:
  /// \throws timer_error (`invalid_option`), without a word of the string: any of them may be a part of a password.
  /// \param rules what the session has to have.
  address(const std::string& conninfo, const connection_rules& rules);

  /// Connects, and tries again for as long as `timeout` says: all hosts, with pauses that grow and are never the same.
  /// What time does not mend, such as a wrong password, ends it at once. \throws timer_error, without a password.
  /// \param urgent the pauses stay short.
  [[nodiscard]] std::unique_ptr<connection> connect(std::chrono::milliseconds timeout, const connection_rules& rules,
                                                    bool urgent = false) const;

 private:
  struct tried;
  struct setting {
    std::string name;
    std::string value;
  };

  [[nodiscard]] std::string options_of_user() const;
  [[nodiscard]] tried try_once(std::chrono::steady_clock::time_point until, std::size_t first_host) const;
  [[nodiscard]] std::vector<setting> settings_from(std::size_t first_host) const;
  [[nodiscard]] std::string scrubbed(std::string text, const PGconn* of) const;

  std::vector<setting> settings_;
  std::size_t hosts_ = 1;
};

}  // namespace timing_wheel::durable::postgres
