#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/timer_handle.hpp"

// Where the torture keeps its orders and checks.

namespace timing_wheel::durable::test {

/// A connection of its own. What fails throws std::runtime_error.
class database {
 public:
  database() = default;
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  virtual ~database() = default;

  /// Begins a transaction that may write.
  virtual void begin() = 0;
  virtual void execute(const std::string& sql) = 0;
  /// The one number that a query answers.
  [[nodiscard]] virtual std::int64_t ask(const std::string& sql) = 0;

  /// In the transaction that is open.
  virtual void schedule(const request& asked) = 0;
  virtual cancel_result cancel(std::string_view kind, std::string_view key) = 0;
};

class place {
 public:
  place() = default;
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  virtual ~place() = default;

  /// Empties it.
  virtual void prepare() = 0;
  [[nodiscard]] virtual std::unique_ptr<store> open_store(std::chrono::milliseconds lease) const = 0;
  [[nodiscard]] virtual std::unique_ptr<database> connect() const = 0;
  /// Ends what dead nodes, and those that are stopped, hold on shares of the table: so a round need not wait for that.
  virtual void end_holds(database& on) const { static_cast<void>(on); }
  /// On the connection of a handler.
  virtual void execute_in(transaction& open, const std::string& sql) const = 0;
  /// The name of the store's table.
  [[nodiscard]] virtual std::string table(const std::string& name) const = 0;
  /// A path for what is told.
  [[nodiscard]] virtual std::string file(const std::string& name) const = 0;
  /// For `place_of` in another process.
  [[nodiscard]] virtual std::string argument() const = 0;
};

/// A file, or "postgres:CONNINFO".
[[nodiscard]] std::unique_ptr<place> place_of(const std::string& argument);
/// A private server.
[[nodiscard]] std::unique_ptr<place> private_place();

}  // namespace timing_wheel::durable::test
