#include "durable/sqlite/range_reader.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "durable/store/instant.hpp"

namespace timing_wheel::durable::sqlite {

namespace {

constexpr std::size_t kinds_at_once = 32;  // SQLite allows 500 in one statement, and merges them two by two

}  // namespace

// The window is two ranges: SQLite does not bound an index by (due, id) > (?, ?), and a million rows may share a
// deadline. UNION ALL with an order is a merge of ranges that are each in that order: no row is sorted, and none is
// read that is not asked for. `kind IN (…)` would sort all that is due.
std::string range_reader::text(std::size_t kinds, bool same_due) {
  std::string all;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    all.append(all.empty() ? "" : " UNION ALL ")
        .append("SELECT id,due,lease,attempt,length(payload),")
        .append(std::to_string(kind));
    all.append(" FROM timing_wheel_check WHERE kind=?").append(std::to_string(kind + 3));
    all.append(same_due ? " AND due=?1 AND id>?2" : " AND due>=?1 AND due<?2");
  }
  return all.append(" ORDER BY 2,1");
}

execution range_reader::run(std::size_t kinds, bool same_due) {
  std::unique_ptr<prepared>& kept = (same_due ? same_due_ : later_)[kinds];
  if (!kept) {
    kept = std::make_unique<prepared>(connection_, text(kinds, same_due), counts_);
  }
  return kept->run.run();
}

void range_reader::read(const read_range& which, std::vector<upcoming>& found) {
  const std::size_t limit = found.size() + std::min(which.limit, found.max_size() - found.size());
  std::int64_t from = which.from.time_since_epoch().count();
  if (which.after_id != std::numeric_limits<std::int64_t>::min()) {
    read_part(which, true, from, which.after_id, limit, found);
    if (which.from == instant::max()) {
      return;
    }
    ++from;
  }
  if (found.size() < limit) {
    read_part(which, false, from, which.until.time_since_epoch().count(), limit, found);
  }
}

// Until `found` has `limit` rows.
void range_reader::read_part(const read_range& which, bool same_due, std::int64_t first, std::int64_t second,
                             std::size_t limit, std::vector<upcoming>& found) {
  const std::size_t begin = found.size();
  for (std::size_t group = 0; group < which.kinds.size(); group += kinds_at_once) {
    const auto kinds = which.kinds.subspan(group, std::min(kinds_at_once, which.kinds.size() - group));
    execution reading = run(kinds.size(), same_due);
    reading.bind(first).bind(second);
    for (const std::string& kind : kinds) {
      reading.bind_text(kind);
    }
    for (std::size_t rows = begin; rows < limit && reading.step(); ++rows) {
      counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
      found.push_back({reading.integer(0), instant_of(reading.integer(1)), instant_of(reading.integer(2)),
                       static_cast<std::uint32_t>(group + static_cast<std::size_t>(reading.integer(5))),
                       reading.count(3), static_cast<std::size_t>(reading.integer(4))});
    }
  }
  if (which.kinds.size() > kinds_at_once) {
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(begin), found.end(),
              [](const upcoming& a, const upcoming& b) { return std::tie(a.due, a.id) < std::tie(b.due, b.id); });
    found.resize(std::min(found.size(), limit));
  }
}

}  // namespace timing_wheel::durable::sqlite
