#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <timing_wheel/durable/postgres_store.hpp>
#include <timing_wheel/durable/scheduler.hpp>
#include <utility>
#include <vector>

// One replica of timing_wheel::durable in the harness that README.md names: a producer, and a node with a leased
// handler. The environment says what to do; tokens arrive on standard input, and figures leave on standard output, as
// lines of JSON. It ends by SIGTERM.

namespace {

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::system_clock;

constexpr const char* kind = "job";

std::int64_t now_in_microseconds() { return system_clock::now().time_since_epoch() / 1us; }

std::string text(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

double number(const char* name, double otherwise, double least, double most) {
  const std::string given = text(name, "");
  const std::optional<double> value = given.empty() ? otherwise : number_in(given);
  if (!value || !(*value >= least && *value <= most)) {
    throw std::runtime_error(std::string(name) + " is \"" + given + "\": a number from " +
                             std::to_string(std::int64_t(least)) + " to " + std::to_string(std::int64_t(most)));
  }
  return *value;
}

std::string one_of(const char* name, const std::initializer_list<std::string_view>& known) {
  std::string value = text(name, std::string(*known.begin()));
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    throw std::runtime_error(std::string(name) + "=" + value + " is not supported");
  }
  return value;
}

/// What the harness asks for. \throws std::runtime_error with the name of what it asks for in vain.
struct settings {
  std::string database = text("DATABASE_URL", "");
  bool to_depth = one_of("PRODUCER_MODE", {"fixed", "depth-target"}) == "depth-target";
  bool by_tokens = one_of("PRODUCER_PACING", {"adapter", "harness"}) == "harness";
  double rate = number("PRODUCER_RATE", 800, 0, 1e7);
  std::string rate_file = text("PRODUCER_RATE_CONTROL_FILE", "");
  double depth = number("TARGET_DEPTH", 1000, 0, 1e7);
  double batch = number("PRODUCER_BATCH_MAX", 128, 1, 1e5);
  unsigned workers = unsigned(number("WORKER_COUNT", 32, 1, 1024));
  std::size_t payload = std::size_t(number("JOB_PAYLOAD_BYTES", 256, 0, 1 << 20));
  std::chrono::microseconds work{std::int64_t(1000 * number("JOB_WORK_MS", 1, 0, 1e7))};
  std::chrono::seconds sample_every{std::int64_t(number("SAMPLE_EVERY_S", 5, 1, 1e4))};
  std::chrono::milliseconds lease{std::int64_t(number("LEASE_DEADLINE_MS", 30'000, 10, 1e9))};
  int instance = int(number("BENCH_INSTANCE_ID", 0, 0, 1e6));

  settings() {
    if (database.empty()) {
      throw std::runtime_error("DATABASE_URL is not set");
    }
    one_of("SCENARIO", {"long_horizon"});
    // A figure without these would be taken for one with them.
    for (const char* name : {"BENCH_QUEUE_COUNT", "WORKER_FAIL_MODE", "JOB_FAIL_FIRST_MOD", "JOB_MAX_ATTEMPTS",
                             "BENCH_DLQ_ENABLED", "JOB_PRIORITY_PATTERN", "PRIORITY_AGING_MS"}) {
      one_of(name, {""});
    }
  }
};

/// A connection for what the library has no call for. Thread safety: none.
class observer {
 public:
  explicit observer(std::string database) : database_(std::move(database)) {}

  /// The first value of the first row. \throws std::runtime_error with libpq's words; the next call connects anew.
  std::string ask(const std::string& sql) {
    if (connection_ == nullptr) {
      constexpr std::array<const char*, 4> names{"dbname", "connect_timeout", "options", nullptr};
      const std::array<const char*, 4> values{database_.c_str(), "2", "-c statement_timeout=2s", nullptr};
      connection_.reset(PQconnectdbParams(names.data(), values.data(), 1));
    }
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection_.get(), sql.c_str()), &PQclear);
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) {
      const std::string why = PQerrorMessage(connection_.get());
      connection_.reset();
      throw std::runtime_error(why);
    }
    return PQgetvalue(result.get(), 0, 0);
  }

  /// How many jobs are due that no node has claimed. It reads all of them. \throws as `ask`.
  double queue_depth() {
    return std::stod(
        ask("SELECT count(*) FROM timing_wheel.check "
            "WHERE lease IS NULL AND due <= (extract(epoch FROM now()) * 1000000)::bigint"));
  }

 private:
  std::string database_;
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_{nullptr, &PQfinish};
};

/// The durations of the last 30 s, to three digits: each second has at most 900 counts for each power of ten. Thread
/// safety: any thread.
class recent_durations {
 public:
  static constexpr std::chrono::seconds window = 30s;

  void record(std::chrono::microseconds value) {
    const std::scoped_lock lock(mutex_);
    forget();
    ++counts_[this_second()][to_three_digits(double(value.count()))];
  }

  /// The smallest value that so large a share of all does not exceed, in milliseconds; 0 if there is none.
  double quantile(double share) {
    const std::scoped_lock lock(mutex_);
    forget();
    std::map<double, double> all;
    double total = 0;
    for (const auto& [second, counts] : counts_) {
      for (const auto& [value, count] : counts) {
        all[value] += count;
        total += count;
      }
    }
    double below = 0;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return (below += each.second) >= share * total; });
    return found == all.end() ? 0 : found->first / 1000;
  }

 private:
  static double to_three_digits(double value) {
    const double step = value < 1000 ? 1 : std::pow(10, std::floor(std::log10(value)) - 2);
    return std::max(0.0, std::round(value / step) * step);
  }
  static std::int64_t this_second() { return std::chrono::steady_clock::now().time_since_epoch() / 1s; }
  void forget() { counts_.erase(counts_.begin(), counts_.upper_bound(this_second() - window / 1s)); }

  std::mutex mutex_;
  std::map<std::int64_t, std::map<double, double>> counts_;  // by second and value
};

/// The lines of standard input. After its end there are no more, and a wait takes its time. Thread safety: none.
class tokens {
 public:
  void wait(std::chrono::milliseconds limit) {
    pollfd input{.fd = ended_ ? -1 : STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, int(limit.count())) > 0) {
      std::array<char, 4096> piece{};
      const ssize_t size = std::max(read(STDIN_FILENO, piece.data(), piece.size()), ssize_t{0});
      ended_ = size == 0;
      lines_.append(piece.data(), std::size_t(size));
    }
  }

  /// The number of the next token.
  std::optional<double> next() {
    constexpr std::string_view word = "ENQUEUE ";
    for (std::size_t end = lines_.find('\n'); end != std::string::npos; end = lines_.find('\n')) {
      const std::string line = lines_.substr(0, end);
      lines_.erase(0, end + 1);
      const auto count = line.starts_with(word) ? number_in(std::string_view(line).substr(word.size())) : std::nullopt;
      if (count && *count >= 0) {
        return count;
      }
      std::cerr << "adapter: \"" << line << "\" is no token\n";
    }
    return std::nullopt;
  }

 private:
  std::string lines_;
  bool ended_ = false;
};

/// Writes jobs that are due at once, so many as tokens, a rate or a depth ask for, up to PRODUCER_BATCH_MAX in a call.
/// If a call fails, it is repeated with the same keys. Thread safety: `run` by one thread; `enqueued` by any.
class producer {
 public:
  producer(const settings& how, durable::scheduler& into) : how_(how), into_(into), observer_(how.database) {}

  void run(const std::stop_token& stop) {
    std::chrono::milliseconds pause = 0ms;
    last_ = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      tokens_.wait(pause);
      try {
        pause = write(stop) ? 0ms : 25ms;
        failing_ = false;
      } catch (const std::exception& error) {
        if (!failing_ && !stop.stop_requested()) {
          std::cerr << "adapter: the producer repeats: " << error.what() << '\n';
        }
        failing_ = true;
        std::this_thread::sleep_for(100ms);
      }
    }
  }

  [[nodiscard]] std::uint64_t enqueued() const { return enqueued_; }

 private:
  /// Whether there was something to write.
  bool write(const std::stop_token& stop) {
    if (batch_.empty()) {
      credit_ = credit();
      for (; credit_ >= 1 && double(batch_.size()) < how_.batch; --credit_) {
        batch_.push_back(next_job());
      }
    }
    if (batch_.empty() || stop.stop_requested()) {
      return false;
    }
    into_.schedule(batch_);
    enqueued_ += batch_.size();
    batch_.clear();
    return true;
  }

  /// How many jobs to write by now.
  double credit() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - std::exchange(last_, now);
    if (how_.to_depth) {
      return std::max(0.0, how_.depth - observer_.queue_depth());
    }
    if (!how_.by_tokens) {
      return credit_ + rate() * passed.count();
    }
    // Tokens do not know phases with another rate.
    const double factor = how_.rate > 0 ? rate() / how_.rate : 1;
    double credit = credit_;
    for (std::optional<double> token; credit < 1 && (token = tokens_.next());) {
      credit += *token * factor;
    }
    return credit;
  }

  /// The rate of this phase, as the harness has written it.
  [[nodiscard]] double rate() const {
    std::string written;
    std::ifstream(how_.rate_file) >> written;
    return number_in(written).value_or(how_.rate);
  }

  durable::request next_job() {
    std::string payload = std::to_string(now_in_microseconds()) + ' ';
    payload.resize(std::max(payload.size(), how_.payload), 'x');
    return {.kind = kind, .key = prefix_ + std::to_string(++number_), .payload = std::move(payload)};
  }

  const settings& how_;
  durable::scheduler& into_;
  observer observer_;
  tokens tokens_;
  std::vector<durable::request> batch_;
  double credit_ = 0;
  bool failing_ = false;
  std::chrono::steady_clock::time_point last_;
  // A replica that was killed comes back under the same number.
  std::string prefix_ = std::to_string(how_.instance) + '-' + std::to_string(now_in_microseconds()) + '-';
  std::uint64_t number_ = 0;
  std::atomic<std::uint64_t> enqueued_ = 0;
};

std::string iso(system_clock::time_point when) {
  const std::time_t seconds = system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(when));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> date{};
  const std::size_t size = std::strftime(date.data(), date.size(), "%FT%T.", &parts);
  const std::string digits = std::to_string(1000 + when.time_since_epoch() / 1ms % 1000);
  return std::string(date.data(), size) + digits.substr(1) + 'Z';
}

/// Takes the time of a job. \returns false if it was told to stop.
bool work(const std::stop_token& stop, std::chrono::microseconds time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

/// One replica. Its figures are those of this process, but for the depth of the queue.
class replica {
 public:
  explicit replica(const settings& how)
      : how_(how),
        store_(how.database),
        checks_(store_, {.lease = how.lease, .threads = how.workers}),
        producer_(how, checks_),
        observer_(how.database) {
    store_.migrate();
    checks_.on(kind, [this](const durable::job& job) -> durable::outcome {
      std::int64_t made = 0;
      std::from_chars(job.payload().data(), job.payload().data() + job.payload().size(), made);
      claims_.record(std::chrono::microseconds(now_in_microseconds() - made));
      return work(job.stop_token(), how_.work) ? durable::done : durable::snooze(1ms);
    });
    checks_.start();
  }

  /// Ends after one of the signals, which all threads block. \returns whether no job is left that runs.
  bool run(const sigset_t& stops) {
    describe();
    std::jthread produce([this](const std::stop_token& stop) { producer_.run(stop); });
    while (!stopped_before(next_boundary(), stops)) {
      sample();
    }
    produce.request_stop();
    produce.join();
    return checks_.stop(std::chrono::steady_clock::now() + 3s).finished;
  }

 private:
  /// Of the clock, so that the samples of all replicas and systems lie side by side.
  [[nodiscard]] system_clock::time_point next_boundary() const {
    const auto now = std::chrono::floor<std::chrono::seconds>(system_clock::now());
    return now + how_.sample_every - now.time_since_epoch() % how_.sample_every;
  }

  static bool stopped_before(system_clock::time_point end, const sigset_t& stops) {
    for (auto left = end - system_clock::now(); left > 0ns; left = end - system_clock::now()) {
      const timespec limit{.tv_sec = left / 1s, .tv_nsec = left % 1s / 1ns};
      if (sigtimedwait(&stops, nullptr, &limit) > 0) {
        return true;
      }
    }
    return false;
  }

  void describe() {
    const auto names = [this](const std::string& which) {
      return json::parse(observer_.ask("SELECT json_agg(schemaname||'.'||" + which));
    };
    print({{"kind", "descriptor"},
           {"event_tables", names("tablename) FROM pg_tables WHERE schemaname='timing_wheel'")},
           {"event_indexes", names("indexname) FROM pg_indexes WHERE schemaname='timing_wheel' AND tablename='check'")},
           {"extensions", json::array()},
           {"version", TIMING_WHEEL_VERSION},
           {"schema_version", store_.plan_migration().to},
           {"db_name", observer_.ask("SELECT current_database()")},
           {"started_at", iso(system_clock::now())}});
  }

  void sample() {
    const auto now = system_clock::now();
    const auto print_one = [&](const char* metric, double value, std::chrono::seconds window) {
      print({{"kind", "adapter"},
             {"t", iso(now)},
             {"subject_kind", "adapter"},
             {"subject", ""},
             {"metric", metric},
             {"value", value},
             {"window_s", window.count()}});
    };
    // Not by the time that has passed: the harness multiplies by the window again, and compares the sums.
    const auto print_rate = [&](const char* metric, std::uint64_t count, std::uint64_t& before) {
      print_one(metric, double(count - std::exchange(before, count)) / double(how_.sample_every.count()),
                how_.sample_every);
    };
    print_one("claim_p50_ms", claims_.quantile(0.5), recent_durations::window);
    print_one("claim_p95_ms", claims_.quantile(0.95), recent_durations::window);
    print_one("claim_p99_ms", claims_.quantile(0.99), recent_durations::window);
    print_rate("enqueue_rate", producer_.enqueued(), enqueued_);
    print_rate("completion_rate", checks_.stats().done, completed_);
    if (how_.instance == 0) {
      try {
        print_one("queue_depth", observer_.queue_depth(), 0s);
      } catch (const std::exception& error) {  // nobody knows it now
        std::cerr << "adapter: no queue_depth: " << error.what();
      }
    }
  }

  void print(json record) const {
    record["system"] = "timing_wheel";
    record["instance_id"] = how_.instance;
    std::cout << record.dump() << std::endl;
  }

  const settings& how_;
  recent_durations claims_;
  durable::postgres_store store_;
  durable::scheduler checks_;
  producer producer_;
  observer observer_;
  std::uint64_t enqueued_ = 0;
  std::uint64_t completed_ = 0;
};

}  // namespace

int main() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);  // before there is a thread
  try {
    const settings how;
    replica one(how);
    if (!one.run(stops)) {
      std::_Exit(0);  // the destructor would wait for the jobs that are left; other replicas run them again
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "adapter: " << error.what() << '\n';
    return 1;
  }
}
