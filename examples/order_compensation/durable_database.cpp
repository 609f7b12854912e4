#include "durable_database.hpp"

#include <chrono>
#include <thread>

#include "durable_place.hpp"
#include "ledger.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;

/// For how long a database may be away.
constexpr auto patience_with_database = 60s;
constexpr auto pause = 20ms;

constexpr std::int64_t delivered_of_each = 1'000'000'000;

}  // namespace

void patient_connection::use(const std::function<void(database&)>& work) {
  for (const auto end = std::chrono::steady_clock::now() + patience_with_database;;) {
    try {
      if (!open_) {
        open_ = place_.connect();
      }
      work(*open_);
      return;
    } catch (const try_again&) {
      open_.reset();
      if (std::chrono::steady_clock::now() > end) {
        throw;
      }
    }
    std::this_thread::sleep_for(pause);
  }
}

std::int64_t patient_connection::get(const std::function<std::int64_t(database&)>& work) {
  std::int64_t answer = 0;
  use([&](database& in) { answer = work(in); });
  return answer;
}

std::int64_t patient_connection::ask(const char* sql) {
  return get([sql](database& in) { return in.ask(sql); });
}

/// `orders` says what was sold, `firing` what the checks did: each run of a check adds a row, so that one too many is
/// seen. `stock` is counted up and down beside them, and at the end the two must agree. `worker` has a row for each
/// process, `probe` one for each run of a check that was due when a worker was killed. Times are microseconds of the
/// clock of the checks.
///
/// A commit whose answer was lost is not done again: `shop_run` counts its transactions, and the rows of workers and of
/// kills have numbers that the keeper gives, `birth` and `number`.
///
/// `lost_share` has the shares of the table that a worker had when it was killed. The epoch of a share rises when it is
/// given to another node.
void make_tables(database& in, const shop_tables& words) {
  const std::string numbered = words.numbered;
  const std::string key = words.key;
  in.execute("CREATE TABLE shop_run(id " + numbered +
             ", begun BIGINT NOT NULL, transactions BIGINT NOT NULL DEFAULT 0);"
             "CREATE TABLE worker(number " +
             numbered +
             ", run BIGINT NOT NULL, birth BIGINT NOT NULL, node BIGINT NOT NULL, begun BIGINT NOT NULL,"
             " killed BIGINT, UNIQUE(run,birth));"
             "CREATE TABLE server_kill(run BIGINT NOT NULL, number BIGINT NOT NULL, killed BIGINT NOT NULL,"
             " UNIQUE(run,number));"
             "CREATE TABLE lost_share(worker BIGINT NOT NULL, kinds TEXT NOT NULL, share BIGINT NOT NULL,"
             " epoch BIGINT NOT NULL);"
             "CREATE TABLE stock(product " +
             key +
             ", delivered BIGINT NOT NULL, on_hand BIGINT NOT NULL,"
             " reserved BIGINT NOT NULL, sold BIGINT NOT NULL);"
             "CREATE TABLE orders(id " +
             key +
             ", run BIGINT NOT NULL, product BIGINT NOT NULL,"
             " units BIGINT NOT NULL, due BIGINT NOT NULL, confirmed BIGINT);"
             "CREATE TABLE firing(order_id BIGINT NOT NULL, worker BIGINT NOT NULL, fired BIGINT NOT NULL);"
             "CREATE TABLE probe(killed BIGINT NOT NULL, worker BIGINT NOT NULL, fired BIGINT NOT NULL);");
  in.execute(words.mark);
  for (std::uint32_t product = 0; product < product_count; ++product) {
    in.run("INSERT INTO stock(product,delivered,on_hand,reserved,sold) VALUES($1,$2,$2,0,0)", product,
           delivered_of_each);
  }
}

}  // namespace order_compensation
