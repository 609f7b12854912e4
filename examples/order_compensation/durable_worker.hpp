#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace order_compensation {

/// The program of a worker: runs the checks of the file until its standard input ends, as it does when its parent
/// dies. A handler gives the stock back in the transaction that ends the check.
/// \param delay from an order to its check: with a short one the file is looked at more often.
void run_worker(const std::string& file, std::int64_t number, std::chrono::nanoseconds delay);

}  // namespace order_compensation
