#include "durable/node/ready_rows.hpp"

#include <algorithm>

namespace timing_wheel::durable {

using std::chrono::microseconds;

row_queue& ready_rows::queue_of(const known_row& which) noexcept {
  queues& kind = queues_[which.what.kind];
  return which.suspect ? kind.suspects : which.late ? kind.backlog : kind.in_time;
}

void ready_rows::push(timer_number number, instant clock) noexcept {
  known_row& which = rows_[number];
  which.at = stage::ready;
  which.late = which.what.due < clock - poll_;
  queue_of(which).push_back(rows_, number);
  ++size_;
}

void ready_rows::push_again(timer_number number) noexcept {
  known_row& which = rows_[number];
  which.at = stage::ready;
  which.late = true;
  queue_of(which).push_front(rows_, number);
  ++size_;
}

void ready_rows::remove(timer_number number) noexcept {
  queue_of(rows_[number]).remove(rows_, number);
  --size_;
}

void ready_rows::restart() noexcept {
  size_ = 0;
  for (queues& kind : queues_) {
    kind.in_time = kind.backlog = kind.suspects = {};
  }
}

row_queue* ready_rows::next_queue(queues& of, const claims& busy) noexcept {
  if (!busy.has_suspect() && !of.suspects.empty()) {
    return &of.suspects;
  }
  if (of.in_time.empty() && of.backlog.empty()) {
    return nullptr;
  }
  const bool from_backlog = of.in_time.empty() || (!of.backlog.empty() && of.backlog_next);
  return from_backlog ? &of.backlog : &of.in_time;
}

void ready_rows::has_taken(queues& of, const row_queue* from) noexcept {
  of.backlog_next = from == &of.suspects ? of.backlog_next : from == &of.in_time;
}

// A row, and more of them as long as they take no more than `quantum` together.
ready_rows::turn ready_rows::take_turn(std::uint32_t kind, microseconds quantum, allowance& left, claims& to,
                                       std::vector<upcoming>& picked) noexcept {
  const microseconds cost = left.cost_of(kind);
  microseconds spent{};
  turn how = turn::has_nothing;
  while (to.free_runs(kind) != 0) {
    row_queue* const from = next_queue(queues_[kind], to);
    if (from == nullptr || (how == turn::took && spent + cost > quantum)) {
      break;
    }
    const timer_number number = from->first();
    const bool no_bytes = kinds_[kind].transactional ? !left.took_bytes : to.bytes() == 0;
    const std::size_t size = rows_[number].what.size;
    if (!left.fits(size, no_bytes)) {
      return how == turn::took ? how : turn::too_large;
    }
    if (!left.admit(kind, size)) {
      return how == turn::took ? how : turn::refused;
    }
    has_taken(queues_[kind], from);
    remove(number);
    to.ask(number);
    picked.push_back(rows_[number].what);
    spent += cost;
    how = turn::took;
  }
  return how;
}

// A kind that is refused keeps its turn, and none comes after it: else what is cheaper would take all that it waits
// for, again and again. After a payload that is too large, what has none may come.
std::vector<upcoming> ready_rows::pick(bool transactional, allowance& left, claims& to) {
  std::vector<upcoming> picked;
  picked.reserve(std::min(left.rows, size_));
  const auto kinds = static_cast<std::uint32_t>(kinds_.size());
  const microseconds quantum = left.time / std::max<std::uint32_t>(1, kinds);
  std::uint32_t& first = first_kind_.at(transactional ? 1 : 0);
  std::uint32_t kind = first;
  std::optional<std::uint32_t> too_large;
  for (std::uint32_t in_vain = 0; in_vain < kinds && left.rows != 0;) {
    const bool is_asked = kinds_[kind].transactional == transactional;
    const turn how = is_asked ? take_turn(kind, quantum, left, to, picked) : turn::has_nothing;
    if (how == turn::refused) {
      first = kind;
      break;
    }
    if (how == turn::too_large) {
      left.bytes = 0;
      too_large = too_large ? too_large : kind;
    }
    kind = (kind + 1) % kinds;
    first = how == turn::took ? kind : first;
    in_vain = how == turn::took ? 0 : in_vain + 1;
  }
  first = too_large.value_or(first);
  return picked;
}

std::vector<upcoming> ready_rows::spares(std::span<const upcoming> picked, std::size_t count, std::size_t bytes,
                                         const allowance& of, const claims& busy) const {
  std::vector<upcoming> some;
  some.reserve(std::min(count, size_));
  microseconds shortest = microseconds::max();
  for (const upcoming& each : picked) {
    shortest = std::min(shortest, of.cost_of(each.kind));
  }
  const auto kinds = static_cast<std::uint32_t>(kinds_.size());
  for (std::uint32_t turns = 0; turns < kinds; ++turns) {
    const std::uint32_t kind = (first_kind_[0] + turns) % kinds;
    if (kinds_[kind].transactional || of.cost_of(kind) > shortest) {
      continue;
    }
    std::size_t room = std::min(busy.free_runs(kind), count - some.size());
    // What came in time and the backlog, in turn.
    std::array<timer_number, 2> next{queues_[kind].backlog.first(), queues_[kind].in_time.first()};
    for (std::size_t which = 0; room != 0 && (next[0] != nobody || next[1] != nobody); which = 1 - which) {
      const timer_number number = next.at(which);
      if (number == nobody) {
        continue;
      }
      next.at(which) = row_queue::after(rows_, number);
      if (rows_[number].what.size > bytes) {
        break;
      }
      bytes -= rows_[number].what.size;
      some.push_back(rows_[number].what);
      --room;
    }
  }
  return some;
}

std::size_t ready_rows::size(std::uint32_t kind) const noexcept {
  return queues_[kind].in_time.size() + queues_[kind].backlog.size() + queues_[kind].suspects.size();
}

std::size_t ready_rows::size_without_waiting(const claims& busy) const noexcept {
  std::size_t suspects = 0;
  for (const queues& kind : queues_) {
    suspects += kind.suspects.size();
  }
  const std::size_t next = suspects != 0 && !busy.has_suspect() ? 1 : 0;
  return size_ - suspects + next;
}

bool ready_rows::can_pick(bool transactional, const claims& busy) const noexcept {
  for (std::uint32_t kind = 0; size_ != 0 && kind < kinds_.size(); ++kind) {
    const queues& of = queues_[kind];
    const bool any = !of.in_time.empty() || !of.backlog.empty() || (!of.suspects.empty() && !busy.has_suspect());
    if (any && kinds_[kind].transactional == transactional && busy.free_runs(kind) != 0 &&
        (transactional || busy.room() != 0)) {
      return true;
    }
  }
  return false;
}

std::optional<instant> ready_rows::oldest(std::uint32_t kind) const {
  std::optional<instant> oldest;
  for (const row_queue* from : {&queues_[kind].in_time, &queues_[kind].backlog, &queues_[kind].suspects}) {
    if (!from->empty()) {
      const instant due = rows_[from->first()].what.due;
      oldest = oldest ? std::min(*oldest, due) : due;
    }
  }
  return oldest;
}

bool ready_rows::invariants_hold() const {
  std::size_t ready = 0;
  std::vector<std::size_t> suspects(kinds_.size());
  for (timer_number number = 0; number < rows_.numbers(); ++number) {
    if (rows_[number].at == stage::ready) {
      ++ready;
      suspects[rows_[number].what.kind] += rows_[number].suspect ? 1U : 0U;
    }
  }
  std::size_t queued = 0;
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    const queues& of = queues_[kind];
    queued += size(kind);
    if (of.suspects.size() != suspects[kind] || !of.in_time.holds(rows_, stage::ready) ||
        !of.backlog.holds(rows_, stage::ready) || !of.suspects.holds(rows_, stage::ready)) {
      return false;
    }
  }
  return ready == size_ && queued == size_;
}

}  // namespace timing_wheel::durable
