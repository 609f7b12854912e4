#include "durable/group_commit.hpp"

#include <algorithm>

namespace timing_wheel::durable {

namespace {

// Writes in a transaction, at most: others want the lock too.
constexpr std::size_t largest = 5000;

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
      if (mine.failure) {
        std::rethrow_exception(mine.failure);
      }
      return;
    }
  }
  led_ = true;
  mine.leads = true;
  linger(lock);
  lead(lock);
  lock.unlock();
  if (mine.failure) {
    std::rethrow_exception(mine.failure);
  }
}

void group_commit::post(std::span<append_op> ops, std::function<void(std::exception_ptr)> then) {
  auto mine = std::make_unique<write>();
  mine->ops = ops;
  mine->then = std::move(then);
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(mine.get());
    static_cast<void>(mine.release());  // `lead` deletes it
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
  more_.wait_for(lock, last_time_ / 10, [this] { return waiting_.size() >= last_size_; });
}

// The one at the front leads; a posted one has no thread to do it.
void group_commit::hand_lead_on() {
  if (waiting_.empty()) {
    led_ = false;
  } else if (waiting_.front()->then) {
    led_ = false;
    wake_();
  } else {
    waiting_.front()->leads = true;
    waiting_.front()->told.release();
  }
}

void group_commit::lead(std::unique_lock<std::mutex>& lock) {
  const std::vector<write*> some(waiting_.begin(), waiting_.end());
  waiting_.clear();
  lock.unlock();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t from = 0; from < some.size(); from += largest) {
    const auto begin_of = some.begin() + static_cast<std::ptrdiff_t>(from);
    commit({begin_of, begin_of + static_cast<std::ptrdiff_t>(std::min(largest, some.size() - from))});
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  lock.lock();
  last_size_ = some.size();
  last_time_ = took;
  hand_lead_on();
  lock.unlock();
  for (write* one : some) {
    if (one->then) {
      one->then(one->failure);
      delete one;  // NOLINT(cppcoreguidelines-owning-memory): released in `post`
    } else if (!one->leads) {
      one->told.release();
    }
  }
  lock.lock();
}

void group_commit::commit(const std::vector<write*>& some) {
  try {
    commit_together(some);
  } catch (...) {
    if (some.size() == 1) {
      some.front()->failure = std::current_exception();
      return;
    }
    for (write* one : some) {
      commit({one});
    }
  }
}

void group_commit::commit_together(const std::vector<write*>& some) {
  store_.transact([&](store_transaction& open) { perform(some, open); });
}

// In their order. Neighbours that append are one list, which some stores write in one statement.
void group_commit::perform(const std::vector<write*>& some, store_transaction& open) {
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
