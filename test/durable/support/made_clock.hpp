#pragma once

#include <chrono>
#include <fstream>

#include "durable/support/private_postgres.hpp"
#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable::test {

/// The clock of a private server, which stands still until it is told that time has passed. Statements read the clock
/// by functions without a schema, so those of a schema that is searched first take their place: they show what is in a
/// file. Whoever connects after that has them.
class made_clock {
 public:
  explicit made_clock(const timing_wheel::test::private_postgres& server) : file_(server.data() / "made_clock") {
    server.execute(
        "CREATE SCHEMA made;"
        "CREATE FUNCTION made.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS $$"
        "SELECT 'epoch'::timestamptz+pg_read_file('made_clock')::bigint*interval '1 microsecond'$$;"
        "CREATE FUNCTION made.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT made.clock_timestamp()';"
        "CREATE FUNCTION made.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS "
        "'SELECT made.clock_timestamp()';"
        "ALTER DATABASE postgres SET search_path=made,pg_catalog,public");
    reset();
  }

  [[nodiscard]] instant now() const { return now_; }
  void pass(std::chrono::microseconds time) {
    now_ += time;
    file_.seekp(0);
    file_ << now_.time_since_epoch().count() << std::flush;  // always as long
  }
  /// Back to the beginning.
  void reset() { pass(start - now_); }

 private:
  static constexpr instant start{std::chrono::hours(24 * 365 * 55)};

  std::ofstream file_;
  instant now_ = start;
};

}  // namespace timing_wheel::durable::test
