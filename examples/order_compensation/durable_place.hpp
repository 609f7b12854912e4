#pragma once

#include <memory>
#include <string>

#include "durable_database.hpp"
#include "durable_options.hpp"
#include "timing_wheel/durable/store.hpp"

namespace order_compensation {

/// Where a shop keeps its orders and its checks.
///
/// Thread safety: const members may be called from any thread.
class shop_place {
 public:
  shop_place() = default;
  shop_place(const shop_place&) = delete;
  shop_place& operator=(const shop_place&) = delete;
  virtual ~shop_place() = default;

  /// Makes the tables of the checks, and those of the shop beside them; or leaves them as they are.
  /// \throws usage_error if it cannot be used, or has the tables of something else.
  virtual void prepare() = 0;

  /// For a scheduler. \throws timer_error.
  [[nodiscard]] virtual std::unique_ptr<timing_wheel::durable::store> open_store() const = 0;
  /// \throws try_again, if it may be there later.
  [[nodiscard]] virtual std::unique_ptr<database> connect() const = 0;
  /// The connection of a handler's transaction.
  [[nodiscard]] virtual std::unique_ptr<database> within(timing_wheel::durable::transaction& open) const = 0;

  /// For the `--store` of another process.
  [[nodiscard]] virtual std::string argument() const = 0;
  /// For people: without a password.
  [[nodiscard]] virtual std::string name() const { return argument(); }

  /// It was made for this run, and goes with the object.
  [[nodiscard]] virtual bool own() const noexcept { return false; }
  /// It stays after all, to be looked at.
  virtual void keep() {}
  /// Kills the server, and starts it again. Only where it is our own.
  virtual void kill_server() {}
};

/// \throws usage_error if this program was built without it.
[[nodiscard]] std::unique_ptr<shop_place> make_place(const store_choice& chosen);

/// A file. Empty: one of its own, beside the program.
[[nodiscard]] std::unique_ptr<shop_place> sqlite_place(const std::string& file);
/// A server. None: one of its own, in a folder beside the program.
[[nodiscard]] std::unique_ptr<shop_place> postgres_place(const std::string& conninfo);
[[nodiscard]] std::unique_ptr<shop_place> private_postgres_place();

}  // namespace order_compensation
