#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared/thread_setup.hpp"

namespace timing_wheel::durable {

/// Threads that run what is posted to them. The destructor waits for all of it.
///
/// Asio's `thread_pool` has threads, too; but if one of them cannot be had, its constructor waits for the others for
/// ever.
///
/// Thread safety: `post` from any thread.
class worker_threads {
 public:
  /// \throws std::system_error if a thread cannot be had, std::bad_alloc; then those that ran have ended.
  explicit worker_threads(unsigned count)
      : queue_(static_cast<int>(count)), open_(boost::asio::make_work_guard(queue_)) {
    threads_.reserve(count);
    const detail::signals_blocked while_starting;
    while (threads_.size() < count) {
      threads_.emplace_back([this, number = threads_.size() + 1] {
        detail::name_this_thread(("durable_run" + std::to_string(number)).c_str());
        queue_.run();
      });
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return threads_.size(); }

  template <class Task>
  void post(Task&& work) {
    boost::asio::post(queue_, std::forward<Task>(work));
  }

 private:
  // Destroyed from below: the queue is closed, the threads end and are joined, and then it goes.
  boost::asio::io_context queue_;
  std::vector<std::jthread> threads_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open_;
};

}  // namespace timing_wheel::durable
