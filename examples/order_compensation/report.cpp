#include "report.hpp"

#include <array>
#include <iomanip>
#include <ostream>

namespace order_compensation {

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

std::uint64_t per_second(std::uint64_t count, std::chrono::nanoseconds duration) {
  return duration.count() <= 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(count) / seconds(duration));
}

void report::line(std::string_view label, const std::string& number, std::string_view unit) {
  lines_ << "  " << std::left << std::setw(22) << label << std::right << std::setw(16) << number
         << (unit.empty() ? "" : " ") << unit << '\n';
}

void report::count(std::string_view label, const char* key, std::uint64_t number, std::string_view unit) {
  line(label, grouped(number), unit);
  figures[key] = number;
}

void report::verdict(std::string_view subject, const std::string& sentence, bool good) {
  verdicts_ << subject << ": " << sentence << (good ? "  ✓" : "  ✗") << '\n';
}

void report::lateness(const std::string& label, const char* key, const std::vector<double>& microseconds,
                      const char* unit) {
  const std::array names{"p50", "p99", "max"};
  if (microseconds.empty()) {
    line(label, "nothing fired");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    figures[key][names[i]] = nullptr;
    if (!microseconds.empty()) {
      const double of_unit = std::string_view(unit) == "us" ? 1 : 1000;
      line(label + " " + names[i], with_decimals(microseconds[i] / of_unit, 1), unit);
      figures[key][names[i]] = microseconds[i];
    }
  }
}

void report::stock(const stock_figures& all) {
  line("stock reserved", grouped(all.reserved), "units");
  line("stock confirmed", grouped(all.confirmed), "units");
  line("stock given back", grouped(all.given_back), "units");
  line("stock still reserved", grouped(all.still_reserved), "units");
  figures["stock"] = {{"reserved", all.reserved},
                      {"confirmed", all.confirmed},
                      {"given_back", all.given_back},
                      {"still_reserved", all.still_reserved}};
  verdict("ledger",
          grouped(all.reserved) + " reserved = " + grouped(all.confirmed) + " confirmed + " + grouped(all.given_back) +
              " given back + " + grouped(all.still_reserved) + " still reserved",
          all.balanced());
  if (!all.balanced()) {
    problems.push_back("the ledger does not balance: wrong products " + grouped(all.wrong_products) +
                       ", refused bookings " + grouped(all.refused_bookings));
  }
}

void report::expect_none(std::uint64_t count, const std::string& what) {
  if (count != 0) {
    problems.push_back(grouped(count) + " " + what);
  }
}

void report::close(const std::string& interrupted_by) {
  line("elapsed", with_decimals(seconds(elapsed()), 3), "s");
  for (const std::string& problem : problems) {
    verdict("problem", problem, false);
  }
  figures["elapsed_s"] = seconds(elapsed());
  figures["malformed"] = malformed;
  figures["interrupted"] = interrupted;
  if (interrupted) {
    title += ", interrupted by " + interrupted_by + ": a part of the run";
    figures["interrupted_by"] = interrupted_by;
  }
  figures["problems"] = problems;
}

void report::write_json(std::ostream& out) const {
  out << figures.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void report::print(std::ostream& out) const { out << title << '\n' << lines_.str() << verdicts_.str(); }

}  // namespace order_compensation
