#include "durable/node/group_commit.hpp"

#include <algorithm>
#include <utility>

#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Writes in a transaction, at most: others want the lock too.
constexpr std::size_t largest = 5000;

// For a row that another transaction keeps. A group waits for it as long as most commits last, since a group that is
// done again costs as much. Where each has a part of its own, there is nothing to wait for: it can be tried again.
constexpr milliseconds wait_of_a_group(5);
constexpr milliseconds wait_of_a_part(1);

bool is_locked_out(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const timer_error& error) {
    return error.code() == errc::row_locked;
  } catch (...) {
    return false;
  }
}

template <class Write, class Test>
bool any_name(const Write& of, const Test& test) {
  return of.work != nullptr ? test(of.name) : std::any_of(of.ops.begin(), of.ops.end(), [&](const append_op& op) {
    return test(check_name{op.asked->kind, op.asked->key});
  });
}

}  // namespace

// ---- queues

void group_commit::queue::push(write& one) noexcept {
  one.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &one;
  last_ = &one;
  ++size_;
}

group_commit::write& group_commit::queue::pop() noexcept {
  write& one = *first_;
  first_ = one.next;
  --size_;
  return one;
}

// ---- those who wait

group_commit::group_commit(store& where, std::function<void()> wake, const waits_aside& limits)
    : store_(where),
      wake_(std::move(wake)),
      limits_(limits),
      row_is_locked_(std::make_exception_ptr(
          timer_error(make_error_code(errc::row_locked), "waiting for a write of the same check"))) {}

void group_commit::append(std::span<append_op> ops) {
  write mine;
  mine.ops = ops;
  submit(mine);
}

void group_commit::run(const check_name& of, const std::function<void(store_transaction&)>& work) {
  write mine;
  mine.name = of;
  mine.work = &work;
  submit(mine);
}

void group_commit::submit(write& mine) {
  held_lock lock(mutex_);
  waiting_.push(mine);
  if (!std::exchange(led_, true)) {
    mine.now = stage::leads;
  }
  more_.notify_one();
  while (mine.now != stage::told) {
    switch (mine.now) {
      case stage::leads:
        linger(lock);
        lead(lock);
        break;
      case stage::tries:
        mine.changed.wait_until(lock, next_try_);
        try_again(lock, true);
        break;
      default:
        mine.changed.wait(lock);
    }
  }
  lock.unlock();
  if (mine.failure) {
    std::rethrow_exception(mine.failure);
  }
}

void group_commit::linger(held_lock& lock) {
  constexpr clock::duration longest = milliseconds(5);
  more_.wait_for(lock, std::min(last_time_ / 10, longest), [this] { return waiting_.size() >= last_size_; });
}

// ---- those who do not

bool group_commit::post(std::span<append_op> ops, std::function<void(std::exception_ptr)> then) {
  auto mine = std::make_unique<write>();
  mine->ops = ops;
  mine->then = std::move(then);
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) {
      return false;
    }
    waiting_.push(*mine.release());  // `tell` deletes it
    ++posted_;
    more_.notify_one();
    drained_.notify_all();
  }
  wake_owner();
  return true;
}

std::chrono::microseconds group_commit::lead_posted() noexcept {
  held_lock lock(mutex_);
  if (!waiting_.empty() && !std::exchange(led_, true)) {
    lead(lock);
  }
  if (!aside_.empty() && !appointed_ && clock::now() >= next_try_) {
    appointed_ = true;
    try_again(lock, false);
  }
  return aside_.empty() || appointed_
             ? std::chrono::microseconds::max()
             : std::max(std::chrono::ceil<std::chrono::microseconds>(next_try_ - clock::now()), {});
}

void group_commit::refuse_posts() noexcept {
  const held_lock lock(mutex_);
  closed_ = true;
}

void group_commit::close() noexcept {
  held_lock lock(mutex_);
  closed_ = true;
  while (posted_ != 0) {
    if (!waiting_.empty() && !std::exchange(led_, true)) {
      lead(lock);
    } else if (!aside_.empty() && !std::exchange(appointed_, true)) {
      try_again(lock, false);
    } else {
      drained_.wait(lock);
    }
  }
}

void group_commit::wake_owner() noexcept {
  try {
    wake_();
  } catch (...) {  // NOLINT(bugprone-empty-catch): who could be told? The owner looks again by itself.
  }
}

// ---- the thread that leads, and the one that tries again

// \pre led_.
void group_commit::lead(held_lock& lock) noexcept {
  queue group = take_group();
  const std::size_t size = group.size();
  lock.unlock();
  const auto begin = clock::now();
  std::exception_ptr refused;
  try {
    std::vector<write*> some;
    some.reserve(size);
    for (write* one = group.first(); one != nullptr; one = one->next) {
      some.push_back(one);
    }
    commit(some);
  } catch (...) {
    refused = std::current_exception();
  }
  const auto took = clock::now() - begin;
  lock.lock();
  queue over;
  while (!group.empty()) {
    write& one = group.pop();
    if (refused != nullptr) {
      one.failure = refused;
    }
    if (one.locked_out) {
      set_aside(one);
    } else {
      over.push(one);
    }
  }
  last_size_ = size;
  last_time_ = took;
  const bool to_lead = hand_lead_on();
  const bool to_try = appoint();
  tell(over, lock, to_lead || to_try);
}

// What is behind a write that is set aside, is set aside too.
group_commit::queue group_commit::take_group() noexcept {
  queue group;
  while (!waiting_.empty() && group.size() < largest) {
    write& one = waiting_.pop();
    const write* before = aside_.first();
    while (before != nullptr && !share_a_check(*before, one)) {
      before = before->next;
    }
    if (before == nullptr) {
      group.push(one);
    } else {
      one.failure = row_is_locked_;
      set_aside(one);
    }
  }
  return group;
}

void group_commit::set_aside(write& one) noexcept {
  one.locked_out = true;
  one.now = stage::set_aside;
  one.until = clock::now() + (one.then ? limits_.posted : limits_.call);
  aside_.push(one);
}

// \pre appointed_. What comes aside meanwhile is there for the next time.
void group_commit::try_again(held_lock& lock, bool wakes_owner) noexcept {
  constexpr clock::duration shortest = milliseconds(5);
  constexpr clock::duration longest = milliseconds(100);
  const auto begin = clock::now();
  try {
    std::vector<write*> some;
    some.reserve(aside_.size());
    for (write* one = aside_.first(); one != nullptr; one = one->next) {
      some.push_back(one);
    }
    std::vector<const write*> locked;
    lock.unlock();
    commit_apart(some, locked);
    lock.lock();
  } catch (...) {  // NOLINT(bugprone-empty-catch): there was no memory for that list; the next time there may be
  }
  const auto end = clock::now();
  next_try_ = end + std::clamp(4 * (end - begin), shortest, longest);
  queue over;
  for (queue tried = std::exchange(aside_, {}); !tried.empty();) {
    write& one = tried.pop();
    const bool waits = one.locked_out && end < one.until && !(closed_ && one.then);
    (waits ? aside_ : over).push(one);
  }
  appointed_ = false;
  const bool for_owner = appoint();
  tell(over, lock, for_owner && wakes_owner);
}

// The first that has a thread.
group_commit::write* group_commit::queue::first_call() const noexcept {
  write* one = first_;
  while (one != nullptr && one->then) {
    one = one->next;
  }
  return one;
}

// To the first call that waits: the owner's thread may be busy for long. It leads until it is in a group. \returns
// whether all were posted, so that the owner, or the thread that closes, has to do it.
bool group_commit::hand_lead_on() noexcept {
  write* const next = waiting_.first_call();
  led_ = next != nullptr;
  if (led_) {
    next->now = stage::leads;
    next->changed.notify_one();
  } else {
    drained_.notify_all();
  }
  return !led_ && !waiting_.empty();
}

// Tries again what is set aside. \returns as `hand_lead_on`.
bool group_commit::appoint() noexcept {
  if (appointed_ || aside_.empty()) {
    return false;
  }
  write* const next = aside_.first_call();
  appointed_ = next != nullptr;
  if (appointed_) {
    next->now = stage::tries;
    next->changed.notify_one();
  } else {
    drained_.notify_all();
  }
  return !appointed_;
}

// Callers that wait are told before those that do not. One that waits may be gone when the lock is free.
void group_commit::tell(queue some, held_lock& lock, bool wakes_owner) noexcept {
  queue posted;
  while (!some.empty()) {
    write& one = some.pop();
    if (one.then) {
      posted.push(one);
    } else {
      one.now = stage::told;
      one.changed.notify_one();
    }
  }
  lock.unlock();
  if (wakes_owner) {
    wake_owner();
  }
  std::size_t told = 0;
  for (; !posted.empty(); ++told) {
    const std::unique_ptr<write> mine(&posted.pop());  // released in `post`
    try {
      mine->then(mine->failure);
    } catch (...) {  // NOLINT(bugprone-empty-catch): it is not of this thread's doing, and others have to be told
    }
  }
  lock.lock();
  posted_ -= told;
  if (posted_ == 0) {
    drained_.notify_all();
  }
}

// ---- a group

// If it did not even begin, as when another process holds the lock, the next would not either. If it failed as it
// committed, nobody knows whether it has: a write that was done again could be done twice, so that is left to who asked
// for it.
void group_commit::commit(std::span<write* const> some) noexcept {
  if (some.empty() || append_at_once(some)) {
    return;
  }
  const ended how = transact(some, wait_of_a_group, [&](store_transaction& open) {
    std::size_t done = 0;
    perform(some, open, done);
  });
  if (how == ended::write_failed && some.size() > 1) {
    std::vector<const write*> locked;
    commit_apart(some, locked);
  }
}

// \returns whether that is over. If not, nothing was written.
bool group_commit::append_at_once(std::span<write* const> some) noexcept {
  if (first_step(some).size() < some.size() || some.front()->work != nullptr) {
    return false;
  }
  bool asked = false;
  try {
    const transaction_limits limits{.lock_wait = wait_of_a_group, .asked_at = some.front()->asked_at};
    return append_all(some, [&](std::span<append_op> ops) {
      asked = true;
      return store_.append_at_once(limits, ops);
    });
  } catch (...) {
    for (write* one : some) {
      one->failure = asked ? std::current_exception() : nullptr;
    }
    return asked;
  }
}

// A failure that has ended the whole transaction is found by halves that have one each.
group_commit::ended group_commit::commit_apart(std::span<write* const> some,
                                               std::vector<const write*>& locked) noexcept {
  const std::size_t locked_before = locked.size();
  ended how = transact(some, wait_of_a_part, [&](store_transaction& open) {
    locked.resize(locked_before);
    perform_in_parts(some, open, locked);
  });
  if (how != ended::write_failed || some.size() == 1) {
    return how;
  }
  locked.resize(locked_before);
  const auto half = some.first(some.size() / 2);
  const auto rest = some.subspan(half.size());
  how = commit_apart(half, locked);
  if (how != ended::not_begun) {
    return commit_apart(rest, locked);
  }
  for (write* one : rest) {
    one->failure = half.back()->failure;
    one->locked_out = false;
  }
  return how;
}

template <class Work>
group_commit::ended group_commit::transact(std::span<write* const> some, milliseconds lock_wait,
                                           const Work& work) noexcept {
  ended how = ended::not_begun;
  std::exception_ptr failure;
  for (write* one : some) {
    one->failure = nullptr;
    one->locked_out = false;
  }
  try {
    const transaction_limits limits{.lock_wait = lock_wait, .asked_at = some.front()->asked_at};
    store_.transact_within(limits, [&](store_transaction& open) {
      how = ended::write_failed;
      work(open);
      how = ended::commit_failed;
    });
    return ended::committed;
  } catch (...) {
    failure = std::current_exception();
  }
  const bool locked_out = how == ended::write_failed && is_locked_out(failure);
  for (write* one : some) {
    if (how != ended::commit_failed || one->failure == nullptr) {
      one->failure = failure;
      one->locked_out = locked_out;
    }
  }
  return how;
}

// What is performed at once: one `work`, or all neighbours that append, which some stores write in one statement.
std::span<group_commit::write* const> group_commit::first_step(std::span<write* const> some) {
  const auto appends = std::find_if(some.begin(), some.end(), [](const write* one) { return one->work != nullptr; });
  return some.first(std::max<std::size_t>(1, static_cast<std::size_t>(appends - some.begin())));
}

// In their order. `done` counts those that worked, also if one throws.
void group_commit::perform(std::span<write* const> some, store_transaction& open, std::size_t& done) {
  while (done < some.size()) {
    const auto step = first_step(some.subspan(done));
    if (step.front()->work != nullptr) {
      (*step.front()->work)(open);
    } else {
      append_all(step, [&](std::span<append_op> ops) {
        open.append(ops);
        return true;
      });
    }
    done += step.size();
  }
}

// \returns what `append` returns.
template <class Append>
bool group_commit::append_all(std::span<write* const> some, const Append& append) {
  std::vector<append_op> ops;
  for (const write* one : some) {
    ops.insert(ops.end(), one->ops.begin(), one->ops.end());
  }
  if (!append(ops)) {
    return false;
  }
  auto from = ops.begin();
  for (const write* one : some) {
    const auto to = from + static_cast<std::ptrdiff_t>(one->ops.size());
    std::copy(from, to, one->ops.begin());
    from = to;
  }
  return true;
}

// As many at a time as work. What was undone with a step that failed is done again, which is likely to work; the step
// is halved. So each bad write costs no more than it has taken to come to it, and to find it among its neighbours.
void group_commit::perform_in_parts(std::span<write* const> some, store_transaction& open,
                                    std::vector<const write*>& locked) {
  while (!some.empty()) {
    const auto part = before_locked(some, locked);
    if (part.empty()) {
      locked.push_back(some.front());
      some.front()->failure = locked.front()->failure;
      some.front()->locked_out = true;
      some = some.subspan(1);
      continue;
    }
    std::size_t done = 0;
    const std::exception_ptr failure = perform_part(part, open, done);
    some = some.subspan(done);
    if (failure == nullptr) {
      continue;
    }
    perform_in_parts(part.first(done), open, locked);
    const auto step = first_step(part.subspan(done));
    some = some.subspan(step.size());
    if (step.size() > 1) {
      perform_in_parts(step.first(step.size() / 2), open, locked);
      perform_in_parts(step.subspan(step.size() / 2), open, locked);
      continue;
    }
    step.front()->failure = failure;
    step.front()->locked_out = is_locked_out(failure);
    if (step.front()->locked_out) {
      locked.push_back(step.front());
    }
  }
}

// Those of the first that are about other checks.
std::span<group_commit::write* const> group_commit::before_locked(std::span<write* const> some,
                                                                  std::span<const write* const> locked) {
  const auto end = std::find_if(some.begin(), some.end(), [&](const write* one) {
    return std::any_of(locked.begin(), locked.end(), [&](const write* other) { return share_a_check(*one, *other); });
  });
  return some.first(static_cast<std::size_t>(end - some.begin()));
}

// \returns why it was undone, or none.
std::exception_ptr group_commit::perform_part(std::span<write* const> some, store_transaction& open,
                                              std::size_t& done) {
  open.own_savepoint();
  try {
    perform(some, open, done);
  } catch (...) {
    std::exception_ptr failure = std::current_exception();
    try {
      open.rollback_to_savepoint();
    } catch (...) {
      std::rethrow_exception(failure);  // which has ended the transaction, too
    }
    return failure;
  }
  open.release_savepoint();
  return nullptr;
}

bool group_commit::share_a_check(const write& one, const write& other) noexcept {
  return any_name(one, [&](const check_name& name) {
    return any_name(other, [&](const check_name& of_other) { return name == of_other; });
  });
}

}  // namespace timing_wheel::durable
