#include "timing_wheel/durable/store.hpp"

#include <algorithm>
#include <system_error>

#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

scheduled transaction::schedule(const request& asked) {
  validate(asked, limits());
  append_op op{&asked};
  append({&op, 1});
  return op.result;
}

cancel_answer transaction::cancel(std::string_view kind, std::string_view key) {
  cancel_op op{kind, key};
  cancel({&op, 1});
  return {op.result, op.attempts};
}

std::size_t store_transaction::claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                                          std::vector<claimed>& got) {
  const std::size_t tried = std::min(most, wanted.size());
  claim(wanted.first(tried), lease, got);
  return tried;
}

migration_plan store::plan_migration() { return {}; }

void store::read_overdue(std::vector<overdue_kind>& /*found*/) {}

std::chrono::microseconds store::clock_difference() { return {}; }

bool store::pause(std::string_view /*kind*/) {
  throw timer_error(std::make_error_code(std::errc::operation_not_supported), "pausing a kind");
}

bool store::resume(std::string_view /*kind*/) {
  throw timer_error(std::make_error_code(std::errc::operation_not_supported), "resuming a kind");
}

std::vector<paused_kind> store::paused_kinds() { return {}; }

void store::transact_within(const transaction_limits& /*limits*/, const std::function<void(store_transaction&)>& work) {
  transact(work);
}

std::optional<std::vector<std::int16_t>> store::renew_shares(std::string_view /*node*/,
                                                             std::span<const std::string> /*kinds*/,
                                                             std::chrono::milliseconds /*hold*/, bool /*leave*/) {
  return std::nullopt;
}

}  // namespace timing_wheel::durable
