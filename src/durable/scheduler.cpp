#include "timing_wheel/durable/scheduler.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "durable/failures.hpp"
#include "durable/node/group_commit.hpp"
#include "durable/node/node.hpp"
#include "durable/node/worker_threads.hpp"
#include "durable/store/range.hpp"
#include "durable/store/text.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// Of what a node must come back to. Far from where a sum of a few of them would overflow.
constexpr milliseconds longest_wait = std::chrono::days(30);

// The scheduler whose handler this thread is in, and the store whose transaction it is given, if it is.
struct inside {
  const void* scheduler = nullptr;
  const store* transaction_of = nullptr;
};
thread_local inside here;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

class enter {
 public:
  explicit enter(const void* scheduler, const store* transaction_of = nullptr)
      : before_(std::exchange(here, {scheduler, transaction_of})) {}
  enter(const enter&) = delete;
  enter& operator=(const enter&) = delete;
  ~enter() { here = before_; }

 private:
  inside before_;
};

void in_range(bool good, const char* name, const char* range) {
  if (!good) {
    throw timer_error(timer_errc::invalid_option, std::string("scheduler_options::") + name + " must be " + range);
  }
}

scheduler_options checked(const scheduler_options& options) {
  check_range("scheduler_options::look_ahead", options.look_ahead, milliseconds(1), longest_wait);
  check_range("scheduler_options::poll", options.poll, milliseconds(1), longest_wait);
  check_range("scheduler_options::sweep", options.sweep, milliseconds(1), longest_wait);
  check_range("scheduler_options::lease", options.lease, milliseconds(10), longest_wait);
  check_range("scheduler_options::tick", options.tick, milliseconds(1), options.lease / 6);
  check_range("scheduler_options::transaction_time", options.transaction_time, milliseconds(0), milliseconds::max());
  in_range(options.batch >= 1 && options.batch <= 1000, "batch", "in [1, 1000]");
  in_range(options.max_claimed >= 1, "max_claimed", "at least 1");
  in_range(options.max_known >= options.batch, "max_known", "at least `batch`");
  in_range(options.threads >= 1 && options.threads <= 1024, "threads", "in [1, 1024]");
  in_range(is_utf8(options.node) && options.node.find('\0') == std::string::npos, "node", "UTF-8 without a zero byte");
  return options;
}

void check_kind(const handler_options& options) {
  if (options.max_running < 1 || options.max_attempts < 1) {
    throw timer_error(timer_errc::invalid_option, "handler_options: max_running and max_attempts must be at least 1");
  }
  const backoff& rule = options.backoff;
  check_range("handler_options::backoff.most", rule.most, milliseconds(0), milliseconds::max());
  check_range("handler_options::backoff.first", rule.first, milliseconds(0), rule.most);
  const bool good = rule.factor >= 1 && rule.jitter >= 0 && rule.jitter <= 1;  // NaN is not
  if (!good) {
    throw timer_error(timer_errc::invalid_option,
                      "handler_options::backoff: factor >= 1, and jitter in [0, 1] are needed");
  }
}

}  // namespace

class scheduler::implementation {
 public:
  implementation(store& where, timer* driven_by, const scheduler_options& options)
      : store_(where),
        options_(checked(options)),
        timer_(driven_by),
        failures_(options.on_failure),
        commits_(where, [this] { wake(); }) {
    if (timer_ == nullptr) {
      if (!options_.executor) {
        pool_ = std::make_unique<worker_threads>(options_.threads);
      }
      thread_ = std::thread([this] { loop(); });
    }
    // In virtual time nothing goes on by itself.
    if (dynamic_cast<const manual_timer*>(timer_) == nullptr) {
      start_extender();
    }
  }

  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  ~implementation() {
    stop();
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    extend_.notify_all();
    if (timer_ != nullptr) {
      leave_timer();
    } else {
      thread_.join();
    }
    if (extender_.joinable()) {
      extender_.join();
    }
    pool_.reset();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_ == 0; });
  }

  template <class Handler>
  void add(std::string kind, Handler handler, const handler_options& options) {
    check_kind(options);
    validate({.kind = kind, .key = "-", .payload = {}, .due = {}}, store_.limits());
    if (!handler) {
      throw timer_error(timer_errc::empty_callback, "kind " + kind);
    }
    if (node_ != nullptr) {
      throw timer_error(make_error_code(errc::already_started), "kind " + kind);
    }
    const bool known =
        std::any_of(kinds_.begin(), kinds_.end(), [&](const served_kind& other) { return other.rules.name == kind; });
    if (known) {
      throw timer_error(make_error_code(errc::handler_exists), "kind " + kind);
    }
    kinds_.push_back(
        {{std::move(kind), !std::is_same_v<Handler, leased_handler>, options}, guarded(std::move(handler))});
  }

  void start() {
    if (node_ != nullptr) {
      throw timer_error(make_error_code(errc::already_started), "start");
    }
    if (stopped()) {
      throw timer_error(timer_errc::stopped);
    }
    std::vector<kind_rules> rules;
    std::vector<any_handler> handlers;
    for (const served_kind& each : kinds_) {
      rules.push_back(each.rules);
      handlers.push_back(each.handler);
    }
    auto made = std::make_unique<node>(
        store_, options_, std::move(rules), std::move(handlers), failures_, [this] { wake(); },
        [this](std::unique_ptr<node::leased_run> run) { begin(std::move(run)); },
        extender_.joinable() ? std::function<void()>([this] { wake_extender(); }) : nullptr);
    timer_handle beats;
    if (timer_ != nullptr) {
      beats = timer_->schedule_every(options_.poll, [this] { beat(); });
    }
    {
      const std::scoped_lock lock(mutex_);
      heartbeat_ = std::move(beats);
      node_ = std::move(made);
      idle_ = false;
    }
    wake();
  }

  void stop() {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
    }
    commits_.refuse_posts();
    node* const mine = started();
    if (mine != nullptr) {
      mine->close();
      wake();
    }
    if (here.scheduler == this) {
      return;
    }
    commits_.close();
    if (mine == nullptr) {
      return;
    }
    if (timer_ != nullptr) {
      finish_by_hand();
    } else {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return idle_; });
    }
  }

  void append(std::span<append_op> ops) {
    refuse_inside_transaction();
    if (stopped()) {
      throw timer_error(timer_errc::stopped);
    }
    for (const append_op& op : ops) {
      validate(*op.asked, store_.limits());
    }
    commits_.append(ops);
    written(ops);
  }

  void post(request asked, completion then) {
    struct posted {
      request asked;
      append_op op;
    };
    refuse_inside_transaction();
    if (stopped()) {
      throw timer_error(timer_errc::stopped);
    }
    validate(asked, store_.limits());
    auto mine = std::make_shared<posted>(posted{std::move(asked), {}});
    mine->op.asked = &mine->asked;
    const auto tell = [this, mine, then = std::move(then)](const std::exception_ptr& failed) {
      const enter inside(this);
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

  cancel_answer cancel(std::string_view kind, std::string_view key) {
    refuse_inside_transaction();
    cancel_op op{kind, key};
    commits_.run({kind, key}, [&op](store_transaction& open) { open.cancel({&op, 1}); });
    const std::scoped_lock lock(mutex_);
    cancelled_ += op.result == cancel_result::cancelled ? 1U : 0U;
    return {op.result, op.attempts};
  }

  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) {
    refuse_inside_transaction();
    reschedule_op op{kind, key, due};
    commits_.run({kind, key}, [&op](store_transaction& open) { open.reschedule({&op, 1}); });
    return op.result;
  }

  store& where() {
    refuse_inside_transaction();
    return store_;
  }

  [[nodiscard]] scheduler_stats stats() const {
    scheduler_stats all;
    if (const node* const mine = started(); mine != nullptr) {
      mine->read(all);
    }
    all.store = store_.counts();
    const std::scoped_lock lock(mutex_);
    all.scheduled = scheduled_;
    all.duplicates = duplicates_;
    all.cancelled = cancelled_;
    return all;
  }

 private:
  struct served_kind {
    kind_rules rules;
    any_handler handler;
  };

  // A run on its way to a thread. Dropped without a call, it goes back. The scheduler is destroyed when none is left.
  class run_task {
   public:
    run_task(implementation& owner, std::unique_ptr<node::leased_run> run) : owner_(&owner), run_(std::move(run)) {
      const std::scoped_lock lock(owner.mutex_);
      ++owner.tasks_;
    }
    run_task(run_task&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), run_(std::move(other.run_)) {}
    run_task& operator=(run_task&&) = delete;
    ~run_task() {
      if (run_ != nullptr) {
        owner_->node_->not_run(std::move(run_));
      }
      if (owner_ != nullptr) {
        owner_->end_task();
      }
    }
    void operator()() {
      const enter inside(owner_);
      owner_->node_->run(std::move(run_));
    }

   private:
    implementation* owner_;
    std::unique_ptr<node::leased_run> run_;
  };

  // The last that a task does here: whoever waits for it may destroy the scheduler when the lock is free.
  void end_task() {
    const std::scoped_lock lock(mutex_);
    --tasks_;
    changed_.notify_all();
  }

  // Of another scheduler, too: what it wrote would not be undone with the handler's transaction, and might wait for it.
  void refuse_inside_transaction() const {
    if (here.transaction_of == &store_) {
      throw timer_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                        here.scheduler == this
                            ? "a transactional handler called its scheduler; use its transaction"
                            : "a transactional handler called another scheduler of its store; use its transaction");
    }
  }

  [[nodiscard]] node* started() const {
    const std::scoped_lock lock(mutex_);
    return node_.get();
  }
  [[nodiscard]] bool stopped() const {
    const std::scoped_lock lock(mutex_);
    return stopping_;
  }

  // The same handler, which knows that it is one of this scheduler.
  leased_handler guarded(leased_handler handler) {
    return [this, handler = std::move(handler)](const job& what) {
      const enter inside(this);
      return handler(what);
    };
  }
  transactional_handler guarded(transactional_handler handler) {
    return [this, handler = std::move(handler)](transaction& open, const job& what) {
      const enter inside(this, &store_);
      return handler(open, what);
    };
  }
  batch_handler guarded(batch_handler handler) {
    return [this, handler = std::move(handler)](transaction& open, std::span<const job> jobs) {
      const enter inside(this, &store_);
      handler(open, jobs);
    };
  }

  static std::error_code code_of(const std::exception_ptr& failed) {
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

  void written(std::span<const append_op> ops) noexcept {
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
  void tell(node* mine, const append_op& op) {
    if (mine == nullptr || !op.result.inserted || op.result.due > store_.now() + options_.look_ahead) {
      return;
    }
    if (const std::optional<std::uint32_t> kind = mine->kind_of(op.asked->kind); kind) {
      mine->expect({op.id, op.result.due, {}, *kind});
    }
  }

  void begin(std::unique_ptr<node::leased_run> run) {
    try {
      run_task mine(*this, std::move(run));  // what nobody takes goes back
      if (options_.executor) {
        options_.executor(task(std::move(mine)));
      } else if (pool_) {
        pool_->post(std::move(mine));
      } else {
        mine();
      }
    } catch (...) {
      failures_.report({"executor", {}, {}, std::current_exception()});
    }
  }

  // ---- a thread of its own

  void loop() {
    const enter inside(this);
    std::unique_lock lock(mutex_);
    while (!over_) {
      woken_ = false;
      node* const mine = node_.get();
      lock.unlock();
      microseconds pause = work(mine);
      lock.lock();
      idle_ = node_ == nullptr || (mine != nullptr && mine->closing() && mine->idle());
      if (idle_) {
        changed_.notify_all();
      }
      pause = std::min<microseconds>(pause, std::chrono::hours(1));
      changed_.wait_for(lock, pause, [this] { return woken_ || over_; });
    }
  }

  // ---- the thread that extends leases

  void extend() {
    const enter inside(this);
    std::unique_lock lock(mutex_);
    while (!over_) {
      extends_ = false;
      node* const mine = node_.get();
      lock.unlock();
      const microseconds pause = mine == nullptr ? microseconds::max() : mine->extend();
      lock.lock();
      const auto is_woken = [this] { return extends_ || over_; };
      if (pause == microseconds::max()) {
        extend_.wait(lock, is_woken);
      } else {
        extend_.wait_for(lock, pause, is_woken);
      }
    }
  }

  // \throws std::system_error if no thread can be had; then the others have ended.
  void start_extender() {
    try {
      extender_ = std::thread([this] { extend(); });
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        over_ = true;
      }
      changed_.notify_all();
      if (thread_.joinable()) {
        thread_.join();
      }
      throw;
    }
  }

  void wake_extender() {
    {
      const std::scoped_lock lock(mutex_);
      extends_ = true;
    }
    extend_.notify_all();
  }

  // ---- or a timer

  // A periodic timer needs nothing to come again. So if the timer has refused to arm another, the work is done here.
  void beat() {
    {
      const std::scoped_lock lock(mutex_);
      if (armed_.status() != timer_status::finished) {
        return;
      }
    }
    drive(false);
  }

  void drive(bool as_armed = true) {
    const enter inside(this);
    const std::unique_lock driving(driving_);
    node* const mine = started();
    microseconds pause{};
    while (pause == microseconds::zero()) {
      pause = work(mine);
    }
    const bool ended = mine != nullptr && mine->closing() && mine->idle();
    if (ended) {
      const std::scoped_lock lock(mutex_);
      heartbeat_.cancel();
    }
    arm(ended ? microseconds::max() : pause, as_armed);
  }

  void finish_by_hand() {
    node* const mine = started();
    while (!step_until_idle(*mine)) {
      std::unique_lock lock(mutex_);  // runs on an executor's threads
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    leave_nothing_armed(*mine);
  }

  // Nothing is posted any more, so nothing arms the timer anew.
  void leave_nothing_armed(node& mine) {
    const enter inside(this);
    heartbeat_.cancel_and_wait();
    const std::unique_lock driving(driving_);
    {
      const std::scoped_lock lock(mutex_);
      armed_.cancel();
    }
    static_cast<void>(work(&mine));
  }

  bool step_until_idle(node& mine) {
    const enter inside(this);
    const std::unique_lock driving(driving_);
    static_cast<void>(work(&mine));
    return mine.idle();
  }

  // While a callback of the timer is on its way, nobody takes its place: it looks again at its end. So waiting for the
  // handle that is armed waits for all of them.
  void arm(microseconds pause, bool at_the_end = false) {
    std::error_code refused;
    {
      const std::scoped_lock lock(mutex_);
      if (at_the_end && std::exchange(again_, false)) {
        pause = microseconds::zero();
      }
      if (over_ || pause == microseconds::max()) {
        return;
      }
      if (at_the_end || !serves(pause, refused)) {
        timer_handle next = timer_->schedule_after(
            pause, [this] { drive(); }, {}, refused);
        armed_ = refused ? armed_ : std::move(next);
      }
    }
    if (refused) {
      failures_.report({"timer", {}, {}, refusal(refused)});
    }
  }

  // Under the lock. Whether the timer that is armed is early enough, or is now; or, running, looks again. One that
  // cannot be moved stays as it is.
  bool serves(microseconds pause, std::error_code& refused) {
    if (armed_.status() == timer_status::pending && armed_.remaining() <= pause) {
      return true;
    }
    if (armed_.reschedule_after(pause, refused) || refused) {
      return true;
    }
    const bool running = armed_.status() == timer_status::running;
    again_ = again_ || running;
    return running;
  }

  // Needs no memory to say that there was none.
  static std::exception_ptr refusal(std::error_code why) noexcept {
    try {
      throw timer_error(why, "the scheduler looks again after a poll");
    } catch (...) {
      return std::current_exception();
    }
  }

  void leave_timer() {
    heartbeat_.cancel_and_wait();
    armed_.cancel_and_wait();
  }

  // \returns how long there is nothing to do. A lack of memory is one more failure, to be told and waited for.
  microseconds work(node* mine) {
    const microseconds until_retry = commits_.lead_posted();
    try {
      return std::min(until_retry, mine == nullptr ? microseconds::max() : mine->step());
    } catch (...) {
      failures_.report({"scheduler", {}, {}, std::current_exception()});
      return std::min<microseconds>(until_retry, std::chrono::milliseconds(10));
    }
  }

  void wake() {
    if (timer_ != nullptr) {
      arm(microseconds::zero());
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    changed_.notify_all();
  }

  store& store_;
  const scheduler_options options_;
  timer* const timer_;
  failures failures_;
  group_commit commits_;
  std::vector<served_kind> kinds_;
  std::unique_ptr<worker_threads> pool_;

  // Held by who steps, if a timer drives. It is taken before every other lock, and never under mutex_; the order of all
  // is in docs/concurrency.md.
  std::mutex driving_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::condition_variable extend_;  // for the thread that extends leases
  std::unique_ptr<node> node_;
  timer_handle armed_;
  timer_handle heartbeat_;  // once it is started
  bool woken_ = false;
  bool extends_ = false;   // `extend` is to look again
  bool again_ = false;     // the timer's callback is to look again
  std::size_t tasks_ = 0;  // that have not left
  bool stopping_ = false;
  bool idle_ = false;
  bool over_ = false;
  std::uint64_t scheduled_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t cancelled_ = 0;
  std::thread thread_;
  std::thread extender_;
};

scheduler::scheduler(store& where, const scheduler_options& options)
    : implementation_(std::make_unique<implementation>(where, nullptr, options)) {}

scheduler::scheduler(store& where, timer& driven_by, const scheduler_options& options)
    : implementation_(std::make_unique<implementation>(where, &driven_by, options)) {}

scheduler::~scheduler() = default;

void scheduler::add(std::string kind, leased_handler handler, const handler_options& options) {
  implementation_->add(std::move(kind), std::move(handler), options);
}
void scheduler::add(std::string kind, transactional_handler handler, const handler_options& options) {
  implementation_->add(std::move(kind), std::move(handler), options);
}
void scheduler::add(std::string kind, batch_handler handler, const handler_options& options) {
  implementation_->add(std::move(kind), std::move(handler), options);
}

void scheduler::start() { implementation_->start(); }

void scheduler::stop() { implementation_->stop(); }

scheduled scheduler::schedule(const request& asked) {
  append_op op{&asked};
  implementation_->append({&op, 1});
  return op.result;
}

std::vector<scheduled> scheduler::schedule(std::span<const request> asked) {
  std::vector<append_op> ops;
  ops.reserve(asked.size());
  for (const request& one : asked) {
    ops.push_back({&one});
  }
  std::vector<scheduled> results(ops.size());
  implementation_->append(ops);
  std::transform(ops.begin(), ops.end(), results.begin(), [](const append_op& op) { return op.result; });
  return results;
}

void scheduler::schedule(request asked, completion then) { implementation_->post(std::move(asked), std::move(then)); }

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

cancel_answer scheduler::cancel(std::string_view kind, std::string_view key) {
  return implementation_->cancel(kind, key);
}

reschedule_result scheduler::reschedule(std::string_view kind, std::string_view key, due_time due) {
  return implementation_->reschedule(kind, key, due);
}

std::optional<stored_check> scheduler::find(std::string_view kind, std::string_view key) {
  return implementation_->where().find(kind, key);
}

std::vector<dead_check> scheduler::list_dead(std::size_t limit, std::int64_t after) {
  return implementation_->where().list_dead(limit, after);
}

bool scheduler::retry_dead(std::int64_t id) { return implementation_->where().retry_dead(id); }

bool scheduler::delete_dead(std::int64_t id) { return implementation_->where().delete_dead(id); }

scheduler_stats scheduler::stats() const { return implementation_->stats(); }

}  // namespace timing_wheel::durable
