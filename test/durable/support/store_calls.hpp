#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/durable/store.hpp"

// Short calls on any store, each in a transaction of its own; and what every test of durable checks includes.

namespace timing_wheel::durable::test {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

inline const std::vector<std::string> kinds = {"close", "other"};

inline request asked(std::string key, due_time due = {}, std::string payload = "p") {
  return {.kind = "close", .key = std::move(key), .payload = std::move(payload), .due = due};
}

/// The same, in the place of the one that is pending.
inline request replacing(request what) {
  what.replace = true;
  return what;
}

inline scheduled put(store& in, const request& what) {
  scheduled result;
  in.transact([&](store_transaction& open) { result = open.schedule(what); });
  return result;
}

inline scheduled put(store& in, const std::string& key, due_time due = {}) { return put(in, asked(key, due)); }

/// Many in one list.
inline std::vector<append_op> put(store& in, const std::vector<request>& all) {
  std::vector<append_op> ops;
  for (const request& each : all) {
    ops.push_back({&each});
  }
  in.transact([&](store_transaction& open) { open.append(ops); });
  return ops;
}

inline cancel_result cancel(store& in, std::string_view key) {
  cancel_result result{};
  in.transact([&](store_transaction& open) { result = open.cancel("close", key); });
  return result;
}

inline reschedule_result move(store& in, std::string_view key, due_time due) {
  reschedule_op op{"close", key, due};
  in.transact([&](store_transaction& open) { open.reschedule({&op, 1}); });
  return op.result;
}

/// All rows, whatever their time.
inline std::vector<upcoming> all_rows(store& in, std::size_t limit = 100000,
                                      std::span<const std::string> of_kinds = kinds) {
  std::vector<upcoming> found;
  in.read_ahead({.until = instant::max(), .limit = limit, .kinds = of_kinds}, found);
  return found;
}

/// Those of a kind.
inline std::vector<upcoming> rows_of(store& in, const std::string& kind) { return all_rows(in, 100000, {&kind, 1}); }

inline std::vector<claimed> claim(store& in, std::chrono::microseconds lease = 1h) {
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) { open.claim(wanted, open.now() + lease, got); });
  return got;
}

/// Takes all that is due. `then` is told of it in the same transaction.
template <class Then>
std::vector<claimed> take(store& in, const Then& then) {
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) {
    open.consume(wanted, got);
    then(open, got);
  });
  return got;
}
inline std::vector<claimed> take(store& in) {
  return take(in, [](store_transaction&, const std::vector<claimed>&) {});
}

inline std::vector<ticket> tickets_of(const std::vector<claimed>& held) {
  std::vector<ticket> all;
  std::transform(held.begin(), held.end(), std::back_inserter(all), [](const claimed& one) {
    return ticket{one.id, one.fence};
  });
  return all;
}

inline bool complete(store& in, const claimed& held) {
  ticket of{held.id, held.fence};
  in.transact([&](store_transaction& open) { open.complete({&of, 1}); });
  return of.still_ours;
}

inline bool extend(store& in, const claimed& held, std::chrono::microseconds lease) {
  ticket of{held.id, held.fence};
  in.transact([&](store_transaction& open) { open.extend({&of, 1}, open.now() + lease); });
  return of.still_ours;
}

inline bool retry(store& in, const claimed& held, instant due, int attempt) {
  release_op op{{held.id, held.fence}, due, attempt, held.orphaned};
  in.transact([&](store_transaction& open) { open.release({&op, 1}); });
  return op.of.still_ours;
}

inline bool bury(store& in, const claimed& held, const std::string& error) {
  bury_op op{{held.id, held.fence}, error};
  in.transact([&](store_transaction& open) { open.bury({&op, 1}); });
  return op.of.still_ours;
}

/// The error that `work` throws, as its code; and its words.
struct caught {
  std::error_code code;
  std::string words;
};

template <class Error = timer_error, class Work>
caught error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    if constexpr (requires { error.code(); }) {
      return {error.code(), error.what()};
    }
    return {{}, error.what()};
  }
  return {};
}

/// Of any rows, in their order.
template <class Rows>
std::vector<std::string> keys_of(const Rows& some) {
  std::vector<std::string> keys;
  std::transform(some.begin(), some.end(), std::back_inserter(keys), [](const auto& one) { return one.key; });
  return keys;
}

template <class Rows>
std::vector<std::string> sorted_keys_of(const Rows& some) {
  std::vector<std::string> keys = keys_of(some);
  std::sort(keys.begin(), keys.end());
  return keys;
}

/// Keys of all rows, sorted.
inline std::vector<std::string> keys_in(store& in) { return sorted_keys_of(in.list({.limit = 100'000})); }

/// Calls on so many threads, each with its number, and waits for all.
template <class Call>
void on_threads(int count, const Call& call) {
  std::vector<std::thread> all;
  for (int number = 0; number < count; ++number) {
    all.emplace_back([&call, number] { call(number); });
  }
  for (std::thread& each : all) {
    each.join();
  }
}

/// Waits until it is so. \returns whether it is.
template <class Ready>
bool wait_until(const Ready& ready, std::chrono::milliseconds most = 60s) {
  for (const auto end = std::chrono::steady_clock::now() + most; !ready(); std::this_thread::sleep_for(1ms)) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
  }
  return true;
}

/// Calls again, as the scheduler does, until it works. \returns whether it did.
template <class Work>
bool works_at_last(const Work& work) {
  return wait_until([&] { return !error_of(work).code; });
}

}  // namespace timing_wheel::durable::test
