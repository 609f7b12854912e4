#include "durable/scheduler_core.hpp"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "durable/on_timer.hpp"
#include "durable/options.hpp"
#include "durable/store/instant.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

std::error_code code_of(const std::exception_ptr& failed) {
  if (failed == nullptr) {
    return {};
  }
  try {
    std::rethrow_exception(failed);
  } catch (const std::system_error& known) {
    return known.code();
  } catch (...) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
}

}  // namespace

scheduler::core::core(store& where, timer* driven_by, const scheduler_options& options)
    : store_(where), options_(validated(options)), failures_(options.on_failure), commits_(where, [this] { wake(); }) {
  const auto each = [this] { return step(); };
  if (driven_by == nullptr) {
    driver_ = std::make_unique<own_thread>(gate_, each, options_.executor ? 0 : options_.threads);
  } else {
    driver_ = std::make_unique<on_timer>(gate_, each, *driven_by, options_.poll, failures_);
  }
  if (dynamic_cast<const manual_timer*>(driven_by) == nullptr) {
    const auto extend = [this] {
      node* const mine = started();
      return progress{mine == nullptr ? microseconds::max() : mine->extend(), false};
    };
    leases_.emplace(gate_, extend, 0);
  }
}

scheduler::core::~core() {
  static_cast<void>(stop(std::chrono::steady_clock::time_point::max()));
  driver_->leave();
  if (leases_) {
    leases_->leave();
  }
  gate_.wait_for_all();
}

// ---- before it runs

leased_handler scheduler::core::guarded(leased_handler handler) const {
  return [this, handler = std::move(handler)](const job& what) {
    const run_gate::enter inside(gate_);
    const run_gate::own_job mine(what);
    outcome said = handler(what);
    if (mine.again() && said.what() == outcome::verdict::done) {
      const instant now = store_.now();
      return snooze(saturating_difference(mine.again()->at(now), now));
    }
    return said;
  };
}

transactional_handler scheduler::core::guarded(transactional_handler handler) const {
  return [this, handler = std::move(handler)](transaction& open, const job& what) {
    const run_gate::enter inside(gate_, &store_);
    return handler(open, what);
  };
}

batch_handler scheduler::core::guarded(batch_handler handler) const {
  return [this, handler = std::move(handler)](transaction& open, std::span<const job> jobs) {
    const run_gate::enter inside(gate_, &store_);
    handler(open, jobs);
  };
}

template <class Handler>
void scheduler::core::add(std::string kind, Handler handler, const handler_options& options) {
  validate(options);
  validate({.kind = kind, .key = "-", .payload = {}, .due = {}}, store_.limits());
  if (!handler) {
    throw timer_error(timer_errc::empty_callback, "kind " + kind);
  }
  constexpr bool transactional = !std::is_same_v<Handler, leased_handler>;
  if (transactional && options.time_limit != std::chrono::milliseconds::max()) {
    throw timer_error(timer_errc::invalid_option, "handler_options::time_limit is for leased handlers; kind " + kind);
  }
  if (started_) {
    throw timer_error(make_error_code(errc::already_started), "kind " + kind);
  }
  const bool known =
      std::any_of(kinds_.begin(), kinds_.end(), [&](const served_kind& other) { return other.rules.name == kind; });
  if (known) {
    throw timer_error(make_error_code(errc::handler_exists), "kind " + kind);
  }
  any_handler mine = guarded(std::move(handler));
  kind_rules rules{std::move(kind), transactional, options};
  kinds_.push_back({std::move(rules), std::move(mine)});
}
template void scheduler::core::add(std::string kind, leased_handler handler, const handler_options& options);
template void scheduler::core::add(std::string kind, transactional_handler handler, const handler_options& options);
template void scheduler::core::add(std::string kind, batch_handler handler, const handler_options& options);

void scheduler::core::start() {
  if (started_) {
    throw timer_error(make_error_code(errc::already_started), "start");
  }
  refuse_after_stop();
  std::unique_ptr<node> made;
  try {
    made = made_node();
  } catch (const timer_error&) {
    if (!options_.wait_for_store) {
      throw;
    }
    failures_.report({"store", {}, {}, std::current_exception()});
  }
  driver_->begin();
  started_ = true;
  {
    const std::scoped_lock lock(mutex_);
    node_ = std::move(made);
    waits_for_store_ = node_ == nullptr;
  }
  wake();
}

std::unique_ptr<node> scheduler::core::made_node() {
  std::vector<kind_rules> rules;
  std::vector<any_handler> handlers;
  for (const served_kind& each : kinds_) {
    rules.push_back(each.rules);
    handlers.push_back(each.handler);
  }
  return std::make_unique<node>(
      store_, options_, std::move(rules), std::move(handlers), failures_, [this] { wake(); }, [this] { ask_thread(); },
      options_.executor ? std::nullopt : std::optional<std::size_t>(driver_->threads()),
      leases_ ? std::function<void()>([this] { leases_->wake(); }) : nullptr);
}

// \returns null if the store still does not answer, or if there was a stop meanwhile.
node* scheduler::core::begin_late() {
  try {
    std::unique_ptr<node> made = made_node();
    const std::scoped_lock lock(mutex_);
    if (!stopping_) {
      node_ = std::move(made);
      waits_for_store_ = false;
    }
    return node_.get();
  } catch (...) {
    failures_.report({"store", {}, {}, std::current_exception()});
    return nullptr;
  }
}

bool scheduler::core::stop(std::chrono::steady_clock::time_point until) {
  bool never_began = false;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    never_began = std::exchange(waits_for_store_, false);
  }
  commits_.refuse_posts();
  node* const mine = started();
  if (mine != nullptr) {
    mine->close();
    wake();
  }
  if (gate_.is_inside()) {
    return false;
  }
  // While a run hangs, it may hold what posted writes wait for. So they are closed when the runs are over.
  if (mine != nullptr && !driver_->finish(until)) {
    return false;
  }
  commits_.close();
  if (never_began) {
    driver_->leave();
  }
  return true;
}

std::vector<unfinished_run> scheduler::core::unfinished() const {
  const node* const mine = started();
  return mine == nullptr ? std::vector<unfinished_run>() : mine->unfinished();
}

std::size_t scheduler::core::unwritten() const {
  const node* const mine = started();
  return mine == nullptr ? 0 : mine->held();
}

node* scheduler::core::started() const {
  const std::scoped_lock lock(mutex_);
  return node_.get();
}

bool scheduler::core::waits_for_store() const {
  const std::scoped_lock lock(mutex_);
  return waits_for_store_ && !stopping_;
}

// ---- calls of users

// Of another scheduler, too: see the first invariant.
void scheduler::core::refuse_inside_transaction() const {
  if (run_gate::is_inside_transaction_of(store_)) {
    throw timer_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                      gate_.is_inside()
                          ? "a transactional handler called its scheduler; use its transaction"
                          : "a transactional handler called another scheduler of its store; use its transaction");
  }
}

void scheduler::core::refuse_after_stop() const {
  const std::scoped_lock lock(mutex_);
  if (stopping_) {
    throw timer_error(timer_errc::stopped);
  }
}

void scheduler::core::append(std::span<append_op> ops) {
  refuse_inside_transaction();
  refuse_after_stop();
  for (const append_op& op : ops) {
    validate(*op.asked, store_.limits());
  }
  commits_.append(ops);
  written(ops);
}

void scheduler::core::post(request asked, completion then) {
  struct posted {
    request asked;
    append_op op;
  };
  refuse_inside_transaction();
  refuse_after_stop();
  validate(asked, store_.limits());
  auto mine = std::make_shared<posted>(posted{std::move(asked), {}});
  mine->op.asked = &mine->asked;
  const auto tell = [this, mine, then = std::move(then)](const std::exception_ptr& failed) {
    const run_gate::enter inside(gate_);
    if (failed == nullptr) {
      written({&mine->op, 1});
    }
    try {
      then(code_of(failed), mine->op.result);
    } catch (...) {
      failures_.report({"completion", mine->asked.kind, mine->asked.key, std::current_exception()});
    }
  };
  if (!commits_.post({&mine->op, 1}, tell)) {
    throw timer_error(timer_errc::stopped);
  }
}

cancel_answer scheduler::core::cancel(std::string_view kind, std::string_view key) {
  refuse_inside_transaction();
  cancel_op op{kind, key};
  commits_.run({kind, key}, [&op](store_transaction& open) { open.cancel({&op, 1}); });
  const std::scoped_lock lock(mutex_);
  cancelled_ += op.result == cancel_result::cancelled ? 1U : 0U;
  return {op.result, op.attempts};
}

reschedule_result scheduler::core::reschedule(std::string_view kind, std::string_view key, due_time due) {
  refuse_inside_transaction();
  if (gate_.move_own_job(kind, key, due)) {
    return reschedule_result::moved;
  }
  reschedule_op op{kind, key, due};
  commits_.run({kind, key}, [&op](store_transaction& open) { open.reschedule({&op, 1}); });
  return op.result;
}

store& scheduler::core::where() const {
  refuse_inside_transaction();
  return store_;
}

scheduler_stats scheduler::core::stats() const {
  scheduler_stats all;
  if (const node* const mine = started(); mine != nullptr) {
    mine->read(all);
  }
  all.store = store_.counts();
  const std::scoped_lock lock(mutex_);
  all.serving = node_ != nullptr && !stopping_;
  all.scheduled = scheduled_;
  all.duplicates = duplicates_;
  all.cancelled = cancelled_;
  return all;
}

void scheduler::core::written(std::span<const append_op> ops) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    for (const append_op& op : ops) {
      scheduled_ += op.result.inserted ? 1U : 0U;
      duplicates_ += op.result.inserted ? 0 : 1;
    }
  }
  node* const mine = started();
  try {
    for (const append_op& op : ops) {
      tell(mine, op);
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): a hint. They are written, and the next look finds them.
  }
}

// What is due before the next look. What was replaced stays known with its old deadline until then.
void scheduler::core::tell(node* mine, const append_op& op) {
  if (mine == nullptr || !op.result.inserted || op.result.due > store_.now() + options_.look_ahead) {
    return;
  }
  if (const std::optional<std::uint32_t> kind = mine->kind_of(op.asked->kind); kind) {
    mine->expect({op.id, op.result.due, {}, *kind, 0, op.asked->payload.size()});
  }
}

// ---- steps

void scheduler::core::ask_thread() {
  try {
    run_gate::run_task mine(gate_, *started());
    if (options_.executor) {
      options_.executor(task(std::move(mine)));
    } else {
      driver_->start_run(std::move(mine));
    }
  } catch (...) {
    failures_.report({"executor", {}, {}, std::current_exception()});
  }
}

// A lack of memory is one more failure, to be told and waited for.
progress scheduler::core::step() {
  constexpr auto between_tries = std::chrono::seconds(1);
  microseconds pause = commits_.lead_posted();
  node* mine = started();
  if (mine == nullptr && waits_for_store()) {
    // In virtual time a step comes when it was asked for, or when something was written.
    const auto now = std::chrono::steady_clock::now();
    if (!leases_ || now >= next_try_) {
      mine = begin_late();
      next_try_ = std::chrono::steady_clock::now() + between_tries;
    }
    pause = std::min<microseconds>(pause, between_tries);
  }
  if (mine == nullptr) {
    return {pause, false};
  }
  try {
    pause = std::min(pause, mine->step());
  } catch (...) {
    failures_.report({"scheduler", {}, {}, std::current_exception()});
    pause = std::min<microseconds>(pause, std::chrono::milliseconds(10));
  }
  return {pause, mine->closing() && mine->idle()};
}

}  // namespace timing_wheel::durable
