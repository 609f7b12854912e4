#include "durable/support/lost_commits.hpp"

#include <dlfcn.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

// `PQsendQuery`, `PQsendQueryPrepared` and `PQexec` of this program stand before those of libpq.

namespace timing_wheel::test {
namespace {

std::mutex guard;
std::optional<std::pair<lost_commits::loss, int>> planned;  // guarded: what, and which commit from now on
std::atomic<int> losses = 0;

std::optional<lost_commits::loss> loss_at(const PGconn* on, std::string_view statement) {
  const char* const name = PQparameterStatus(on, "application_name");
  const std::scoped_lock lock(guard);
  const bool commits = statement.ends_with("COMMIT") || statement.starts_with("timing_wheel_insert_alone") ||
                       statement.starts_with("timing_wheel_complete_and_claim");
  if (!commits || name == nullptr || std::string_view(name) != "lossy" || !planned || --planned->second > 0) {
    return std::nullopt;
  }
  return std::exchange(planned, std::nullopt)->first;
}

/// Waits until the server is ready for the next statement, so that the last one is done, and hides that from libpq.
void hide_answer(PGconn* on) {
  constexpr std::string_view ready("Z\0\0\0\5I", 6);
  while (PQflush(on) > 0) {
  }
  std::string_view answer;
  for (std::array<char, 4096> room{}; !answer.ends_with(ready);) {
    pollfd waiting{PQsocket(on), POLLIN, 0};
    poll(&waiting, 1, -1);
    const ssize_t got = recv(PQsocket(on), room.data(), room.size(), 0);
    if (got <= 0) {
      return;
    }
    answer = {room.data(), static_cast<std::size_t>(got)};
  }
}

template <class Send>
int send_or_lose(PGconn* on, const char* statement, const Send& send) {
  const auto loss = loss_at(on, statement);
  if (!loss) {
    return send();
  }
  if (loss == lost_commits::loss::of_commit) {
    shutdown(PQsocket(on), SHUT_RDWR);
  }
  const int sent = send();
  if (loss == lost_commits::loss::of_answer) {
    hide_answer(on);
    shutdown(PQsocket(on), SHUT_RDWR);
  }
  ++losses;
  return sent;
}

int send_query(PGconn* on, const char* statement) {
  static const auto next = reinterpret_cast<decltype(&PQsendQuery)>(dlsym(RTLD_NEXT, "PQsendQuery"));
  return send_or_lose(on, statement, [&] { return next(on, statement); });
}

}  // namespace

void lost_commits::plan(loss which, int nth) {
  const std::scoped_lock lock(guard);
  planned = {which, nth};
}

int lost_commits::count() { return losses; }

}  // namespace timing_wheel::test

extern "C" int PQsendQuery(PGconn* conn, const char* query) { return timing_wheel::test::send_query(conn, query); }

// NOLINTBEGIN(readability-identifier-naming): libpq's own names, which another check wants
extern "C" int PQsendQueryPrepared(PGconn* conn, const char* stmtName, int nParams, const char* const* paramValues,
                                   const int* paramLengths, const int* paramFormats, int resultFormat) {
  static const auto next = reinterpret_cast<decltype(&PQsendQueryPrepared)>(dlsym(RTLD_NEXT, "PQsendQueryPrepared"));
  return timing_wheel::test::send_or_lose(conn, stmtName, [&] {
    return next(conn, stmtName, nParams, paramValues, paramLengths, paramFormats, resultFormat);
  });
}
// NOLINTEND(readability-identifier-naming)

extern "C" PGresult* PQexec(PGconn* conn, const char* query) {
  using timing_wheel::test::send_query;
  static const auto next = reinterpret_cast<decltype(&PQexec)>(dlsym(RTLD_NEXT, "PQexec"));
  if (!std::string_view(query).ends_with("COMMIT")) {
    return next(conn, query);
  }
  PGresult* const answer = send_query(conn, query) == 0 ? nullptr : PQgetResult(conn);
  while (PGresult* const more = answer == nullptr ? nullptr : PQgetResult(conn)) {
    PQclear(more);
  }
  return answer;
}
