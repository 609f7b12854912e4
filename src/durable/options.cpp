#include "durable/options.hpp"

#include <chrono>
#include <string>

#include "durable/store/range.hpp"
#include "durable/store/text.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

using std::chrono::milliseconds;

namespace {

// Of what a node must come back to. Far from where a sum of a few of them would overflow.
constexpr milliseconds longest_wait = std::chrono::days(30);

void in_range(bool good, const char* name, const char* range) {
  if (!good) {
    throw timer_error(timer_errc::invalid_option, std::string("scheduler_options::") + name + " must be " + range);
  }
}

}  // namespace

scheduler_options validated(const scheduler_options& options) {
  validate_range("scheduler_options::look_ahead", options.look_ahead, milliseconds(1), longest_wait);
  validate_range("scheduler_options::poll", options.poll, milliseconds(1), longest_wait);
  validate_range("scheduler_options::sweep", options.sweep, milliseconds(1), longest_wait);
  validate_range("scheduler_options::lease", options.lease, milliseconds(10), longest_wait);
  validate_range("scheduler_options::tick", options.tick, milliseconds(1), options.lease / 6);
  validate_range("scheduler_options::transaction_time", options.transaction_time, milliseconds(0), milliseconds::max());
  in_range(options.batch >= 1 && options.batch <= 1000, "batch", "in [1, 1000]");
  in_range(options.max_claimed >= 1, "max_claimed", "at least 1");
  in_range(options.max_claimed_bytes >= 1, "max_claimed_bytes", "at least 1");
  in_range(options.max_known >= options.batch, "max_known", "at least `batch`");
  in_range(options.threads >= 1 && options.threads <= 1024, "threads", "in [1, 1024]");
  in_range(is_utf8(options.node) && options.node.find('\0') == std::string::npos, "node", "UTF-8 without a zero byte");
  return options;
}

void validate(const handler_options& options) {
  if (options.max_running < 1 || options.max_attempts < 1) {
    throw timer_error(timer_errc::invalid_option, "handler_options: max_running and max_attempts must be at least 1");
  }
  validate_range("handler_options::time_limit", options.time_limit, milliseconds(1), milliseconds::max());
  const backoff& rule = options.backoff;
  validate_range("handler_options::backoff.most", rule.most, milliseconds(0), milliseconds::max());
  validate_range("handler_options::backoff.first", rule.first, milliseconds(0), rule.most);
  const bool good = rule.factor >= 1 && rule.jitter >= 0 && rule.jitter <= 1;  // NaN is not
  if (!good) {
    throw timer_error(timer_errc::invalid_option,
                      "handler_options::backoff: factor >= 1, and jitter in [0, 1] are needed");
  }
}

}  // namespace timing_wheel::durable
