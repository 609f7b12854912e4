#include "durable/group_commit.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable {

namespace {

// Writes in a transaction, at most: others want the lock too.
constexpr std::size_t largest = 5000;

// For a row that another transaction keeps: longer than most transactions last, and short enough for those who wait
// for the one that waits for it.
constexpr std::chrono::milliseconds lock_wait(200);
// In all, as long as a statement of a PostgreSQL store may take if it is not set.
constexpr std::chrono::seconds patience(10);

bool is_locked_out(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const timer_error& error) {
    return error.code() == errc::row_locked;
  } catch (...) {
    return false;
  }
}

}  // namespace

void group_commit::append(std::span<append_op> ops) {
  write mine;
  mine.ops = ops;
  submit(mine);
}

void group_commit::run(const std::function<void(store_transaction&)>& work) {
  write mine;
  mine.work = &work;
  submit(mine);
}

void group_commit::submit(write& mine) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(&mine);
  if (led_) {
    more_.notify_one();
    lock.unlock();
    mine.told.acquire();
    lock.lock();
    if (!mine.leads) {
      lock.unlock();
      finish(mine);
      return;
    }
  }
  led_ = true;
  mine.leads = true;
  linger(lock);
  lead(lock);
  lock.unlock();
  finish(mine);
}

void group_commit::finish(write& mine) {
  if (mine.locked_out) {
    try_again(mine);
  }
  if (mine.failure) {
    std::rethrow_exception(mine.failure);
  }
}

// After a pause, in which others of the same fate have their turn.
void group_commit::try_again(write& mine) {
  constexpr std::chrono::milliseconds pause(5);
  const auto until = std::chrono::steady_clock::now() + patience;
  const std::array<write*, 1> alone{&mine};
  while (mine.locked_out && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(pause);
    if (const std::unique_lock lock(trying_again_, std::try_to_lock); lock.owns_lock()) {
      commit_together(alone);
    }
  }
}

void group_commit::post(std::span<append_op> ops, std::function<void(std::exception_ptr)> then) {
  auto mine = std::make_unique<write>();
  mine->ops = ops;
  mine->then = std::move(then);
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(nullptr);
    waiting_.back() = mine.release();  // `tell` deletes it
    more_.notify_one();
  }
  wake_();
}

bool group_commit::lead_posted() {
  std::unique_lock lock(mutex_);
  if (led_ || waiting_.empty()) {
    return false;
  }
  led_ = true;
  lead(lock);
  return true;
}

void group_commit::linger(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::steady_clock::duration longest = std::chrono::milliseconds(5);
  more_.wait_for(lock, std::min(last_time_ / 10, longest), [this] { return waiting_.size() >= last_size_; });
}

// The one at the front leads. A posted one has no thread to do it. \returns whether the owner's thread has to be woken.
bool group_commit::hand_lead_on() {
  const bool posted = !waiting_.empty() && waiting_.front()->then;
  led_ = !waiting_.empty() && !posted;
  if (led_) {
    waiting_.front()->leads = true;
    waiting_.front()->told.release();
  }
  return posted;
}

void group_commit::lead(std::unique_lock<std::mutex>& lock) {
  std::vector<write*> some;
  some.swap(waiting_);
  lock.unlock();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t from = 0; from < some.size(); from += largest) {
    commit(std::span(some).subspan(from, std::min(largest, some.size() - from)));
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  lock.lock();
  last_size_ = some.size();
  last_time_ = took;
  const bool wakes = hand_lead_on();
  lock.unlock();
  if (wakes) {
    wake_();
  }
  tell(some);
  lock.lock();
}

// Who waits is told before those who do not. What was told may be gone at once.
void group_commit::tell(std::vector<write*>& some) {
  const auto posted = std::stable_partition(some.begin(), some.end(), [](const write* one) { return !one->then; });
  for (auto one = some.begin(); one != posted; ++one) {
    if (!(*one)->leads) {
      (*one)->told.release();
    }
  }
  for (auto one = posted; one != some.end(); ++one) {
    const std::unique_ptr<write> mine(*one);  // released in `post`
    mine->then(mine->failure);
  }
}

// If a write failed, each is tried in a transaction of its own. If it did not even begin, as when another process holds
// the lock, the next would not either. If it failed as it committed, nobody knows whether it has: a write that was done
// again could be done twice, so that is left to who asked for it.
void group_commit::commit(std::span<write* const> some) {
  if (commit_together(some) != ended::write_failed || some.size() == 1) {
    return;
  }
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (commit_together(some.subspan(i, 1)) == ended::not_begun) {
      for (write* one : some.subspan(i + 1)) {
        one->failure = some[i]->failure;
        one->locked_out = false;
      }
      return;
    }
  }
}

group_commit::ended group_commit::commit_together(std::span<write* const> some) {
  ended how = ended::not_begun;
  std::exception_ptr failure;
  try {
    store_.transact_within({.lock_wait = lock_wait}, [&](store_transaction& open) {
      how = ended::write_failed;
      perform(some, open);
      how = ended::commit_failed;
    });
  } catch (...) {
    failure = std::current_exception();
  }
  const bool locked_out = failure != nullptr && how == ended::write_failed && is_locked_out(failure);
  for (write* one : some) {
    one->failure = failure;
    one->locked_out = locked_out;
  }
  return failure == nullptr ? ended::committed : how;
}

// In their order. Neighbours that append are one list, which some stores write in one statement.
void group_commit::perform(std::span<write* const> some, store_transaction& open) {
  std::vector<append_op> ops;
  for (auto first = some.begin(); first != some.end();) {
    if ((*first)->work != nullptr) {
      (*(*first)->work)(open);
      ++first;
      continue;
    }
    const auto last = std::find_if(first, some.end(), [](const write* one) { return one->work != nullptr; });
    ops.clear();
    for (auto one = first; one != last; ++one) {
      ops.insert(ops.end(), (*one)->ops.begin(), (*one)->ops.end());
    }
    open.append(ops);
    auto from = ops.begin();
    for (; first != last; ++first) {
      const auto to = from + static_cast<std::ptrdiff_t>((*first)->ops.size());
      std::copy(from, to, (*first)->ops.begin());
      from = to;
    }
  }
}

}  // namespace timing_wheel::durable
