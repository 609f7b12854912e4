#include "durable/node/machine.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

time_point nanoseconds_of(instant when) noexcept { return time_point(saturating_nanoseconds(when.time_since_epoch())); }

// Rows in a page, at most.
constexpr std::size_t page_size = 2000;

// How long shares are held, how often that is renewed, and how much later a row is anybody's.
constexpr std::chrono::seconds hold{3};
constexpr std::chrono::seconds renewal{1};
constexpr std::chrono::seconds grace{1};

// A run that ended without a word may have done so by chance, or by a neighbour's fault. For such an end the row is a
// suspect from the second run on, and not dead before the third. Runs that asked for a retry count, too: the row does
// not say how many of its runs ended in which way.
constexpr int innocent_ends = 2;

// In floating point, where nothing overflows; nothing times a factor without end is nothing.
std::chrono::duration<double> pause_by(const backoff& rule, int attempt) noexcept {
  const std::chrono::duration<double> first = rule.first;
  const bool none = first == first.zero();
  return none ? first : std::min<std::chrono::duration<double>>(rule.most, first * std::pow(rule.factor, attempt - 1));
}

std::size_t quota_of(const scheduler_options& options, std::size_t kinds) {
  return std::max<std::size_t>(1, options.max_known / (2 * std::max<std::size_t>(1, kinds)));
}

std::string copy_of(const std::string& reason) noexcept {
  try {
    return reason;
  } catch (const std::bad_alloc&) {  // the end counts, not its reason
    return {};
  }
}

}  // namespace

machine::machine(const scheduler_options& options, std::vector<kind_rules> kinds, instant now, std::uint64_t seed)
    : options_(options),
      kinds_(std::move(kinds)),
      quota_(quota_of(options_, kinds_.size())),
      scale_(nanoseconds_of(now), options.tick),
      states_(kinds_.size()),
      clock_(now),
      contact_(options_.lease, options_.poll),
      next_hold_(now),
      next_poll_(now),
      next_sweep_(now),
      random_(static_cast<std::minstd_rand::result_type>(seed)) {}

// ---- time

tick machine::deadline_of(instant when) const noexcept { return scale_.ceil(nanoseconds_of(when)); }

tick machine::clock_at(instant now) const noexcept { return scale_.floor(nanoseconds_of(now)); }

instant machine::begin_of(tick t) const noexcept {
  return instant(std::chrono::ceil<microseconds>(scale_.begin_of(t).time_since_epoch()));
}

// ---- rows

void machine::push_back(queue& into, timer_number number) noexcept {
  rows_[number].previous = into.last;
  rows_[number].next = nobody;
  (into.empty() ? into.first : rows_[into.last].next) = number;
  into.last = number;
  ++into.size;
}

void machine::push_front(queue& into, timer_number number) noexcept {
  rows_[number].previous = nobody;
  rows_[number].next = into.first;
  (into.empty() ? into.last : rows_[into.first].previous) = number;
  into.first = number;
  ++into.size;
}

void machine::unlink(queue& from, timer_number number) noexcept {
  const row& which = rows_[number];
  (which.previous == nobody ? from.first : rows_[which.previous].next) = which.next;
  (which.next == nobody ? from.last : rows_[which.next].previous) = which.previous;
  --from.size;
}

machine::row* machine::find(std::int64_t id) noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &rows_[found->second];
}

timer_number machine::add(const upcoming& what) {
  if (free_ == nobody) {
    rows_.emplace_back();
    free_ = static_cast<timer_number>(rows_.size() - 1);
  }
  const timer_number number = free_;
  by_id_.emplace(what.id, number);
  free_ = rows_[number].next;
  rows_[number].what = what;
  rows_[number].suspect = suspicious(what);
  ++states_[what.kind].known;
  return number;
}

void machine::forget(timer_number number) noexcept {
  by_id_.erase(rows_[number].what.id);
  --states_[rows_[number].what.kind].known;
  rows_[number] = row{};
  rows_[number].next = free_;
  free_ = number;
}

// Its last run ended without a word if its lease ends after its deadline. A row that its last run asked for again has
// no lease; or, if it is orphaned, one that ended before the new deadline. An orphaned one that was given back looks as
// if it had been lost.
bool machine::suspicious(const upcoming& what) const {
  const bool without_a_word = what.lease != instant{} && what.lease > what.due;
  return !kinds_[what.kind].transactional && without_a_word && what.attempt >= innocent_ends;
}

// A row of another node is met again when its lease has ended, and may be claimed.
instant machine::wake_of(const upcoming& what) const noexcept {
  const instant open = what.lease == instant{} || contact_.from() == instant::max() ? instant{} : contact_.from();
  return std::max({what.due, what.lease, open});
}

// \returns false if that is not after the clock of the wheel.
bool machine::insert(timer_number number, instant until, instant now) {
  wheel_->catch_up(clock_at(now));
  return wheel_->insert(number, deadline_of(until));
}

// What there is no memory for is met again by the next pass.
void machine::wait(timer_number number, instant until, instant now) noexcept {
  try {
    if (insert(number, until, now)) {
      rows_[number].where = place::waiting;
    } else {
      make_ready(number);
    }
  } catch (const std::bad_alloc&) {
    missed_ = std::min(missed_, rows_[number].what.due);
    forget(number);
  }
}

void machine::make_ready(timer_number number) noexcept {
  row& which = rows_[number];
  which.where = place::ready;
  kind_state& kind = states_[which.what.kind];
  const instant clock = begin_of(wheel_->now());
  const bool late = which.what.due < clock - options_.poll;
  push_back(which.suspect ? kind.suspects : late ? kind.backlog : kind.in_time, number);
  ++ready_count_;
}

void machine::expect(const upcoming& row_of, instant now) noexcept {
  const bool soon = wake_of(row_of) < saturating_add(now, options_.look_ahead);
  if (!soon || find(row_of.id) != nullptr || !has_room(row_of.kind)) {
    return;
  }
  try {
    wait(add(row_of), wake_of(row_of), now);
  } catch (const std::bad_alloc&) {
    missed_ = std::min(missed_, row_of.due);
  }
}

// The clock was set back: all that waits is put into a wheel that begins now.
void machine::restart(instant now) {
  wheel_ = std::make_unique<hierarchical_wheel>();
  scale_ = tick_scale(nanoseconds_of(now), options_.tick);
  ready_count_ = 0;
  for (kind_state& kind : states_) {
    kind.in_time = kind.backlog = kind.suspects = {};
  }
  next_hold_ = next_poll_ = next_sweep_ = rest_until_ = now;
  passing_ = false;
  for (timer_number number = 0; number < rows_.size(); ++number) {
    const row& which = rows_[number];
    if (which.where == place::waiting || which.where == place::ready) {
      wait(number, wake_of(which.what), now);
    } else if (which.where == place::set_aside) {
      --set_aside_count_;
      make_ending(number);
    }
  }
}

void machine::advance(instant now) {
  if (now < clock_ - options_.poll) {
    restart(now);
  }
  clock_ = now;
  const tick clock = clock_at(now);
  for (bool more = true; more;) {
    const advance_result expired = wheel_->advance(clock);
    for (const timer_number number : expired.due) {
      if (rows_[number].where == place::set_aside) {
        --set_aside_count_;
        make_ending(number);
      } else {
        make_ready(number);
      }
    }
    more = expired.more;
  }
}

// ---- shares

std::optional<std::chrono::milliseconds> machine::next_hold(instant now) const {
  if (closed_ || kinds_.empty() || !divided_ || resting(now) || now < next_hold_) {
    return std::nullopt;
  }
  return hold;
}

void machine::expects_shares(instant now) {
  next_hold_ = saturating_add(now, renewal);
  if (now >= hold_ends_) {
    shares_.reset();
    hold_ends_ = instant::max();
    next_sweep_ = now;
  }
}

void machine::has_shares(std::optional<std::vector<std::int16_t>> shares, instant now) {
  divided_ = shares.has_value();
  if (!shares) {
    return;
  }
  hold_ends_ = saturating_add(now, hold);
  std::sort(shares->begin(), shares->end());
  if (!shares_ || !std::includes(shares_->begin(), shares_->end(), shares->begin(), shares->end())) {
    next_poll_ = next_sweep_ = now;
    passing_ = false;
  }
  shares_ = std::move(shares);
}

// ---- reading

window machine::page(instant from, std::int64_t after, instant now) const {
  window which{.from = from,
               .after_id = after,
               .until = saturating_add(now, options_.look_ahead),
               .limit = std::min(page_size, options_.max_known),
               .kinds = names_read_};
  if (shares_) {
    which.shares = *shares_;
    which.overdue = helps_ ? now - grace : instant::min();
  }
  return which;
}

// Those whose quota is used up, up to twice of it; or the others. \returns whether there are any.
bool machine::choose_kinds(bool of_full_ones) {
  kinds_read_.clear();
  names_read_.clear();
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    if (full(kind) == of_full_ones && has_room(kind)) {
      kinds_read_.push_back(kind);
      names_read_.push_back(kinds_[kind].name);
    }
  }
  return !kinds_read_.empty();
}

bool machine::hungry() const {
  return std::any_of(states_.begin(), states_.end(),
                     [this](const kind_state& kind) { return kind.left_out && kind.known <= quota_ / 2; });
}

instant machine::low_water(instant now) const {
  // What others leave is seen for a second, and for two polls, after it became anybody's.
  const microseconds seen = grace + std::max<microseconds>(grace, 2 * options_.poll);
  const microseconds back = shares_ ? std::max<microseconds>(options_.look_ahead, seen) : options_.look_ahead;
  instant low = std::min(saturating_add(std::min(now, passed_), -back), missed_);
  for (const row& which : rows_) {
    if (which.where != place::none) {
      low = std::min(low, which.what.due);
    }
  }
  return low;
}

// Suspects that wait for another one leave the node free for what others have.
bool machine::has_enough_to_do() const {
  std::size_t suspects = 0;
  for (const kind_state& kind : states_) {
    suspects += kind.suspects.size;
  }
  const std::size_t next = suspects != 0 && !suspect_runs_ ? 1 : 0;
  return ready_count_ - suspects + next >= options_.batch;
}

void machine::begin_pass(instant now) {
  passing_ = true;
  pass_began_ = now;
  cursor_id_ = std::numeric_limits<std::int64_t>::min();
  const bool sweeps = now >= next_sweep_;
  if (sweeps) {
    cursor_due_ = instant::min();
    next_sweep_ = now + options_.sweep;
  } else {
    cursor_due_ = low_water(now);
  }
  helps_ = sweeps || !has_enough_to_do() || ++looks_ % 4 == 0;
  missed_ = helps_ ? instant::max() : cursor_due_;  // what is left out now is in the window of the next that helps
  for (kind_state& kind : states_) {
    kind.left_out = false;
  }
}

std::optional<window> machine::next_page(instant now) {
  if (std::exchange(look_due_, false) && choose_kinds(true)) {
    reading_pass_ = false;
    return page(now - options_.look_ahead, std::numeric_limits<std::int64_t>::min(), now);
  }
  for (std::uint32_t kind = 0; passing_ && kind < kinds_.size(); ++kind) {
    if (full(kind) && !states_[kind].left_out) {
      states_[kind].left_out = true;
      missed_ = std::min(missed_, cursor_due_);  // so the next pass begins here at the latest
    }
  }
  passing_ = passing_ && choose_kinds(false);
  if (!passing_) {
    return std::nullopt;
  }
  reading_pass_ = true;
  return page(cursor_due_, cursor_id_, now);
}

std::optional<window> machine::next_read(instant now) {
  if (closed_ || kinds_.empty() || resting(now)) {
    return std::nullopt;
  }
  const bool polls = now >= next_poll_;
  if (polls) {
    next_poll_ = now + options_.poll;
    look_due_ = true;
  }
  if (!passing_ && (polls || hungry())) {
    begin_pass(now);
  }
  return next_page(now);
}

void machine::has_read(const window& read, std::span<const upcoming> found, instant now) {
  for (upcoming one : found) {
    one.kind = kinds_read_[one.kind];
    row* known = find(one.id);
    if (one.lease >= read.until) {  // another node's for long: met again by a later pass
      missed_ = std::min(missed_, one.due);
      if (known != nullptr && known->where == place::waiting) {
        wheel_->erase(number_of(one.id));
        forget(number_of(one.id));
      }
    } else if (known == nullptr && !has_room(one.kind)) {
      missed_ = std::min(missed_, one.due);
      states_[one.kind].left_out = true;
    } else if (known == nullptr) {
      wait(add(one), wake_of(one), now);
    } else if (known->where == place::waiting && (known->what.due != one.due || known->what.lease != one.lease)) {
      known->what = one;
      known->suspect = suspicious(one);
      const timer_number number = number_of(one.id);
      wheel_->erase(number);
      wait(number, wake_of(one), now);
    }
  }
  if (!reading_pass_) {
    return;
  }
  passing_ = found.size() == read.limit;
  if (passing_) {
    cursor_due_ = found.back().due;
    cursor_id_ = found.back().id;
  } else {
    passed_ = pass_began_;
  }
}

// ---- claiming

std::size_t machine::room_of(std::uint32_t kind) const {
  const std::size_t limit = kinds_[kind].transactional ? no_limit : kinds_[kind].options.max_running;
  return limit - std::min(limit, states_[kind].running);
}

machine::queue* machine::next_queue(kind_state& kind) const noexcept {
  if (!suspect_runs_ && !kind.suspects.empty()) {
    return &kind.suspects;
  }
  if (kind.in_time.empty() && kind.backlog.empty()) {
    return nullptr;
  }
  const bool from_backlog = kind.in_time.empty() || (!kind.backlog.empty() && kind.backlog_next);
  kind.backlog_next = !from_backlog;
  return from_backlog ? &kind.backlog : &kind.in_time;
}

// \pre there is room for them.
void machine::pick_of_kind(std::uint32_t kind, std::size_t limit, std::vector<upcoming>& picked) noexcept {
  kind_state& state = states_[kind];
  const std::size_t most = std::min(limit, room_of(kind));
  for (std::size_t n = 0; n < most; ++n) {
    queue* const from = next_queue(state);
    if (from == nullptr) {
      return;
    }
    row& which = rows_[from->first];
    unlink(*from, from->first);
    suspect_runs_ = suspect_runs_ || which.suspect;
    which.where = place::asked;
    ++state.running;
    --ready_count_;
    picked.push_back(which.what);
  }
}

std::vector<upcoming> machine::pick(bool transactional, std::size_t limit) {
  std::vector<upcoming> picked;
  picked.reserve(std::min(limit, ready_count_));
  std::uint32_t& first = first_kind_.at(transactional ? 1 : 0);
  for (std::uint32_t i = 0; i < kinds_.size() && picked.size() < limit; ++i) {
    const auto kind = static_cast<std::uint32_t>((first + i) % kinds_.size());
    if (kinds_[kind].transactional == transactional) {
      pick_of_kind(kind, limit - picked.size(), picked);
    }
  }
  if (!kinds_.empty()) {
    first = static_cast<std::uint32_t>((first + 1) % kinds_.size());
  }
  return picked;
}

std::vector<upcoming> machine::to_claim() {
  if (closed_) {
    return {};
  }
  const std::size_t room = options_.max_claimed - std::min(options_.max_claimed, held_count_);
  std::vector<upcoming> picked = pick(false, std::min(options_.batch, room));
  held_count_ += picked.size();
  return picked;
}

std::vector<upcoming> machine::to_take(std::size_t limit) {
  return closed_ ? std::vector<upcoming>() : pick(true, std::min(options_.batch, limit));
}

// Its place among the running is free.
void machine::release(row& which) noexcept {
  --states_[which.what.kind].running;
  if (!kinds_[which.what.kind].transactional) {
    --held_count_;
  }
  suspect_runs_ = suspect_runs_ && !which.suspect;
}

void machine::has_claimed(std::span<const upcoming> asked, std::span<const claimed> got, instant now) noexcept {
  for (const claimed& one : got) {
    row& which = *find(one.id);
    which.where = place::held;
    which.fence = one.fence;
    which.attempt = one.attempt;
    which.orphaned = one.orphaned;
    which.what.due = one.due;
  }
  has_taken(asked, {}, now);
}

void machine::has_taken(std::span<const upcoming> asked, std::span<const claimed> got, instant now) noexcept {
  for (const claimed& one : got) {
    row& which = *find(one.id);
    release(which);
    forget(number_of(one.id));
  }
  for (const upcoming& one : asked) {
    row* which = find(one.id);
    if (which != nullptr && which->where == place::asked) {
      has_not_got(number_of(one.id), now);
    }
  }
}

// One whose lease has ended may have been refused since it was too early for that: it is asked for again in time. Any
// other is met again, if it is still there.
void machine::has_not_got(timer_number number, instant now) noexcept {
  row& which = rows_[number];
  release(which);
  const bool too_early = which.what.lease != instant{} && orphans_until_ == instant::min();
  if (too_early && contact_.from() != instant::max()) {
    wait(number, std::max(wake_of(which.what), now + options_.tick), now);
    return;
  }
  missed_ = std::min(missed_, which.what.due);
  forget(number);
}

void machine::has_not_asked(std::span<const upcoming> asked) noexcept {
  for (std::size_t i = asked.size(); i-- > 0;) {
    const timer_number number = number_of(asked[i].id);
    row& which = rows_[number];
    release(which);
    which.where = place::ready;
    kind_state& kind = states_[which.what.kind];
    push_front(which.suspect ? kind.suspects : kind.backlog, number);
    ++ready_count_;
  }
}

// ---- ends

bool machine::exhausted(std::uint32_t kind, int attempt) const {
  return attempt > std::max(kinds_[kind].options.max_attempts, innocent_ends + 1);
}

std::optional<microseconds> machine::longest_pause(std::uint32_t kind, int attempt,
                                                   const outcome& said) const noexcept {
  const handler_options& options = kinds_[kind].options;
  if (said.what() != outcome::verdict::retry || attempt >= options.max_attempts) {
    return std::nullopt;
  }
  return said.delay() < microseconds::zero() ? saturating_microseconds(pause_by(options.backoff, attempt))
                                             : said.delay();
}

instant machine::retry_at(const backoff& rule, int attempt, instant now) noexcept {
  std::uniform_real_distribution<double> less(0, std::clamp(rule.jitter, 0.0, 1.0));
  return saturating_add(now, saturating_microseconds(pause_by(rule, attempt) * (1 - less(random_))));
}

machine::end machine::decide(std::uint32_t kind, int attempt, const outcome& said, instant now) noexcept {
  const handler_options& options = kinds_[kind].options;
  end how{said.what(), {}, copy_of(said.reason())};
  if (how.what == outcome::verdict::retry) {
    if (attempt >= options.max_attempts) {
      how.what = outcome::verdict::dead;
    } else {
      how.due = said.delay() < microseconds::zero() ? retry_at(options.backoff, attempt, now)
                                                    : saturating_add(now, said.delay());
    }
  }
  return how;
}

void machine::ended(std::int64_t id, end how) noexcept {
  const timer_number number = number_of(id);
  row& which = rows_[number];
  assert(which.where == place::held);
  which.how = std::move(how);
  make_ending(number);
}

void machine::make_ending(timer_number number) noexcept {
  rows_[number].where = place::ending;
  push_back(ending_, number);
}

void machine::given_back(std::int64_t id, instant now, microseconds pause) noexcept {
  row& which = *find(id);
  --which.attempt;
  // The row keeps its deadline: it is free for every node. This one comes back after the pause, by `has_ended`.
  ended(id, {outcome::verdict::retry, which.what.due, {}, false});
  which.what.lease = saturating_add(now, pause);
}

machine::ends machine::to_end(std::size_t limit) const {
  ends write;
  for (timer_number at = ending_.first; at != nobody && write.size() < limit; at = rows_[at].next) {
    const row& which = rows_[at];
    const ticket of{which.what.id, which.fence};
    switch (which.how.what) {
      case outcome::verdict::done:
        write.complete.push_back(of);
        break;
      case outcome::verdict::retry:
        (which.how.began ? write.retry : write.give_back).push_back({of, which.how.due, which.attempt, which.orphaned});
        break;
      case outcome::verdict::dead:
        write.bury.push_back({of, which.how.reason});
        break;
    }
  }
  return write;
}

void machine::has_ended(const ends& written, instant now) noexcept {
  const auto end_of = [&](const ticket& of) {
    const timer_number number = number_of(of.id);
    unlink(ending_, number);
    of.locked ? set_aside(number, now) : is_over(number, of.held, now);
  };
  std::for_each(written.complete.begin(), written.complete.end(), end_of);
  for (const auto* some : {&written.retry, &written.give_back}) {
    std::for_each(some->begin(), some->end(), [&](const retry_op& one) { end_of(one.of); });
  }
  std::for_each(written.bury.begin(), written.bury.end(), [&](const bury_op& one) { end_of(one.of); });
}

// A row that was not held any more is another node's: it is met again, also behind the low-water mark.
void machine::is_over(timer_number number, bool held, instant now) noexcept {
  row& which = rows_[number];
  const instant lease = which.how.began ? instant{} : which.what.lease;  // given back: that says for how long
  const upcoming again{which.what.id, which.how.due, lease, which.what.kind, which.orphaned ? which.attempt : 0};
  const bool is_retry = which.how.what == outcome::verdict::retry;
  missed_ = held ? missed_ : std::min(missed_, which.what.due);
  release(which);
  forget(number);
  if (held && is_retry) {
    expect(again, now);
  }
}

// Somebody has locked its row. That may take long, and the ends of others must not wait for it.
void machine::set_aside(timer_number number, instant now) noexcept {
  constexpr std::chrono::milliseconds pause(100);
  try {
    if (insert(number, now + pause, now)) {
      rows_[number].where = place::set_aside;
      ++set_aside_count_;
      return;
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is tried again at once
  }
  make_ending(number);
}

// ---- when

void machine::store_failed(instant now, bool writing) {
  failed_writing_ = failed_writing_ || writing;
  // No longer than that a node which died in an outage is replaced within a lease of its end.
  constexpr std::int64_t first = 10'000;
  const std::int64_t most = std::clamp<std::int64_t>(microseconds(options_.lease).count() / 6, first, 5'000'000);
  const std::int64_t exact = std::min(most, first << std::min(failures_, 20U));
  std::uniform_int_distribution<std::int64_t> some(exact / 2, exact);
  rest_until_ = now + microseconds(some(random_));
  ++failures_;
}

bool machine::can_ask() const {
  if (closed_ || ready_count_ == 0) {
    return false;
  }
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    const kind_state& state = states_[kind];
    const bool any = !state.in_time.empty() || !state.backlog.empty() || (!state.suspects.empty() && !suspect_runs_);
    if (any && room_of(kind) != 0 && (kinds_[kind].transactional || held_count_ < options_.max_claimed)) {
      return true;
    }
  }
  return false;
}

instant machine::next_event(instant now) const {
  if (resting(now)) {
    return rest_until_;
  }
  if (!ending_.empty() || can_ask()) {
    return now;
  }
  instant next = instant::max();
  if (!closed_ && !kinds_.empty()) {
    next = passing_ || hungry() ? now : next_poll_;
    next = shares_ ? std::min(next, next_hold_) : next;
  }
  if (const std::optional<tick> expiration = wheel_->next_expiration(); expiration) {
    next = std::min(next, begin_of(*expiration));
  }
  return next;
}

std::optional<instant> machine::oldest_ready(std::uint32_t kind) const {
  std::optional<instant> oldest;
  for (const queue* from : {&states_[kind].in_time, &states_[kind].backlog, &states_[kind].suspects}) {
    if (!from->empty()) {
      const instant due = rows_[from->first].what.due;
      oldest = oldest ? std::min(*oldest, due) : due;
    }
  }
  return oldest;
}

// Whether all in the queue are in that place, and linked both ways.
bool machine::links(const queue& which, place where) const {
  timer_number before = nobody;
  std::size_t count = 0;
  for (timer_number at = which.first; at != nobody; before = at, at = rows_[at].next) {
    if (rows_[at].where != where || rows_[at].previous != before || ++count > which.size) {
      return false;
    }
  }
  return count == which.size && which.last == before;
}

bool machine::links_hold() const {
  std::size_t unused = 0;
  for (timer_number at = free_; at != nobody && unused <= rows_.size(); at = rows_[at].next) {
    ++unused;
  }
  return by_id_.size() + unused == rows_.size() && links(ending_, place::ending) &&
         std::all_of(states_.begin(), states_.end(), [this](const kind_state& kind) {
           return links(kind.in_time, place::ready) && links(kind.backlog, place::ready) &&
                  links(kind.suspects, place::ready);
         });
}

bool machine::invariants_hold() const {
  std::size_t ready = 0;
  std::size_t held = 0;
  std::size_t ending = 0;
  std::size_t aside = 0;
  std::size_t suspects = 0;  // that are busy
  std::vector<std::size_t> running(kinds_.size());
  for (timer_number number = 0; number < rows_.size(); ++number) {
    const row& which = rows_[number];
    const bool busy = which.where == place::asked || which.where == place::held || which.where == place::ending ||
                      which.where == place::set_aside;
    ready += which.where == place::ready ? 1U : 0U;
    ending += which.where == place::ending ? 1U : 0U;
    aside += which.where == place::set_aside ? 1U : 0U;
    suspects += busy && which.suspect ? 1U : 0U;
    running[which.what.kind] += busy ? 1U : 0U;
    held += busy && !kinds_[which.what.kind].transactional ? 1U : 0U;
    if ((which.where == place::waiting || which.where == place::set_aside) && !wheel_->contains(number)) {
      return false;
    }
  }
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    if (states_[kind].running != running[kind]) {
      return false;
    }
  }
  return suspects == (suspect_runs_ ? 1U : 0U) && ready == ready_count_ && held == held_count_ &&
         ending == ending_.size && aside == set_aside_count_ && links_hold() && wheel_->invariants_hold();
}

}  // namespace timing_wheel::durable
