#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "durable/postgres/opening.hpp"

namespace timing_wheel::durable::postgres {

/// Connections that are opened when they are needed, and kept. Thread safety: any thread.
class pool {
 public:
  /// Holds one of them for as long as it lives. At its end the connection goes back, or away if it does not work any
  /// more.
  class guard {
   public:
    /// \param within for each answer, that to a try to connect included; none: as the options say.
    explicit guard(pool& from, std::optional<std::chrono::milliseconds> within = {})
        : from_(from), within_(within), connection_(from.borrow(within)) {
      connection_->answer_within = within;
    }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { from_.give_back(std::move(connection_)); }

    [[nodiscard]] connection& operator*() const noexcept { return *connection_; }
    [[nodiscard]] connection* operator->() const noexcept { return connection_.get(); }
    /// Puts a new connection in the place of one that has turned out to be dead.
    void renew();

   private:
    pool& from_;
    const std::optional<std::chrono::milliseconds> within_;
    std::unique_ptr<connection> connection_;
  };

  /// \param most connections at a time.
  pool(const std::string& conninfo, std::size_t most, const postgres_options& options, const connection_rules& rules)
      : address_(conninfo, rules), most_(most), options_(options), rules_(rules) {
    idle_.reserve(most);
  }

  /// Gives all up without a word to the server: in a child of `fork` they are the parent's.
  void abandon();

 private:
  using limit = std::optional<std::chrono::milliseconds>;

  [[nodiscard]] std::unique_ptr<connection> borrow(limit within);
  [[nodiscard]] std::unique_ptr<connection> connect(limit within) const;
  void give_back(std::unique_ptr<connection> used) noexcept;

  const address address_;
  const std::size_t most_;
  const postgres_options& options_;
  const connection_rules& rules_;

  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<connection>> idle_;  // the one that was used last is at the end
  std::size_t open_ = 0;                           // in use ones included
};

}  // namespace timing_wheel::durable::postgres
