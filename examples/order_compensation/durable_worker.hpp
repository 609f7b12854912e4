#pragma once

#include <chrono>
#include <cstdint>

#include "durable_place.hpp"

namespace order_compensation {

/// The program of a worker: runs the checks of the place until its standard input ends, as it does when its parent
/// dies. A handler gives the stock back in the transaction that ends the check.
/// \param delay from an order to its check: with a short one the place is looked at more often.
void run_worker(const shop_place& place, std::int64_t number, std::chrono::nanoseconds delay);

}  // namespace order_compensation
