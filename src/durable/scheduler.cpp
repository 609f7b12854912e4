#include "timing_wheel/durable/scheduler.hpp"

#include <algorithm>
#include <new>

#include "durable/scheduler_core.hpp"

namespace timing_wheel::durable {

scheduler::scheduler(store& where, const scheduler_options& options)
    : core_(std::make_unique<core>(where, nullptr, options)) {}

scheduler::scheduler(store& where, timer& driven_by, const scheduler_options& options)
    : core_(std::make_unique<core>(where, &driven_by, options)) {}

scheduler::~scheduler() = default;

void scheduler::add(std::string kind, leased_handler handler, const handler_options& options) {
  core_->add(std::move(kind), std::move(handler), options);
}
void scheduler::add(std::string kind, transactional_handler handler, const handler_options& options) {
  core_->add(std::move(kind), std::move(handler), options);
}
void scheduler::add(std::string kind, batch_handler handler, const handler_options& options) {
  core_->add(std::move(kind), std::move(handler), options);
}

void scheduler::start() { core_->start(); }

void scheduler::stop() { static_cast<void>(core_->stop(std::chrono::steady_clock::time_point::max())); }

stop_result scheduler::stop(std::chrono::steady_clock::time_point until) {
  const bool finished = core_->stop(until);
  return {finished, core_->unfinished(), finished ? core_->unwritten() : 0};
}

scheduled scheduler::schedule(const request& asked) {
  append_op op{&asked};
  core_->append({&op, 1});
  return op.result;
}

std::vector<scheduled> scheduler::schedule(std::span<const request> asked) {
  std::vector<append_op> ops;
  ops.reserve(asked.size());
  for (const request& one : asked) {
    ops.push_back({&one});
  }
  std::vector<scheduled> results(ops.size());
  core_->append(ops);
  std::transform(ops.begin(), ops.end(), results.begin(), [](const append_op& op) { return op.result; });
  return results;
}

void scheduler::schedule(request asked, completion then) { core_->post(std::move(asked), std::move(then)); }

scheduled scheduler::schedule(const request& asked, std::error_code& error) {
  try {
    error.clear();
    return schedule(asked);
  } catch (const std::system_error& refused) {
    error = refused.code();
  } catch (const std::bad_alloc&) {
    error = std::make_error_code(std::errc::not_enough_memory);
  }
  return {};
}

cancel_answer scheduler::cancel(std::string_view kind, std::string_view key) { return core_->cancel(kind, key); }

reschedule_result scheduler::reschedule(std::string_view kind, std::string_view key, due_time due) {
  return core_->reschedule(kind, key, due);
}

std::optional<stored_check> scheduler::find(std::string_view kind, std::string_view key) {
  return core_->where().find(kind, key);
}

std::vector<dead_check> scheduler::list_dead(std::size_t limit, std::int64_t after) {
  return core_->where().list_dead(limit, after);
}

bool scheduler::revive_dead(std::int64_t id) { return core_->where().revive_dead(id); }

bool scheduler::delete_dead(std::int64_t id) { return core_->where().delete_dead(id); }

std::vector<unfinished_run> scheduler::unfinished() const { return core_->unfinished(); }

scheduler_stats scheduler::stats() const { return core_->stats(); }

}  // namespace timing_wheel::durable
