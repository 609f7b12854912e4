#pragma once

#include <atomic>

#include "common/progress.hpp"
#include "options.hpp"
#include "orders.hpp"
#include "report.hpp"

// What this program does, each until its end, or until `stop` is set. What went wrong is among the problems of the
// report.

namespace order_compensation {

/// Creates the orders as fast as one thread can, lets another approve 95 % of them, each after a random time of at most
/// 90 % of the delay, and waits until nothing is pending.
///
/// An approval that a slow machine delays until the check has begun comes too late: the stock is given back.
/// \throws timer_error for a bad option of the timer; usage_error if there is not enough memory for so many checks;
/// std::bad_alloc; std::system_error if no thread can be had.
void run_live(report& all, const options& chosen, common::progress& shown, const std::atomic<bool>& stop);

/// Lives through the orders of a file in virtual time, from the first purchase until nothing is pending.
///
/// An approval at or before purchase + delay cancels the check; one that comes later finds the stock given back. The
/// outcome does not depend on the tick: with one that does not divide the delay, checks fire late, and the lateness is
/// reported.
/// \throws usage_error if there are more than `max_orders`, or not enough memory; timer_error for a bad option of the
/// timer; std::bad_alloc.
void replay(report& all, const options& chosen, const std::vector<order>& orders, common::progress& shown,
            const std::atomic<bool>& stop);

/// Keeps orders, stock and checks in one database. This process places and approves orders; others, the workers, run
/// the checks, and are killed again and again, if asked to; so is a server of its own. Ends when nothing is pending.
/// \param orders of a file, to be lived through in scaled time; null: orders are made.
/// \throws usage_error if the site cannot be used; std::runtime_error.
void run_durable(report& all, const options& chosen, const std::vector<order>* orders, common::progress& shown,
                 const std::atomic<bool>& stop);

/// The program of a worker: runs the checks of the site that its standard input names, until that ends, as it does
/// when its parent dies. A handler gives the stock back in the transaction that ends the check.
void run_worker(std::int64_t number, std::chrono::nanoseconds delay);

}  // namespace order_compensation
