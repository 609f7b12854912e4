#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// One run of a leased job: on its way to a thread, there, and with its end on the way back.
struct leased_run : boost::intrusive::list_base_hook<> {
  leased_run(const claimed& one, job its_job) : kind(one.kind), id(one.id), what(std::move(its_job)) {}
  const std::uint32_t kind;
  const std::int64_t id;
  const job what;
  instant since{};                   ///< When it came to where it is: it waits since then, or runs.
  std::chrono::microseconds took{};  ///< By its handler.
  outcome said;
  bool ran = false;
  bool may_begin = true;  ///< Its lease is extended.
  /// How far it is past the time limit of its kind. `written_off`: the node has decided what becomes of the check.
  enum class patience : std::uint8_t { left, asked_to_stop, given_up, written_off } patience = patience::left;
};

using run_list = boost::intrusive::list<leased_run>;

}  // namespace timing_wheel::durable
