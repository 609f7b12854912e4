#include "durable/run_gate.hpp"

#include <utility>

namespace timing_wheel::durable {

namespace {

struct inside {
  const run_gate* gate = nullptr;
  const store* transaction_of = nullptr;
  run_gate::own_job* running = nullptr;
};
thread_local inside here;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

run_gate::enter::enter(const run_gate& gate, const store* transaction_of) noexcept
    : gate_before_(std::exchange(here.gate, &gate)),
      transaction_before_(std::exchange(here.transaction_of, transaction_of)) {}

run_gate::enter::~enter() {
  here.gate = gate_before_;
  here.transaction_of = transaction_before_;
}

run_gate::own_job::own_job(const job& what) noexcept : what_(&what), before_(std::exchange(here.running, this)) {}

run_gate::own_job::~own_job() { here.running = before_; }

bool run_gate::move_own_job(std::string_view kind, std::string_view key, due_time due) const noexcept {
  own_job* const mine = here.running;
  if (!is_inside() || mine == nullptr || mine->what_->kind() != kind || mine->what_->key() != key) {
    return false;
  }
  mine->again_ = due;
  return true;
}

bool run_gate::is_inside() const noexcept { return here.gate == this; }

bool run_gate::is_inside_transaction_of(const store& where) noexcept { return here.transaction_of == &where; }

run_gate::run_task::run_task(run_gate& gate, node& owner) : gate_(&gate), owner_(&owner) {
  const std::scoped_lock lock(gate.mutex_);
  ++gate.runs_;
}

run_gate::run_task::run_task(run_task&& other) noexcept
    : gate_(std::exchange(other.gate_, nullptr)), owner_(std::exchange(other.owner_, nullptr)) {}

run_gate::run_task::~run_task() {
  if (owner_ != nullptr) {
    owner_->drop_next();
  }
  if (gate_ != nullptr) {
    gate_->end_run();
  }
}

void run_gate::run_task::operator()() {
  const enter inside(*gate_);
  std::exchange(owner_, nullptr)->run_next();
}

// The last that a task does here: the thread that waits for it may destroy the gate when the lock is free.
void run_gate::end_run() noexcept {
  const std::scoped_lock lock(mutex_);
  --runs_;
  changed_.notify_all();
}

void run_gate::wait_for_an_end(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest);
}

void run_gate::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return runs_ == 0; });
}

}  // namespace timing_wheel::durable
