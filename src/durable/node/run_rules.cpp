#include "durable/node/run_rules.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

// A run that ended without a word may have done so by chance, or by a neighbour's fault. For such an end the row is a
// suspect from the second run on, and not dead before the third. Runs that asked for a retry count, too: the row does
// not say how many of its runs ended in which way.
constexpr int innocent_ends = 2;

// It is no attempt, so nothing else would end a check that asks to run again at once.
constexpr std::chrono::milliseconds shortest_snooze(1);

// In floating point, where nothing overflows; nothing times a factor without end is nothing.
std::chrono::duration<double> pause_by(const backoff& rule, int attempt) noexcept {
  const std::chrono::duration<double> first = rule.first;
  const bool none = first == first.zero();
  return none ? first : std::min<std::chrono::duration<double>>(rule.most, first * std::pow(rule.factor, attempt - 1));
}

instant retry_at(const backoff& rule, int attempt, instant now, std::minstd_rand& random) noexcept {
  std::uniform_real_distribution<double> less(0, std::clamp(rule.jitter, 0.0, 1.0));
  return saturating_add(now, saturating_microseconds(pause_by(rule, attempt) * (1 - less(random))));
}

}  // namespace

job job_of(const kind_rules& kind, const claimed& one, std::stop_token stop) {
  return job({kind.name, one.key, one.payload, one.due, one.attempt, one.fence, one.id}, std::move(stop));
}

std::string copy_of(const std::string& reason, std::size_t longest) noexcept {
  std::size_t end = std::min(reason.size(), longest);
  for (int bytes = 3; bytes > 0 && end < reason.size() && (static_cast<unsigned char>(reason[end]) & 0xC0U) == 0x80U;
       --bytes) {
    --end;
  }
  try {
    return reason.substr(0, end);
  } catch (const std::bad_alloc&) {  // the end counts, not its reason
    return {};
  }
}

ending decide(const handler_options& options, int attempt, const outcome& said, instant now,
              std::minstd_rand& random) noexcept {
  ending how{said.what(), {}, copy_of(said.reason())};
  if (how.what == outcome::verdict::snooze) {
    how.what = outcome::verdict::retry;
    how.due = saturating_add(now, std::max<microseconds>(said.delay(), shortest_snooze));
    how.counts = false;
  } else if (how.what == outcome::verdict::retry) {
    if (attempt >= options.max_attempts) {
      how.what = outcome::verdict::dead;
    } else {
      how.due = said.delay() < microseconds::zero() ? retry_at(options.backoff, attempt, now, random)
                                                    : saturating_add(now, said.delay());
    }
  }
  return how;
}

std::optional<microseconds> longest_pause(const handler_options& options, int attempt, const outcome& said) noexcept {
  if (said.what() != outcome::verdict::retry || attempt >= options.max_attempts) {
    return std::nullopt;
  }
  return said.delay() < microseconds::zero() ? saturating_microseconds(pause_by(options.backoff, attempt))
                                             : said.delay();
}

bool exhausted(const handler_options& options, int attempt) noexcept {
  return attempt > std::max(options.max_attempts, innocent_ends + 1);
}

// A run ended without a word if the row's lease ends after its deadline. A row whose last run asked for a retry has no
// lease; or, if it is orphaned, one that ended before the new deadline. An orphaned row that was given back looks as if
// its run had been lost.
bool suspicious(const kind_rules& kind, const upcoming& what) noexcept {
  const bool without_a_word = what.lease != instant{} && what.lease > what.due;
  return !kind.transactional && without_a_word && what.attempt >= innocent_ends;
}

}  // namespace timing_wheel::durable
