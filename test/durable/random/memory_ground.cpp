#include <memory>
#include <stdexcept>

#include "durable/random/program.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable::test {

namespace {

class memory_programs final : public ground {
 public:
  void reset() override {
    store_.reset();
    timer_ = std::make_unique<manual_timer>();
    store_ = std::make_unique<memory_store>(*timer_);
  }
  void pass(std::chrono::microseconds time) override { timer_->advance_by(time); }
  instant now() override { return store_->now(); }
  store& of(std::size_t /*node*/) override { return *store_; }
  std::unique_ptr<users_transaction> begin(std::size_t /*user*/) override { return nullptr; }
  [[nodiscard]] bool writes_beside() const override { return false; }
  [[nodiscard]] bool keeps_undone_fences() const override { return true; }
  [[nodiscard]] bool divides() const override { return true; }
  void cut(transaction& /*open*/) override { throw std::runtime_error("the transaction was ended"); }

 private:
  std::unique_ptr<manual_timer> timer_;
  std::unique_ptr<memory_store> store_;
};

}  // namespace

std::unique_ptr<ground> memory_ground() { return std::make_unique<memory_programs>(); }

}  // namespace timing_wheel::durable::test
