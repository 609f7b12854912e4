#include "durable/postgres/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "durable/postgres/sql.hpp"
#include "durable/store/fnv.hpp"
#include "shared/thread_setup.hpp"
#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable::postgres {

namespace {

// How much longer than the server this side waits, so that the server's own words come first.
constexpr std::chrono::seconds patience(1);

std::string field(const result& answer, int which) {
  const char* found = answer ? PQresultErrorField(answer.get(), which) : nullptr;
  return found == nullptr ? "" : found;
}

// Of what libpq says itself, the first line.
std::string own_words(const PGconn* connection) {
  const std::string text = PQerrorMessage(connection);
  return text.empty() ? "the connection is lost" : text.substr(0, text.find('\n'));
}

bool is_error(const result& answer) {
  const ExecStatusType status = PQresultStatus(answer.get());
  return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY;
}

// With the name comes which text it is for: sessions that meet behind a pooler may have other tables, or be of another
// version. The text has the schema in it.
std::string name_for(const char* name, std::string_view text) {
  const std::uint64_t hash = fnv1a(text);
  std::string all = std::string(name) + "_";
  for (int shift = 60; shift >= 0; shift -= 4) {
    all.push_back("0123456789abcdef"[(hash >> shift) & 15]);
  }
  return all;
}

// Keeps the words by which the server says that it waits for a standby no longer, as long as this lives. A trigger may
// warn of other things.
class kept_warning {
 public:
  explicit kept_warning(PGconn* from) : from_(from), before_(PQsetNoticeReceiver(from, keep, &words_)) {}
  kept_warning(const kept_warning&) = delete;
  kept_warning& operator=(const kept_warning&) = delete;
  ~kept_warning() { PQsetNoticeReceiver(from_, before_, nullptr); }  // libpq's own looks at no argument

  [[nodiscard]] bool came() const noexcept { return !words_.empty(); }
  /// Of a commit. \throws timer_error if one came.
  void refuse() const {
    if (came()) {
      fail("committing", "40003", "it is done here, but may not be on a standby: " + words_);
    }
  }

 private:
  static void keep(void* into, const PGresult* notice) noexcept {
    const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char* from = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    if (severity == nullptr || std::string_view(severity) != "WARNING" || from == nullptr ||
        std::string_view(from) != "SyncRepWaitForLSN") {
      return;
    }
    const char* text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
    auto& words = *static_cast<std::string*>(into);
    try {
      words.assign(text == nullptr ? "a warning" : text);
    } catch (const std::bad_alloc&) {
      words.assign("a warning");  // short enough to need no memory
    }
  }

  std::string words_;
  PGconn* const from_;
  const PQnoticeReceiver before_;
};

}  // namespace

std::string prefix_of(std::string_view schema) {
  std::string name = "\"";
  for (const char each : schema) {
    name.append(each == '"' ? 2 : 1, each);
  }
  return name.append("\".");
}

std::string text_of(const char* sql, std::string_view prefix) {
  std::string text;
  bool in_quotes = false;
  for (const char* each = sql; *each != '\0'; ++each) {
    in_quotes = in_quotes != (*each == '\'');
    if (*each != '@') {
      text.push_back(*each);
      continue;
    }
    for (const char of_name : prefix) {
      text.append(in_quotes && of_name == '\'' ? 2 : 1, of_name);
    }
  }
  return text;
}

void fail(std::string_view doing, std::string_view sqlstate, std::string_view text) {
  throw timer_error(code_of(sqlstate), std::string(doing).append(": ").append(text));
}

void fail(const result& answer, const PGconn* connection, std::string_view doing) {
  const std::string sqlstate = field(answer, PG_DIAG_SQLSTATE);
  std::string text = field(answer, PG_DIAG_MESSAGE_PRIMARY);
  if (sqlstate.size() != 5) {
    fail(doing, "08006", own_words(connection));
  }
  if (sqlstate == "42P01" || sqlstate == "3F000") {
    throw timer_error(make_error_code(errc::no_schema), std::string(doing).append(": ").append(text));
  }
  if (sqlstate == "55P03") {
    throw timer_error(make_error_code(errc::row_locked), std::string(doing).append(": ").append(text));
  }
  if (sqlstate == "26000" || sqlstate == "42P05") {
    text.append("; ").append(behind_a_pooler);
  }
  fail(doing, sqlstate, text);
}

connection::connection(PGconn* open, const connection_rules& rules) : connection_(open), rules_(rules) {
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  if (rules_.prepare) {
    try {
      begin_session();
    } catch (...) {
      PQfinish(connection_);
      throw;
    }
  }
}

// Only if what the session began with is there: else a pooler has dropped it, and others would get what is set here.
void connection::begin_session() {
  const result set =
      run("connecting",
          std::string(sql::planner_of_user) + "CASE WHEN current_setting('timing_wheel.session',true)='own' THEN (" +
              sql::begin_session + ") END FROM users",
          1);
  const int last = PQnfields(set.get()) - 1;
  if (set.is_null(0, last)) {
    fail("connecting", "08P01",
         std::string("the server did not get the options of the connection; ") + behind_a_pooler);
  }
  for (int column = 0; column < last; ++column) {
    planner_of_user_.emplace_back(set.bytes(0, column));
  }
}

connection::~connection() { PQfinish(connection_); }

PGconn* connection::get() const noexcept {
  PQsetnonblocking(connection_, 0);
  return connection_;
}

result connection::run(const query& which, const parameters& values, bool by_text) {
  const std::string* name = rules_.prepare && !by_text ? &prepare(which) : nullptr;
  rules_.counts->statements.fetch_add(1, std::memory_order_relaxed);
  PQsetnonblocking(connection_, 1);
  send(name != nullptr ? PQsendQueryPrepared(connection_, name->c_str(), values.count(), values.values(),
                                             values.lengths(), values.formats(), 1)
                       : PQsendQueryParams(connection_, text_of(which.sql, rules_.prefix).c_str(), values.count(),
                                           nullptr, values.values(), values.lengths(), values.formats(), 1),
       which.doing);
  return wait(which.doing);
}

result connection::run(const char* doing, const std::string& text, unsigned statements) {
  rules_.counts->statements.fetch_add(statements, std::memory_order_relaxed);
  PQsetnonblocking(connection_, 1);
  send(PQsendQuery(connection_, text.c_str()), doing);
  return wait(doing);
}

result connection::run_alone(const query& which, const parameters& values) {
  const kept_warning warned(connection_);
  result done = run(which, values);
  silent_ = silent_ || warned.came();  // nobody must take it for undone
  warned.refuse();
  return done;
}

void connection::run_long(const char* doing, const std::string& text, std::chrono::seconds longest,
                          const std::function<bool()>& is_over) {
  const clock::time_point until = clock::now() + longest;
  rules_.counts->statements.fetch_add(1, std::memory_order_relaxed);
  PQsetnonblocking(connection_, 1);
  send(PQsendQuery(connection_, text.c_str()), doing);
  while (PQflush(connection_) == 1 || PQisBusy(connection_) == 1) {
    if (is_over() || clock::now() > until) {
      silent_ = true;
      cancel();
      fail(doing, "57014", "it was cancelled");
    }
    if (wait_for(POLLIN, clock::now() + std::chrono::milliseconds(100)) && PQconsumeInput(connection_) == 0) {
      break;  // `wait` says why
    }
  }
  wait(doing);
}

void connection::commit(const char* before) {
  const kept_warning warned(connection_);
  const std::string both = before == nullptr ? std::string() : std::string(before) + ";" + sql::commit;
  const result ended = before == nullptr ? run("committing", sql::commit, 1) : run("committing", both, 2);
  if (std::string_view(PQcmdStatus(ended.get())) != "COMMIT") {
    fail("committing", "40000", "the server has rolled back");
  }
  warned.refuse();
}

const std::string& connection::prepare(const query& which) {
  const auto known =
      std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& each) { return each.first == &which; });
  if (known != prepared_.end()) {
    return known->second;
  }
  const std::string text = text_of(which.sql, rules_.prefix);
  std::string name = name_for(which.name, text);
  prepared_.reserve(prepared_.size() + 1);
  prepare(which.doing, name, text);
  return prepared_.emplace_back(&which, std::move(name)).second;
}

const std::string& connection::prepare(const std::string& sql) {
  static constexpr const char* doing = "preparing a statement";
  static const std::string unnamed;
  if (!rules_.prepare) {
    prepare(doing, unnamed, sql);
    return unnamed;
  }
  std::list<std::string> one{name_for("timing_wheel_user", sql)};
  const auto known = std::find(prepared_for_user_.begin(), prepared_for_user_.end(), one.front());
  if (known != prepared_for_user_.end()) {
    return *known;
  }
  prepare(doing, one.front(), sql);
  prepared_for_user_.splice(prepared_for_user_.begin(), one);
  return prepared_for_user_.front();
}

void connection::prepare(const char* doing, const std::string& name, const std::string& sql) {
  PQsetnonblocking(connection_, 1);
  send(PQsendPrepare(connection_, name.c_str(), sql.c_str(), 0, nullptr), doing);
  try {
    wait(doing);
  } catch (const std::bad_alloc&) {  // the server may have it, and will not prepare it a second time
    silent_ = true;
    throw;
  }
}

void connection::send(int sent, const char* doing) {
  if (sent == 0) {
    fail({}, connection_, doing);
  }
}

// \returns whether something has happened before `until`.
bool connection::wait_for(short events, clock::time_point until) const {
  pollfd waiting{PQsocket(connection_), events, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
    const int found = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (found > 0 || (found == 0 && left.count() <= 0)) {
      return found > 0;
    }
  }
}

connection::clock::time_point connection::last_moment() const {
  return clock::now() + answer_within.value_or(rules_.statement_timeout + patience);
}

// \returns what PQgetResult does, when it is there. \param error what the server has said before.
result connection::next_answer(const char* doing, clock::time_point until, const result& error) {
  while (true) {
    const int unsent = PQflush(connection_);
    if (unsent == 0 && PQisBusy(connection_) == 0) {
      return result(PQgetResult(connection_));
    }
    if (!wait_for(static_cast<short>(POLLIN | (unsent == 1 ? POLLOUT : 0)), until)) {
      silent_ = true;
      cancel();
      const auto limit = answer_within.value_or(rules_.statement_timeout + patience);
      fail(doing, "08006", "no answer within " + std::to_string(limit.count()) + " ms; the connection is given up");
    }
    if (PQconsumeInput(connection_) == 0) {
      silent_ = silent_ || PQstatus(connection_) != CONNECTION_OK;
      result last(PQgetResult(connection_));  // what the server has said before it went
      fail(error ? error : last, connection_, doing);
    }
  }
}

// For all that was sent.
result connection::wait(const char* doing) {
  rules_.counts->round_trips.fetch_add(1, std::memory_order_relaxed);
  const clock::time_point until = last_moment();
  result rows;
  result error;
  while (result next = next_answer(doing, until, error)) {
    if (is_error(next)) {
      error = error ? std::move(error) : std::move(next);
      if (!works()) {
        break;  // else libpq goes on with words of its own
      }
    } else if (!rows || PQresultStatus(rows.get()) != PGRES_TUPLES_OK ||
               PQresultStatus(next.get()) == PGRES_TUPLES_OK) {
      rows = std::move(next);
    }
  }
  if (error || !rows) {
    note(error);
    fail(error, connection_, doing);
  }
  used_at = clock::now();
  return rows;
}

void connection::note(const result& error) noexcept {
  const char* const state = error ? PQresultErrorField(error.get(), PG_DIAG_SQLSTATE) : nullptr;
  constexpr std::string_view stale[] = {
      "0A000",  // no writing during recovery; or the plan of a statement that is prepared does not fit any more
      "25006",  // read-only
      "26000",  // no such statement
      "42P05",  // a statement of that name, which this connection has not prepared
  };
  is_stale_ =
      is_stale_ || (state != nullptr && std::find(std::begin(stale), std::end(stale), state) != std::end(stale));
}

#ifdef LIBPQ_HAS_PIPELINING

bool connection::is_pipelined() const noexcept { return rules_.prepare; }

// Until all answers are read, nothing else can be done with the connection; if they are not, it is given up.
std::vector<result> connection::run_together(std::span<const bound> all) {
  std::vector<result> answers(all.size());
  for (const bound& each : all) {
    prepare(*each.which);
  }
  rules_.counts->statements.fetch_add(all.size(), std::memory_order_relaxed);
  const char* const doing = all.front().which->doing;
  PQsetnonblocking(connection_, 1);
  send(PQenterPipelineMode(connection_), doing);
  silent_ = true;
  for (const bound& each : all) {
    const parameters& values = *each.values;
    send(PQsendQueryPrepared(connection_, prepare(*each.which).c_str(), values.count(), values.values(),
                             values.lengths(), values.formats(), 1),
         each.which->doing);
  }
  send(PQpipelineSync(connection_), doing);
  rules_.counts->round_trips.fetch_add(1, std::memory_order_relaxed);
  const clock::time_point until = last_moment();
  result error;
  const char* failed = doing;
  for (std::size_t each = 0; each < all.size(); ++each) {
    while (result next = next_answer(all[each].which->doing, until, error)) {
      if (!is_error(next)) {
        answers[each] = std::move(next);
      } else if (!error) {  // those that come after it say that they were left out
        error = std::move(next);
        failed = all[each].which->doing;
      }
      if (PQstatus(connection_) != CONNECTION_OK) {
        fail(error, connection_, failed);
      }
    }
  }
  static_cast<void>(next_answer(doing, until, error));  // of the synchronization
  send(PQexitPipelineMode(connection_), doing);
  silent_ = false;
  if (error) {
    note(error);
    fail(error, connection_, failed);
  }
  used_at = clock::now();
  return answers;
}

#else

bool connection::is_pipelined() const noexcept { return false; }

std::vector<result> connection::run_together(std::span<const bound> all) {
  std::vector<result> answers;
  std::transform(all.begin(), all.end(), std::back_inserter(answers),
                 [this](const bound& each) { return run(*each.which, *each.values); });
  return answers;
}

#endif

// What was sent may wait for a lock, and the server does not look whether we are still there. libpq waits for the
// network here for as long as that takes: so a thread of its own does, and is left alone after `patience`.
void connection::cancel() const noexcept {
  struct freed {
    void operator()(PGcancel* each) const noexcept { PQfreeCancel(each); }
  };
  try {
    std::shared_ptr<PGcancel> to(PQgetCancel(connection_), freed());
    const auto ended = std::make_shared<std::promise<void>>();
    std::future<void> end = ended->get_future();
    detail::start_named_thread("durable_cancel", [to = std::move(to), ended] {
      std::array<char, 256> words{};
      PQcancel(to.get(), words.data(), static_cast<int>(words.size()));
      ended->set_value();
    }).detach();
    end.wait_for(patience);
  } catch (...) {  // NOLINT(bugprone-empty-catch): what made it necessary is told
  }
}

void connection::roll_back() noexcept {
  const PGTransactionStatusType status = transaction();
  if (works() && (status == PQTRANS_INTRANS || status == PQTRANS_INERROR)) {
    try {
      run("rolling back", "ROLLBACK", 1);
    } catch (...) {  // NOLINT(bugprone-empty-catch): what made it necessary is on its way to the caller
    }
  }
}

}  // namespace timing_wheel::durable::postgres
