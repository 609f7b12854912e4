#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <concepts>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "support/service_audit.hpp"
#include "support/service_drivers.hpp"
#include "support/service_scale.hpp"
#include "support/service_stress.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/asio.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

/// A service with one of the ways to run callbacks, for suites that are typed by `drivers`.
template <class Driver>
class driven_service : public testing::Test {
 protected:
  using service_type = typename Driver::service_type;

  driven_service() { restart(); }
  ~driven_service() override { end(); }

  static std::uint64_t rounds() { return stress_rounds(Driver::rounds); }
  service_type& service() { return *service_; }
  executor_ref pool() { return on_pool_; }

  void restart() {
    timer_options options = options_of<Driver>(2);
    if (Driver::pooled) {
      options.executor = on_pool_;
    }
    service_.emplace(options);
  }
  void fire() { Driver::fire(*service_); }
  /// Runs all that is pending, where the clock is moved by hand.
  void go_on() {
    if constexpr (std::same_as<service_type, manual_timer>) {
      service_->advance_by(1h);
    }
  }
  /// Nothing touches the members of the suite afterwards: for its destructor.
  void end() {
    service_.reset();
    pool_.join();
  }

 private:
  boost::asio::thread_pool pool_{pool_threads};
  executor on_pool_ = asio_executor(pool_);
  std::optional<service_type> service_;
};

/// With something that sleeps in each round, and adds its end.
template <class Driver>
class sleeping_rounds : public driven_service<Driver> {
 protected:
  ~sleeping_rounds() override { this->end(); }

  std::stop_source& stop() { return stop_; }
  void renew_stop() { stop_ = std::stop_source(); }

  void expect_one_end_each(std::uint64_t count) {
    EXPECT_TRUE(eventually([&] {
      this->go_on();
      return ended_.load(std::memory_order_relaxed) == count;
    }));
    EXPECT_EQ(ends_.wrong(count), 0U);
    EXPECT_TRUE(eventually([&] { return this->service().stats().running == 0; }));
    EXPECT_TRUE(conserved(this->service()));
  }

  outcomes ends_{this->rounds()};
  std::atomic<std::uint64_t> ended_{0};
  std::stop_source stop_;
};

}  // namespace timing_wheel::test
