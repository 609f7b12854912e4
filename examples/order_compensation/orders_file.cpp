#include "orders_file.hpp"

#include <unordered_map>
#include <utility>

#include "ledger.hpp"
#include "options.hpp"

namespace order_compensation {
namespace {

class orders_reader {
 public:
  explicit orders_reader(progress& shown) : progress_(shown) {}

  orders_file read(std::istream& in) {
    try {
      common::orders_table table(in);
      while (read_row(table)) {
      }
    } catch (const common::file_error& error) {
      result_.orders.clear();
      leave_out(error.line(), error.what());
    }
    return std::move(result_);
  }

 private:
  /// \returns false at the end of the file.
  bool read_row(common::orders_table& table) {
    try {
      const std::optional<common::order_row> row = table.next();
      if (!row) {
        return false;
      }
      add(*row, table.line());
    } catch (const common::row_error& error) {
      leave_out(table.line(), error.what());
    }
    return true;
  }

  void add(const common::order_row& row, std::uint64_t line) {
    const auto [first, is_new] = lines_.try_emplace(std::string(row.id), line);
    if (!is_new) {
      throw common::row_error("order_id " + common::quoted(row.id) + " was on line " + std::to_string(first->second) +
                              " already");
    }
    result_.orders.push_back({hash_of(row.id), row.purchased, row.approved});
    if (constexpr std::size_t often = 4096; result_.orders.size() % often == 0 && progress_.due()) {
      progress_.show("read " + std::to_string(result_.orders.size()) + " orders");
    }
  }

  void leave_out(std::uint64_t line, std::string reason) {
    ++result_.malformed;
    if (result_.reported.size() < max_reported_rows) {
      result_.reported.push_back({line, std::move(reason)});
    }
  }

  progress& progress_;
  std::unordered_map<std::string, std::uint64_t> lines_;  // of each id, for the rows that are good
  orders_file result_;
};

}  // namespace

orders_file read_orders(std::istream& in, const std::string& name, progress& shown) {
  orders_file result = orders_reader(shown).read(in);
  if (in.bad()) {
    throw usage_error("cannot read " + name + " to its end");
  }
  return result;
}

}  // namespace order_compensation
