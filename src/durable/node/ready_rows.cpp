#include "durable/node/ready_rows.hpp"

#include <algorithm>

namespace timing_wheel::durable {

void ready_rows::push(timer_number number, instant clock) noexcept {
  known_row& which = rows_[number];
  which.at = stage::ready;
  queues& kind = queues_[which.what.kind];
  const bool late = which.what.due < clock - poll_;
  (which.suspect ? kind.suspects : late ? kind.backlog : kind.in_time).push_back(rows_, number);
  ++size_;
}

void ready_rows::push_again(timer_number number) noexcept {
  known_row& which = rows_[number];
  which.at = stage::ready;
  queues& kind = queues_[which.what.kind];
  (which.suspect ? kind.suspects : kind.backlog).push_front(rows_, number);
  ++size_;
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
  of.backlog_next = !from_backlog;
  return from_backlog ? &of.backlog : &of.in_time;
}

// \pre there is room for them.
void ready_rows::pick_of_kind(std::uint32_t kind, std::size_t limit, claims& to,
                              std::vector<upcoming>& picked) noexcept {
  const std::size_t most = std::min(limit, to.free_runs(kind));
  for (std::size_t n = 0; n < most; ++n) {
    row_queue* const from = next_queue(queues_[kind], to);
    if (from == nullptr) {
      return;
    }
    const timer_number number = from->first();
    from->remove(rows_, number);
    --size_;
    to.ask(number);
    picked.push_back(rows_[number].what);
  }
}

std::vector<upcoming> ready_rows::pick(bool transactional, std::size_t limit, claims& to) {
  std::vector<upcoming> picked;
  picked.reserve(std::min(limit, size_));
  std::uint32_t& first = first_kind_.at(transactional ? 1 : 0);
  for (std::uint32_t i = 0; i < kinds_.size() && picked.size() < limit; ++i) {
    const auto kind = static_cast<std::uint32_t>((first + i) % kinds_.size());
    if (kinds_[kind].transactional == transactional) {
      pick_of_kind(kind, limit - picked.size(), to, picked);
    }
  }
  if (!kinds_.empty()) {
    first = static_cast<std::uint32_t>((first + 1) % kinds_.size());
  }
  return picked;
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

bool ready_rows::can_pick(const claims& busy) const noexcept {
  for (std::uint32_t kind = 0; size_ != 0 && kind < kinds_.size(); ++kind) {
    const queues& of = queues_[kind];
    const bool any = !of.in_time.empty() || !of.backlog.empty() || (!of.suspects.empty() && !busy.has_suspect());
    if (any && busy.free_runs(kind) != 0 && (kinds_[kind].transactional || busy.room() != 0)) {
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
