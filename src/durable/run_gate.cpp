#include "durable/run_gate.hpp"

#include <utility>

namespace timing_wheel::durable {

namespace {

struct inside {
  const run_gate* gate = nullptr;
  const store* transaction_of = nullptr;
};
thread_local inside here;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

run_gate::enter::enter(const run_gate& gate, const store* transaction_of) noexcept
    : gate_before_(std::exchange(here.gate, &gate)),
      transaction_before_(std::exchange(here.transaction_of, transaction_of)) {}

run_gate::enter::~enter() { here = {gate_before_, transaction_before_}; }

bool run_gate::is_inside() const noexcept { return here.gate == this; }

bool run_gate::is_inside_transaction_of(const store& where) noexcept { return here.transaction_of == &where; }

run_gate::run_task::run_task(run_gate& gate, node& owner, std::unique_ptr<node::leased_run> run)
    : gate_(&gate), owner_(&owner), run_(std::move(run)) {
  const std::scoped_lock lock(gate.mutex_);
  ++gate.runs_;
}

run_gate::run_task::run_task(run_task&& other) noexcept
    : gate_(std::exchange(other.gate_, nullptr)), owner_(other.owner_), run_(std::move(other.run_)) {}

run_gate::run_task::~run_task() {
  if (run_ != nullptr) {
    owner_->not_run(std::move(run_));
  }
  if (gate_ != nullptr) {
    gate_->end_run();
  }
}

void run_gate::run_task::operator()() {
  const enter inside(*gate_);
  owner_->run(std::move(run_));
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
