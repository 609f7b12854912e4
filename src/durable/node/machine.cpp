#include "durable/node/machine.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "durable/store/instant.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

constexpr std::chrono::seconds stale_after(1);

std::size_t quota_of(const scheduler_options& options, std::size_t kinds) {
  return std::max<std::size_t>(1, options.max_known / (2 * std::max<std::size_t>(1, kinds)));
}

// Whether it may have a node that had no chance to extend its lease. One that was given up has none.
bool is_of_a_node(const upcoming& what) noexcept { return what.lease > instant_of(held_by_nobody); }

}  // namespace

machine::machine(scheduler_options options, std::vector<kind_rules> kinds, instant now, std::uint64_t seed)
    : options_(std::move(options)),
      kinds_(std::move(kinds)),
      rows_(kinds_.size(), quota_of(options_, kinds_.size())),
      due_(now, options_.tick, options_.poll),
      claims_(rows_, kinds_, options_.max_claimed),
      ready_(rows_, kinds_, options_.poll),
      reader_(options_, kinds_, rows_, now),
      shares_(now),
      pause_(options_.lease),
      contact_(options_.lease, options_.poll),
      all_leased_(std::none_of(kinds_.begin(), kinds_.end(), [](const kind_rules& of) { return of.transactional; })),
      stale_from_(kinds_.size(), saturating_add(now, stale_after)),
      random_(static_cast<std::minstd_rand::result_type>(seed)) {}

// ---- time

void machine::advance(instant now) {
  if (due_.is_set_back(now)) {
    restart(now);
  }
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    if (ready_.size(kind) == 0 || resting(now)) {
      stale_from_[kind] = saturating_add(now, stale_after);
    } else if (now >= stale_from_[kind]) {
      renew_ready(kind, now);
    }
  }
  due_.advance(now, [this](timer_number number) { is_due(number); });
}

void machine::renew_ready(std::uint32_t kind, instant now) noexcept {
  stale_from_[kind] = saturating_add(now, stale_after);
  for (timer_number number = 0; number < rows_.numbers(); ++number) {
    if (rows_[number].at == stage::ready && rows_[number].what.kind == kind) {
      ready_.remove(number);
      miss(number);
    }
  }
  reader_.read_soon(now);
}

// The clock was set back: all that waits does so in a wheel that begins now.
void machine::restart(instant now) {
  due_.restart(now);
  ready_.restart();
  reader_.restart(now);
  shares_.restart(now);
  pause_.restart(now);
  claims_.restart();
  ends_since_ = instant::min();
  stale_from_.assign(kinds_.size(), saturating_add(now, stale_after));
  for (timer_number number = 0; number < rows_.numbers(); ++number) {
    if (rows_[number].at == stage::waiting || rows_[number].at == stage::ready) {
      wait(number, wake_of(rows_[number].what), now);
    }
  }
}

// A row of another node is met again when its lease has ended, and may be claimed.
instant machine::wake_of(const upcoming& what) const noexcept {
  const instant open = !is_of_a_node(what) || contact_.from() == instant::max() ? instant{} : contact_.from();
  return std::max({what.due, what.lease, open});
}

// What there is no memory for is met again by the next pass.
void machine::wait(timer_number number, instant until, instant now) noexcept {
  try {
    if (due_.add(number, until, now)) {
      rows_[number].at = stage::waiting;
    } else {
      ready_.push(number, due_.clock());
    }
  } catch (const std::bad_alloc&) {
    miss(number);
  }
}

void machine::is_due(timer_number number) noexcept {
  if (rows_[number].at == stage::set_aside) {
    claims_.is_back(number);
  } else {
    ready_.push(number, due_.clock());
  }
}

void machine::miss(timer_number number) noexcept {
  reader_.miss(rows_[number].what.kind, rows_[number].what.due);
  rows_.forget(number);
}

// What is not remembered is met again by a look, if it is due before that ends: also behind the low-water mark.
void machine::expect(const upcoming& row, instant now, instant not_before) noexcept {
  const instant seen_until = saturating_add(now, options_.look_ahead);
  const instant wake = std::max(wake_of(row), not_before);
  if (rows_.find(row.id) != nobody || is_paused(row.kind)) {
    return;
  }
  try {
    if (wake < seen_until && rows_.has_room(row.kind)) {
      wait(add(row), wake, now);
      return;
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as if there were no room
  }
  if (row.due < seen_until) {
    reader_.miss(row.kind, row.due);
  }
}

// ---- shares

std::optional<std::chrono::milliseconds> machine::next_renewal(instant now) const {
  return closed_ || drained_ || kinds_.empty() || resting(now) ? std::nullopt : shares_.next_renewal(now);
}

void machine::expects_shares(instant now) {
  if (shares_.expects(now)) {
    reader_.sweep(now);
  }
}

void machine::has_shares(std::optional<std::vector<std::int16_t>> shares, instant now) {
  if (shares_.has(std::move(shares), now)) {
    reader_.read_anew(now);
  }
}

// ---- reading

void machine::has_paused(std::span<const std::string> paused, instant now) noexcept {
  drained_ = std::find(paused.begin(), paused.end(), std::string_view()) != paused.end();
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    const bool is = drained_ || std::find(paused.begin(), paused.end(), kinds_[kind].name) != paused.end();
    if (is && !is_paused(kind)) {
      pause(kind);
    } else if (!is && is_paused(kind)) {
      reader_.resume(kind, now);
    }
  }
}

void machine::pause(std::uint32_t kind) noexcept {
  reader_.pause(kind);
  for (timer_number number = 0; number < rows_.numbers(); ++number) {
    const bool waits = rows_[number].at == stage::waiting || rows_[number].at == stage::ready;
    if (waits && rows_[number].what.kind == kind) {
      take_out(number);
      rows_.forget(number);
    }
  }
}

std::optional<read_range> machine::next_read(instant now) {
  if (closed_ || kinds_.empty() || resting(now)) {
    return std::nullopt;
  }
  return reader_.next(now, shares_.shares(), ready_.size_without_waiting(claims_), due_.next_event());
}

void machine::has_read(const read_range& read, std::span<const upcoming> found, instant now) {
  for (upcoming one : read.kinds.empty() ? std::span<const upcoming>() : found) {
    one.kind = reader_.kind_at(one.kind);
    meet(one, read, now);
  }
  reader_.has_read(read, found);
}

void machine::meet(const upcoming& one, const read_range& read, instant now) {
  const timer_number number = rows_.find(one.id);
  const bool is_known = number != nobody;
  const bool waits = is_known && (rows_[number].at == stage::waiting || rows_[number].at == stage::ready);
  if (one.lease >= read.until) {  // another node's for long: met again by a later pass
    reader_.miss(one.kind, one.due);
    if (waits) {
      take_out(number);
      rows_.forget(number);
    }
  } else if (!is_known && !rows_.has_room(one.kind)) {
    reader_.leave_out(one.kind, one.due);
  } else if (!is_known) {
    wait(add(one), wake_of(one), now);
  } else if (waits) {
    meet_again(number, one, now);
  }
}

void machine::meet_again(timer_number number, const upcoming& one, instant now) {
  known_row& known = rows_[number];
  if (known.what.due != one.due || known.what.lease != one.lease || known.what.size != one.size) {
    take_out(number);
    known.what = one;
    known.suspect = suspicious(kinds_[one.kind], one);
    wait(number, wake_of(one), now);
  }
}

// \pre it waits, or is ready.
void machine::take_out(timer_number number) noexcept {
  if (rows_[number].at == stage::ready) {
    ready_.remove(number);
  } else {
    due_.remove(number);
  }
}

// ---- claiming

std::vector<upcoming> machine::to_claim(allowance left) {
  if (closed_) {
    return {};
  }
  const std::size_t most = std::min(options_.batch, claims_.room());
  left.rows = std::min(left.rows, most);
  left.bytes = options_.max_claimed_bytes - std::min(options_.max_claimed_bytes, claims_.bytes());
  std::vector<upcoming> picked = ready_.pick(false, left, claims_);
  has_picked(picked);
  held_back_ = picked.size() < most && ready_.can_pick(false, claims_);
  return picked;
}

std::vector<upcoming> machine::to_consume(std::size_t limit) {
  allowance left{.rows = std::min(options_.batch, limit), .bytes = options_.max_claimed_bytes};
  if (closed_) {
    return {};
  }
  std::vector<upcoming> picked = ready_.pick(true, left, claims_);
  has_picked(picked);
  return picked;
}

void machine::has_picked(std::span<const upcoming> picked) noexcept {
  for (const upcoming& one : picked) {
    stale_from_[one.kind] = saturating_add(due_.clock(), stale_after);
  }
}

std::vector<upcoming> machine::spares_for(std::span<const upcoming> asked, const allowance& left) const {
  if (asked.empty() || spares_ == 0) {
    return {};
  }
  const std::size_t bytes = options_.max_claimed_bytes - std::min(options_.max_claimed_bytes, claims_.bytes());
  return ready_.spares(asked, std::min(spares_, left.rows), bytes, left, claims_);
}

void machine::has_claimed(std::span<const upcoming> asked, std::span<const claimed> got, instant now,
                          std::span<const upcoming> tried) noexcept {
  learn_from(asked.size(), asked.size() + tried.size(), got.size());
  for (const claimed& one : got) {
    const timer_number number = rows_.number_of(one.id);
    if (rows_[number].at == stage::ready) {
      ready_.remove(number);
      claims_.ask(number);
    }
    claims_.has_got(number, one);
  }
  for (const upcoming& one : tried) {
    const timer_number number = rows_.number_of(one.id);
    if (rows_[number].at == stage::ready) {
      ready_.remove(number);
      claims_.ask(number);
      has_not_got(number, now);
    }
  }
  has_consumed(asked, {}, now);
}

// Where nodes share a table, many rows that one knows are another one's by now; and how many, changes with who had the
// table last. So it forgets slowly. A node alone soon has no spares.
void machine::learn_from(std::size_t asked, std::size_t tried, std::size_t got) noexcept {
  constexpr std::size_t fewest = 64;
  spares_ -= (spares_ + 15) / 16;
  if (got < tried) {
    spares_ = std::max({fewest, spares_, got < asked ? 2 * tried : 2 * (tried - got)});
  }
  spares_ = std::min(spares_, options_.batch);
}

void machine::has_consumed(std::span<const upcoming> asked, std::span<const claimed> got, instant now) noexcept {
  for (const claimed& one : got) {
    const timer_number number = rows_.number_of(one.id);
    claims_.is_over(number);
    rows_.forget(number);
  }
  for (const upcoming& one : asked) {
    const timer_number number = rows_.find(one.id);
    if (number != nobody && rows_[number].at == stage::asked) {
      has_not_got(number, now);
    }
  }
}

// A row whose lease has ended may have been refused since it was too early for that: it is asked for again in time. Any
// other is met again, if it is still there.
void machine::has_not_got(timer_number number, instant now) noexcept {
  const upcoming& what = rows_[number].what;
  claims_.is_over(number);
  const bool too_early = is_of_a_node(what) && orphans_until_ == instant::min();
  if (too_early && contact_.from() != instant::max()) {
    wait(number, std::max(wake_of(what), now + options_.tick), now);
  } else {
    miss(number);
  }
}

void machine::consume_later(std::span<const upcoming> asked, instant now, microseconds pause) noexcept {
  for (const upcoming& one : asked) {
    const timer_number number = rows_.number_of(one.id);
    claims_.is_over(number);
    wait(number, saturating_add(now, pause), now);
  }
}

void machine::has_not_asked(std::span<const upcoming> asked) noexcept {
  for (std::size_t i = asked.size(); i-- > 0;) {
    const timer_number number = rows_.number_of(asked[i].id);
    claims_.is_over(number);
    ready_.push_again(number);
  }
}

// ---- ends

void machine::ended(std::int64_t id, ending how) noexcept {
  const timer_number number = rows_.number_of(id);
  const bool others_need_its_place =
      claims_.room() == 0 || claims_.free_runs(rows_[number].what.kind) == 0 || claims_.has_suspect();
  ends_since_ = others_need_its_place ? instant::min() : claims_.has_ends() ? ends_since_ : due_.told();
  claims_.ended(number, std::move(how));
}

// What is ready is claimed now, or waits for the places of those that have ended. A transactional row would wait for
// the round of ends before it is consumed.
instant machine::ends_wait_until() const {
  constexpr std::chrono::milliseconds longest(2);
  if (!claims_.has_ends()) {
    return instant::max();
  }
  const instant next = due_.next_event();
  const bool joins_a_claim =
      all_leased_ && !closed_ && ready_.size() == 0 && next <= saturating_add(ends_since_, longest);
  return joins_a_claim ? next : instant::min();
}

void machine::given_up(std::int64_t id, ending how) noexcept {
  rows_[rows_.number_of(id)].orphaned = true;
  ended(id, std::move(how));
}

void machine::given_back(std::int64_t id, instant now, microseconds pause) noexcept {
  known_row& which = rows_[rows_.number_of(id)];
  // The row keeps its deadline: it is free for every node. This one comes back after the pause, by `has_ended`.
  ended(id, {outcome::verdict::retry, which.what.due, {}, false, false, saturating_add(now, pause)});
}

void machine::has_ended(const ends_to_write& written, instant now, microseconds aside) noexcept {
  const auto end_of = [&](const ticket& of) {
    const timer_number number = rows_.number_of(of.id);
    claims_.has_answered(number);
    of.locked ? set_aside(number, now, aside) : is_over(number, of.still_ours, now);
  };
  std::for_each(written.complete.begin(), written.complete.end(), end_of);
  for (const auto* some : {&written.retry, &written.snooze, &written.give_back}) {
    std::for_each(some->begin(), some->end(), [&](const release_op& one) { end_of(one.of); });
  }
  std::for_each(written.bury.begin(), written.bury.end(), [&](const bury_op& one) { end_of(one.of); });
}

// A row that is not ours any more is another node's: it is met again, also behind the low-water mark.
void machine::is_over(timer_number number, bool still_ours, instant now) noexcept {
  const known_row& which = rows_[number];
  // What was given back is as before: an orphan with its ended lease, so that a suspect stays one.
  const instant lease = which.orphaned && !which.how.began ? which.what.lease : instant{};
  const instant not_before = which.how.not_before;
  const int attempt = which.orphaned ? which.attempt - (which.how.counts ? 0 : 1) : 0;
  const upcoming again{which.what.id, which.how.due, lease, which.what.kind, attempt, which.what.size};
  const bool is_retry = which.how.what == outcome::verdict::retry;
  claims_.is_over(number);
  if (!still_ours) {
    miss(number);
    return;
  }
  rows_.forget(number);
  if (is_retry) {
    expect(again, now, not_before);
  }
}

// Somebody has locked its row, or the store refuses its end. The ends of others must not wait for that.
void machine::set_aside(timer_number number, instant now, microseconds pause) noexcept {
  try {
    if (due_.add(number, now + pause, now)) {
      claims_.set_aside(number);
      return;
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is tried again at once
  }
  claims_.again(number);
}

// ---- when

instant machine::next_event(instant now) const {
  if (resting(now)) {
    return pause_.until();
  }
  const bool claims_more = !closed_ && !held_back_ && ready_.can_pick(false, claims_);
  if (writes_ends(now) || claims_more || (!closed_ && ready_.can_pick(true, claims_))) {
    return now;
  }
  const bool reads = !closed_ && !kinds_.empty();
  const instant next = reads ? std::min(reader_.next_event(now), shares_.next_event()) : instant::max();
  return std::min(next, due_.next_event());
}

bool machine::invariants_hold() const {
  for (timer_number number = 0; number < rows_.numbers(); ++number) {
    const known_row& which = rows_[number];
    if ((which.at == stage::waiting || which.at == stage::ready) && is_paused(which.what.kind)) {
      return false;
    }
  }
  return rows_.invariants_hold() && due_.invariants_hold(rows_) && ready_.invariants_hold() &&
         claims_.invariants_hold() && reader_.invariants_hold() && shares_.invariants_hold() &&
         pause_.invariants_hold();
}

}  // namespace timing_wheel::durable
