#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/durable/store.hpp"

// Short calls on any store, each in a transaction of its own.

namespace timing_wheel::durable::test {

using namespace std::chrono_literals;

inline const std::vector<std::string> kinds = {"close", "other"};

inline request asked(std::string key, due_time due = {}, std::string payload = "p") {
  return {.kind = "close", .key = std::move(key), .payload = std::move(payload), .due = due};
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
inline std::vector<upcoming> all_rows(store& in, std::size_t limit = 100000) {
  std::vector<upcoming> found;
  in.read_ahead({.until = instant::max(), .limit = limit, .kinds = kinds}, found);
  return found;
}

inline std::vector<claimed> claim(store& in, std::chrono::microseconds lease = 1h) {
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) { open.claim(wanted, open.now() + lease, got); });
  return got;
}

inline std::vector<claimed> take(store& in) {
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) { open.consume(wanted, got); });
  return got;
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

template <class Work>
caught error_of(Work work) {
  try {
    work();
  } catch (const timer_error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

/// Keys of all rows, sorted.
inline std::vector<std::string> keys_in(store& in) {
  struct undo {};
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  try {
    in.transact([&](store_transaction& open) {
      open.consume(wanted, got);
      throw undo();
    });
  } catch (const undo&) {  // NOLINT(bugprone-empty-catch): as if nothing had been taken
  }
  std::vector<std::string> keys;
  std::transform(got.begin(), got.end(), std::back_inserter(keys), [](const claimed& one) { return one.key; });
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace timing_wheel::durable::test
