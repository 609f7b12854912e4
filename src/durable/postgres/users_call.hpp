#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "durable/postgres/connection.hpp"
#include "durable/postgres/sql.hpp"
#include "timing_wheel/durable/postgres_store.hpp"

// Calls in a transaction that is the user's. No setting of the connection is changed.

namespace timing_wheel::durable::postgres {

/// The due time as the statements want it: an instant, or a delay.
struct due_by_sql {
  explicit due_by_sql(due_time due)
      : is_delay(due.is_delay()),
        count(is_delay ? std::min(due.delay().count(), longest_delay) : due.at({}).time_since_epoch().count()),
        step(due.step().count()) {}
  [[nodiscard]] const query& choose(const query& at, const query& after) const { return is_delay ? after : at; }

  bool is_delay;
  std::int64_t count;
  std::int64_t step;  // of a delay
};

/// Runs a statement that is not prepared. \returns what the server has answered, an error included.
[[nodiscard]] result run_once(PGconn* connection, const std::string& prefix, const query& which,
                              const parameters& values);
/// \throws timer_error if no statement can be run on the connection now.
void check_usable(PGconn* connection);
/// \throws timer_error with what the server says, if the answer is an error.
void check_answer(const result& answer, const PGconn* connection, const query& which);

/// The calls, by statements that a derived class runs.
class users_call {
 public:
  users_call(const users_call&) = delete;
  users_call& operator=(const users_call&) = delete;
  virtual ~users_call() = default;

  [[nodiscard]] scheduled schedule(const request& asked);
  [[nodiscard]] cancel_answer cancel(std::string_view kind, std::string_view key);
  [[nodiscard]] reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);

 protected:
  explicit users_call(PGconn* connection) noexcept : connection_(connection) {}
  // \throws timer_error with what the server says.
  [[nodiscard]] virtual result run(const query& which, const parameters& values) = 0;
  [[nodiscard]] PGconn* connection() const noexcept { return connection_; }

 private:
  void check_encoding(std::string_view kind) const;
  [[nodiscard]] result change(const query& which, const parameters& values);
  void execute(const char* text, const query& part_of) const;
  [[nodiscard]] std::optional<instant> write(const query& which, const due_by_sql& due, const request& asked,
                                             bool inserts);
  struct standing {
    instant due;
    bool pending;  // by now: the statement before did not see it so
  };
  [[nodiscard]] std::optional<standing> look_at(std::string_view kind, std::string_view key);
  template <class Result, class Change>
  [[nodiscard]] Result change_pending(const char* doing, std::string_view kind, std::string_view key, Result done,
                                      const Change& attempt);

  PGconn* connection_;
};

}  // namespace timing_wheel::durable::postgres
