#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/program.hpp"
#include "timing_wheel/durable/request.hpp"

namespace order_compensation {

class shop_place;

/// The name of the node of a worker.
[[nodiscard]] inline std::string node_of_worker(std::int64_t number) { return "worker-" + std::to_string(number); }

/// What was begun went with the connection, or the database undid it for the sake of others: it can be done again, on a
/// new connection. If it was a commit, it may have been done all the same.
class try_again : public common::failure {
 public:
  using common::failure::failure;
};

/// A connection of the shop's own to its database. All values are whole numbers.
///
/// Thread safety: as a plain object.
class database {
 public:
  database() = default;
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  virtual ~database() = default;

  /// Statements without parameters. \throws common::failure with the database's words; so do the others.
  virtual void execute(const std::string& sql) = 0;
  /// One statement, with the parameters $1, $2, … \returns the values of all rows, one row behind the other; NULL is 0.
  template <class... Values>
  std::vector<std::int64_t> run(const char* sql, Values... values) {
    const std::array<std::int64_t, sizeof...(Values)> all{static_cast<std::int64_t>(values)...};
    return run_with(sql, all);
  }
  /// The one value that a query answers; 0 if there is none.
  template <class... Values>
  [[nodiscard]] std::int64_t ask(const char* sql, Values... values) {
    const std::vector<std::int64_t> answer = run(sql, values...);
    return answer.empty() ? 0 : answer.front();
  }

  /// Begins a transaction that may write.
  virtual void begin() = 0;
  virtual void commit() = 0;
  /// Does nothing if there is no transaction.
  virtual void roll_back() noexcept = 0;

  /// In the transaction that is open.
  virtual timing_wheel::durable::scheduled schedule(const timing_wheel::durable::request& asked) = 0;
  virtual timing_wheel::cancel_result cancel(std::string_view kind, std::string_view key) = 0;

  /// Microseconds of the clock of the checks.
  [[nodiscard]] virtual std::int64_t now() = 0;
  /// The table of the checks, as its documentation describes it.
  [[nodiscard]] virtual const char* check_table() const noexcept = 0;
  /// The table of the shares that nodes divide among themselves; null if they do not.
  [[nodiscard]] virtual const char* share_table() const noexcept { return nullptr; }
  /// An expression: the bytes of a text.
  [[nodiscard]] virtual std::string bytes_of(const std::string& text) const = 0;

 private:
  virtual std::vector<std::int64_t> run_with(const char* sql, std::span<const std::int64_t> values) = 0;
};

/// A transaction that may write: undone at the end, unless it was committed.
class write_transaction {
 public:
  explicit write_transaction(database& on) : on_(on) { on_.begin(); }
  write_transaction(const write_transaction&) = delete;
  write_transaction& operator=(const write_transaction&) = delete;
  ~write_transaction() {
    if (open_) {
      on_.roll_back();
    }
  }

  void commit() {
    on_.commit();
    open_ = false;
  }

 private:
  database& on_;
  bool open_ = true;
};

/// A connection that outlives its database: a new one is made for as long as a minute.
///
/// Thread safety: as a plain object.
class patient_connection {
 public:
  /// \param place must outlive this.
  explicit patient_connection(const shop_place& place) : place_(place) {}

  /// Calls `work` until it does not throw `try_again`.
  void use(const std::function<void(database&)>& work);
  /// The same, for one value.
  [[nodiscard]] std::int64_t get(const std::function<std::int64_t(database&)>& work);
  /// The one value that a query answers; 0 if there is none.
  [[nodiscard]] std::int64_t ask(const char* sql);

 private:
  const shop_place& place_;
  std::unique_ptr<database> open_;
};

/// What differs between databases in the tables of a shop.
struct shop_tables {
  const char* key = "BIGINT PRIMARY KEY";        ///< A number that is given.
  const char* numbered = "INTEGER PRIMARY KEY";  ///< A number that the database gives.
  const char* mark = "";                         ///< Statements that say whose tables they are, and of which version.
};

inline constexpr std::int64_t shop_version = 3;

/// Makes the tables of a shop beside those of the checks, and fills its stock. In the transaction that is open.
void make_tables(database& in, const shop_tables& words);

}  // namespace order_compensation
