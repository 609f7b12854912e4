#pragma once

#include <cstdint>

#include "durable/support/store_calls.hpp"
#ifdef TIMING_WHEEL_TEST_SQLITE
#include "durable/support/sqlite_case.hpp"
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
#include "durable/support/postgres_case.hpp"
#endif

// A store, and a user's own connection beside it: the same for each database, by functions and by a session.

namespace timing_wheel::durable::test {

class users_site {
 public:
  virtual ~users_site() = default;

  [[nodiscard]] virtual std::unique_ptr<store> open() = 0;
  /// The name of a table of ours: "check", "version".
  [[nodiscard]] virtual std::string table(const std::string& name) const = 0;
  /// \throws std::runtime_error
  virtual void run(const std::string& sql) = 0;
  virtual std::string ask(const std::string& sql) = 0;
  virtual scheduled schedule(const request& asked) = 0;
  virtual cancel_answer cancel(std::string_view key) = 0;
  virtual reschedule_result reschedule(std::string_view key, due_time due) = 0;
};

#ifdef TIMING_WHEEL_TEST_SQLITE
template <bool by_session>
class users_file final : public users_site {
 public:
  std::unique_ptr<store> open() override { return std::make_unique<sqlite_store>(folder_.file()); }
  [[nodiscard]] std::string table(const std::string& name) const override {
    return "timing_wheel_" + (name == "version" ? "schema" : name);
  }
  void run(const std::string& sql) override {
    if (user_.run(sql) != SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(user_.get()));
    }
  }
  std::string ask(const std::string& sql) override { return user_.ask(sql); }
  scheduled schedule(const request& asked) override {
    return by_session ? session_.schedule(asked) : durable::schedule(user_.get(), asked);
  }
  cancel_answer cancel(std::string_view key) override {
    return by_session ? session_.cancel("close", key) : durable::cancel(user_.get(), "close", key);
  }
  reschedule_result reschedule(std::string_view key, due_time due) override {
    return by_session ? session_.reschedule("close", key, due) : durable::reschedule(user_.get(), "close", key, due);
  }

 private:
  scratch_folder folder_;
  users_database user_{folder_.file()};
  sqlite_session session_{user_.get()};
};
#endif

#ifdef TIMING_WHEEL_TEST_POSTGRES
template <bool by_session>
class users_schema final : public users_site {
 public:
  std::unique_ptr<store> open() override {
    return std::make_unique<postgres_store>(server().conninfo(), options_in(schema_));
  }
  [[nodiscard]] std::string table(const std::string& name) const override { return schema_ + "." + name; }
  void run(const std::string& sql) override { user_.execute(sql); }
  std::string ask(const std::string& sql) override { return user_.ask(sql); }
  scheduled schedule(const request& asked) override {
    return by_session ? session_.schedule(asked) : durable::schedule(user_.get(), asked, target_);
  }
  cancel_answer cancel(std::string_view key) override {
    return by_session ? session_.cancel("close", key) : durable::cancel(user_.get(), "close", key, target_);
  }
  reschedule_result reschedule(std::string_view key, due_time due) override {
    return by_session ? session_.reschedule("close", key, due)
                      : durable::reschedule(user_.get(), "close", key, due, target_);
  }

 private:
  const std::string schema_ = new_schema();
  const postgres_target target_{.schema = schema_};
  sql_session user_{server().conninfo()};
  durable::postgres_session session_{user_.get(), target_};
};
#endif

struct users_way {
  const char* name;
  std::unique_ptr<users_site> (*make)();
};
template <class Place>
std::unique_ptr<users_site> make_site() {
  return std::make_unique<Place>();
}
inline constexpr users_way users_ways[] = {
#ifdef TIMING_WHEEL_TEST_SQLITE
    {"Sqlite", make_site<users_file<false>>},
    {"SqliteSession", make_site<users_file<true>>},
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
    {"Postgres", make_site<users_schema<false>>},
    {"PostgresSession", make_site<users_schema<true>>},
#endif
};

/// Has no tables yet.
class UsersPlace : public testing::TestWithParam<users_way> {  // NOLINT(readability-identifier-naming): a suite
 private:
  const std::unique_ptr<users_site> made_ = GetParam().make();
  const std::unique_ptr<durable::store> opened_ = made_->open();

 public:
  users_site& user = *made_;
  durable::store& store = *opened_;
};

}  // namespace timing_wheel::durable::test
