#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "durable/postgres/schema.hpp"
#include "durable/postgres/users_call.hpp"

namespace timing_wheel::durable {

using postgres::parameters;
using postgres::query;
using postgres::result;

// The statements are prepared under names that no other session has: two of them may be on one connection.
//
// The server keeps the plan of a prepared statement. One from the days of an almost empty table reads the whole table,
// and we may not tell a user's planner what to do; so what searches is prepared anew each second, and planned for the
// table as it is then. An INSERT searches nothing.
class postgres_session::implementation final : public postgres::users_call {
 public:
  implementation(PGconn* connection, const postgres_target& target)
      : users_call(connection),
        schema_(target.schema),
        prefix_(postgres::prefix_of(target.schema)),
        limits_(target.limits) {
    if (connection == nullptr) {
      postgres::fail("using a connection", "08003", "there is none");
    }
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;
  ~implementation() override { forget(); }

  [[nodiscard]] const request_limits& limits() const { return limits_; }
  // To be called before each call. The user may have connected anew.
  void begin() {
    postgres::check_usable(connection());
    const int backend = PQbackendPID(connection());
    if (backend == backend_) {
      return;
    }
    prepared_.clear();
    const result shown = postgres::run_once(connection(), prefix_, postgres::sql::read_clock, {});
    postgres::check_answer(shown, connection(), postgres::sql::read_clock);
    postgres::check_version(shown.integer(0, 1), schema_);
    backend_ = backend;
  }

 private:
  using clock = std::chrono::steady_clock;
  struct prepared {
    const query* which;
    std::string name;
    clock::time_point since;
  };
  static constexpr std::chrono::seconds plan_lifetime{1};

  result run(const query& which, const parameters& values) override {
    result answer(PQexecPrepared(connection(), prepare(which).c_str(), values.count(), values.values(),
                                 values.lengths(), values.formats(), 1));
    postgres::check_answer(answer, connection(), which);
    return answer;
  }
  const std::string& prepare(const query& which);
  void forget() noexcept;

  std::string schema_;
  std::string prefix_;
  request_limits limits_;
  int backend_ = 0;
  std::vector<prepared> prepared_;
};

const std::string& postgres_session::implementation::prepare(const query& which) {
  static std::atomic<std::uint64_t> names = 0;
  const auto now = clock::now();
  const auto known =
      std::find_if(prepared_.begin(), prepared_.end(), [&](const prepared& each) { return each.which == &which; });
  const bool searches = &which != &postgres::sql::users_insert_at && &which != &postgres::sql::users_insert_after;
  if (known != prepared_.end()) {
    if (!searches || now - known->since < plan_lifetime) {
      return known->name;
    }
    const result gone(PQexec(connection(), ("DEALLOCATE " + known->name).c_str()));
    postgres::check_answer(gone, connection(), which);
    prepared_.erase(known);
  }
  std::string name = "timing_wheel_session_" + std::to_string(names.fetch_add(1, std::memory_order_relaxed));
  const result made(PQprepare(connection(), name.c_str(), postgres::text_of(which.sql, prefix_).c_str(), 0, nullptr));
  postgres::check_answer(made, connection(), which);
  return prepared_.emplace_back(prepared{&which, std::move(name), now}).name;
}

// Where that is possible at once: else they stay as long as the connection.
void postgres_session::implementation::forget() noexcept {
  try {
    postgres::check_usable(connection());
    if (prepared_.empty() || PQstatus(connection()) != CONNECTION_OK || PQbackendPID(connection()) != backend_ ||
        PQtransactionStatus(connection()) == PQTRANS_INERROR) {
      return;
    }
    std::string all;
    for (const prepared& each : prepared_) {
      all.append("DEALLOCATE ").append(each.name).append(";");
    }
    const result gone(PQexec(connection(), all.c_str()));
  } catch (...) {  // NOLINT(bugprone-empty-catch): busy
  }
}

postgres_session::postgres_session(pg_conn* connection, const postgres_target& target)
    : implementation_(std::make_unique<implementation>(connection, target)) {}
postgres_session::postgres_session(postgres_session&& other) noexcept = default;
postgres_session& postgres_session::operator=(postgres_session&& other) noexcept = default;
postgres_session::~postgres_session() = default;

scheduled postgres_session::schedule(const request& asked) {
  validate(asked, implementation_->limits());
  implementation_->begin();
  return implementation_->schedule(asked);
}

cancel_answer postgres_session::cancel(std::string_view kind, std::string_view key) {
  implementation_->begin();
  return implementation_->cancel(kind, key);
}

reschedule_result postgres_session::reschedule(std::string_view kind, std::string_view key, due_time due) {
  implementation_->begin();
  return implementation_->reschedule(kind, key, due);
}

}  // namespace timing_wheel::durable
