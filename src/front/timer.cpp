#include "timing_wheel/timer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>

#include "front/inside_service.hpp"
#include "front/stoppable.hpp"

namespace timing_wheel {

namespace {

std::shared_ptr<detail::service> with_poller(const timer_options& options) {
  auto made = std::make_shared<detail::service>(options);
  detail::service::start_pollers(made);
  return made;
}

std::error_code code_of(detail::refusal why) noexcept {
  switch (why) {
    case detail::refusal::none:
      return {};
    case detail::refusal::stopped:
      return make_error_code(timer_errc::stopped);
    case detail::refusal::too_many_pending:
      return make_error_code(timer_errc::too_many_pending);
    case detail::refusal::empty_callback:
      return make_error_code(timer_errc::empty_callback);
    case detail::refusal::invalid_period:
      return make_error_code(timer_errc::invalid_period);
    case detail::refusal::forked:
      return make_error_code(timer_errc::forked);
    case detail::refusal::no_memory:
      break;
  }
  return std::make_error_code(std::errc::not_enough_memory);
}

// `limit` is `max_pending`.
[[noreturn]] void refuse(detail::refusal why, std::chrono::nanoseconds period, std::size_t limit) {
  if (why == detail::refusal::no_memory) {
    throw std::bad_alloc();
  }
  const auto code = static_cast<timer_errc>(code_of(why).value());
  if (why == detail::refusal::too_many_pending) {
    // At the moment of the refusal, as many were pending as may be.
    const std::string all = std::to_string(limit);
    throw timer_error(code, all + " pending, max_pending " + all);
  }
  if (why == detail::refusal::invalid_period) {
    throw timer_error(code, std::to_string(period.count()) + " ns is not at least 1 ns");
  }
  throw timer_error(code);
}

timer_handle refused(const detail::service& by, detail::refusal why, std::error_code* error,
                     std::chrono::nanoseconds period = {}) {
  if (error == nullptr) {
    refuse(why, period, by.context->door.limit());
  }
  *error = code_of(why);
  return {};
}

// A lack of memory is an answer, for those who cannot have exceptions.
[[gnu::always_inline]] inline timer_handle ask(detail::service& by, const detail::arming& wanted,
                                               detail::task_source& callback, std::uint64_t tag,
                                               std::error_code* error) {
  if (by.context->process.is_child()) [[unlikely]] {
    return refused(by, detail::refusal::forked, error);
  }
  detail::shards::scheduled result;
  try {
    result = by.parts.schedule(wanted, callback, tag);
  } catch (const std::bad_alloc&) {
    result.why = detail::refusal::no_memory;
  }
  if (result.why != detail::refusal::none) [[unlikely]] {
    return refused(by, result.why, error);
  }
  if (error != nullptr) {
    error->clear();
  }
  return result.owner->handle_to(result.id);
}

timer_handle start_stoppable(detail::service& by, const detail::arming& wanted, detail::task_source& callback,
                             std::uint64_t tag, const std::stop_token& stop, std::error_code* error) {
  const std::unique_ptr<detail::stop_block, detail::stop_block::leave> block(
      detail::stop_block::allocate(callback.kind()));
  if (block == nullptr) {
    return refused(by, detail::refusal::no_memory, error);
  }
  detail::stoppable_source source(callback, *block);
  detail::arming asked = wanted;
  if (stop.stop_requested()) {
    asked.deadline = time_point::max();  // else it may run before the cancel
  }
  timer_handle made = ask(by, asked, source, tag, error);
  if (made) {
    block->cancel_with(stop, made);  // a stop that was requested before destroys what was captured
  }
  return made;
}

timer_handle start_prepared(detail::service& by, const detail::arming& wanted, detail::task_source& callback,
                            std::uint64_t tag, const std::stop_token& stop, std::error_code* error) {
  using kept = detail::task_source::kept;
  if (callback.where() == kept::nowhere) {
    return refused(by, detail::refusal::empty_callback, error);
  }
  if (stop.stop_possible()) {
    return start_stoppable(by, wanted, callback, tag, stop, error);
  }
  if (callback.where() != kept::boxed) {
    return ask(by, wanted, callback, tag, error);
  }
  const detail::task_source::box box(callback);
  return box.is_there() ? ask(by, wanted, callback, tag, error) : refused(by, detail::refusal::no_memory, error);
}

// Uses the service no more when user code has run: what was captured may be destroyed in it, and the front with that.
template <class Options>
[[gnu::always_inline]] inline timer_handle start(detail::service& by, const detail::arming& wanted,
                                                 detail::task_source& callback, const Options& options,
                                                 std::error_code* error) {
  if (callback.where() != detail::task_source::kept::inside || options.stop.stop_possible()) [[unlikely]] {
    return start_prepared(by, wanted, callback, options.tag, options.stop, error);
  }
  return ask(by, wanted, callback, options.tag, error);
}

}  // namespace

timer::timer(const timer_options& options) : timer(with_poller(options)) {}

timer::timer(std::shared_ptr<detail::service> driven_otherwise) noexcept : service_(std::move(driven_otherwise)) {}

timer::~timer() {
  if (service_->context->process.is_child()) {
    // What other threads were changing at the fork cannot be taken apart here.
    static_cast<void>(new (std::nothrow) std::shared_ptr(std::move(service_)));
  } else {
    service_->end.destroy();
  }
}

// These do not call `now()`: compilers do not inline it here.

timer_handle timer::start_after(std::chrono::nanoseconds delay, detail::task_source& callback,
                                const schedule_options& options, std::error_code* error) {
  const time_point present = service_->context->clock.now();
  return start(*service_, {present, saturating_add(present, delay), options.window}, callback, options, error);
}

timer_handle timer::start_at(time_point deadline, detail::task_source& callback, const schedule_options& options,
                             std::error_code* error) {
  return start(*service_, {service_->context->clock.now(), deadline, options.window}, callback, options, error);
}

timer_handle timer::start_at(detail::wall_time deadline, detail::task_source& callback, const schedule_options& options,
                             std::error_code* error) {
  const auto converted = service_->context->from_wall(deadline);
  return start(*service_, {converted.present, converted.deadline, options.window}, callback, options, error);
}

timer_handle timer::start_every(const detail::periodic_rule& rule, detail::task_source& callback,
                                const periodic_options& options, std::error_code* error) {
  if (rule.period <= rule.period.zero()) {
    return refused(*service_, detail::refusal::invalid_period, error, rule.period);
  }
  const time_point present = service_->context->clock.now();
  return start(*service_, {present, rule(present, present), options.window, true}, callback, options, error);
}

timer_handle timer::start_with(const detail::first_deadline& next, detail::task_source& callback,
                               const schedule_options& options, std::error_code* error) {
  const detail::inside_service inside(service_);
  const time_point present = inside->context->clock.now();
  const std::optional<time_point> first = next(present);
  if (!first) {
    if (error != nullptr) {
      error->clear();
    }
    return {};
  }
  return start(*inside, {present, *first, options.window, true}, callback, options, error);
}

// Inside the service, because a callback of the first group may destroy the front before the second one.
std::size_t timer::start_many(std::span<pending_task> timers, std::span<timer_handle> handles, std::error_code* error) {
  const detail::inside_service inside(service_);
  const time_point present = inside->context->clock.now();
  detail::shard& home = inside->parts.home();
  std::array<detail::timer_id, detail::timers_per_group> ids;
  detail::refusal why = inside->context->process.is_child() ? detail::refusal::forked : detail::refusal::none;
  std::size_t done = 0;
  while (done < timers.size() && why == detail::refusal::none) {
    const std::span<pending_task> group = timers.subspan(done, std::min(timers.size() - done, ids.size()));
    const std::span<timer_handle> wanted = handles.first(std::min(group.size(), handles.size()));
    const detail::shard::scheduled_some some = home.schedule_some(present, group, std::span(ids).first(wanted.size()));
    for (std::size_t i = 0; i < std::min(some.count, wanted.size()); ++i) {
      wanted[i] = home.handle_to(ids[i]);
    }
    handles = handles.subspan(wanted.size());
    done += some.count;
    why = some.why;
  }
  if (error != nullptr) {
    *error = code_of(why);
  } else if (why != detail::refusal::none) {
    refuse(why, {}, inside->context->door.limit());
  }
  return done;
}

timer_handle timer::refuse_empty(std::error_code* error) const {
  return refused(*service_, detail::refusal::empty_callback, error);
}

cancel_result timer::cancel(std::uint64_t key) noexcept {
  const detail::key_code::shard_and_id where = service_->context->keys.decoded(key);
  return where.shard < service_->all.size() ? service_->all[where.shard].cancel_unknown(where.id)
                                            : cancel_result::finished;
}

cancel_result timer::cancel_and_wait(std::uint64_t key) noexcept {
  const detail::key_code::shard_and_id where = service_->context->keys.decoded(key);
  if (where.shard >= service_->all.size()) {
    return cancel_result::finished;
  }
  detail::shard& owner = service_->all[where.shard];
  owner.add_references(1);
  const timer_handle kept = owner.handle_to(where.id);  // the callback may destroy the service meanwhile
  const cancel_result result = owner.cancel_unknown(where.id);
  if (result == cancel_result::running) {
    kept.cancel_and_wait();
  }
  return result;
}

std::vector<pending_task> timer::stop() {
  const detail::inside_service inside(service_);
  return inside->end.take_the_rest();
}

std::size_t timer::stop_discard() {
  const detail::inside_service inside(service_);
  return inside->end.discard_the_rest();
}

std::size_t timer::stop_run_now() {
  const detail::inside_service inside(service_);
  return inside->end.run_the_rest();
}

std::vector<pending_task> timer::stop_drain(time_point until) {
  const detail::inside_service inside(service_);
  return inside->end.drain(until);
}

void timer::shrink_to_fit() noexcept {
  if (service_->context->process.is_child()) {
    return;
  }
  for (const auto& s : service_->all) {
    s->shrink();
  }
}

void timer::visit_pending(const std::function<void(const pending_timer&)>& visit) const {
  const detail::inside_service inside(service_);
  std::vector<pending_timer> some;
  some.reserve(max_timers_per_lock);
  for (detail::shard* const s : inside->all) {
    timer_number cursor = 0;
    for (bool more = true; more && !inside->context->process.is_child(); some.clear()) {
      more = s->list(cursor, some);
      for (const pending_timer& one : some) {
        visit(one);
      }
    }
  }
}

bool timer::stopped() const noexcept { return service_->drive.is_over() || service_->context->process.is_child(); }

std::size_t timer::pending() const noexcept {
  return service_->context->process.is_child() ? 0 : service_->all.pending();
}

time_point timer::now() const noexcept { return service_->context->clock.now(); }

namespace {

void add(const detail::core_stats& one, timer_stats& sum) {
  sum += one.counts;
  sum.lateness.merge(one.lateness);
  sum.bytes += one.wheels.bytes + one.slab_bytes;
  sum.moves += one.wheels.moves();
  sum.looks += one.wheels.looks;
  sum.moves_saved += one.wheels.moves_saved;
  sum.wakeups_shared += one.wheels.wakeups_shared;
  for (std::size_t i = 0; i < one.wheels.levels.size(); ++i) {
    const level_stats& level = one.wheels.levels[i];
    if (i == sum.levels.size()) {
      sum.levels.push_back(level);
      continue;
    }
    sum.levels[i].moves += level.moves;
    sum.levels[i].flushes += level.flushes;
    sum.levels[i].largest_flush = std::max(sum.levels[i].largest_flush, level.largest_flush);
    sum.levels[i].buckets_queued += level.buckets_queued;
  }
}

}  // namespace

timer_counts& timer_counts::operator+=(const timer_counts& other) noexcept {
  scheduled += other.scheduled;
  fired += other.fired;
  cancelled += other.cancelled;
  returned += other.returned;
  pending += other.pending;
  rearmed += other.rearmed;
  due += other.due;
  running += other.running;
  rejected += other.rejected;
  refused += other.refused;
  early += other.early;
  failed += other.failed;
  largest_hold = std::max(largest_hold, other.largest_hold);
  return *this;
}

timer_stats timer::stats() const {
  timer_stats sum;
  if (service_->context->process.is_child()) {
    return sum;
  }
  detail::core_stats one;
  for (const detail::shard* s : service_->all) {
    s->read(one);
    add(one, sum);
  }
  for (const detail::sleeper& sleeper : service_->context->sleepers) {
    sum.wakeups += sleeper.wakeups();
    sum.empty_wakeups += sleeper.empty_wakeups();
    sum.earlier_wakeups += sleeper.earlier_wakeups();
  }
  return sum;
}

}  // namespace timing_wheel
