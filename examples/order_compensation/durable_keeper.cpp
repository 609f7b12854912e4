#include "durable_keeper.hpp"

#include <algorithm>
#include <utility>

#include "common/program.hpp"
#include "durable_shop.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;

/// How often workers are looked at that should not have ended.
constexpr auto look = 20ms;
/// A worker that does not live as long, and three more like it, will not come to work.
constexpr auto short_life = 1s;
constexpr unsigned most_short_lives = 3;
/// Probes of a kill where several nodes divide the table: some of them fall to the one that was killed.
constexpr int probes_of_many = 16;
/// Kills of nodes to one of the server.
constexpr double kills_to_one = 5;

}  // namespace

std::int64_t keeper_notes::now() {
  return database_.get([](database& in) { return in.now(); });
}

std::int64_t keeper_notes::birth(std::uint64_t node) {
  ++births_;
  return database_.get([&](database& in) {
    in.run("INSERT INTO worker(run,birth,node,begun) VALUES($1,$2,$3,$4) ON CONFLICT(run,birth) DO NOTHING", run_,
           births_, node, in.now());
    return in.ask("SELECT number FROM worker WHERE run=$1 AND birth=$2", run_, births_);
  });
}

// The dead one renews no share, so until another takes it the epoch stays.
void keeper_notes::death(std::int64_t worker, std::int64_t killed, int probes) {
  database_.use([&](database& in) {
    write_transaction open(in);
    if (in.run("UPDATE worker SET killed=$1 WHERE number=$2 AND killed IS NULL RETURNING number", killed, worker)
            .empty()) {
      return;  // it was committed, and the answer was lost
    }
    if (in.share_table() != nullptr) {
      const std::string keep = std::string("INSERT INTO lost_share SELECT $1::bigint,kinds,share,epoch FROM ") +
                               in.share_table() + " WHERE owner='worker-'||$1::bigint";
      in.run(keep.c_str(), worker);
    }
    for (int probe = 0; probe < probes; ++probe) {
      const std::string key = node_of_worker(worker) + "-" + std::to_string(probe);
      in.schedule({.kind = probe_kind, .key = key, .payload = {}, .due = {}});
    }
    open.commit();
  });
}

void keeper_notes::server_kill(std::int64_t killed) {
  ++server_kills_;
  database_.use([&](database& in) {
    in.run("INSERT INTO server_kill(run,number,killed) VALUES($1,$2,$3) ON CONFLICT(run,number) DO NOTHING", run_,
           server_kills_, killed);
  });
}

keeper::keeper(const options& chosen, shop_place& place)
    : options_(chosen),
      place_(place),
      killing_(options_.between_kills.has_value()),
      notes_(place, options_.run),
      random_(options_.seed),
      next_kill_(random_moment(1)),
      next_server_kill_(options_.kill_server ? random_moment(kills_to_one) : steady::time_point::max()),
      thread_([this](const std::stop_token& stop) { keep(stop); }) {}

void keeper::finish() {
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void keeper::rethrow_failure() const {
  if (failed_.load(std::memory_order_acquire)) {
    std::rethrow_exception(failure_);
  }
}

void keeper::keep(const std::stop_token& stop) {
  try {
    for (std::size_t node = 0; node < options_.nodes; ++node) {
      nodes_.push_back(start(node));
    }
    while (wait(stop, std::min({next_kill_, next_server_kill_, steady::now() + look}))) {
      look_at_all();
      if (steady::now() >= next_kill_) {
        next_kill_ = random_moment(1);
        kill_one();
      }
      if (steady::now() >= next_server_kill_) {
        next_server_kill_ = random_moment(kills_to_one);
        kill_server();
      }
    }
    for (worker& each : nodes_) {
      crashes_ += each.process->finish() ? 0U : 1U;
    }
  } catch (...) {
    failure_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

void keeper::look_at_all() {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].process->has_ended()) {
      note_crash(nodes_[node].born);
      nodes_[node] = start(node);
    }
  }
}

void keeper::kill_one() {
  const std::size_t node = random_() % nodes_.size();
  const std::int64_t killed = notes_.now();
  if (killing_ && nodes_[node].process->kill()) {
    note_death(nodes_[node].number, killed);
    nodes_[node] = start(node);
  }
}

void keeper::kill_server() {
  if (!killing_) {
    return;
  }
  const std::int64_t killed = notes_.now();
  place_.kill_server();
  ++server_kills_;
  notes_.server_kill(killed);
}

/// \returns false if there is a stop.
bool keeper::wait(const std::stop_token& stop, steady::time_point until) {
  std::unique_lock lock(mutex_);
  never_.wait_until(lock, stop, until, [] { return false; });
  return !stop.stop_requested();
}

void keeper::note_death(std::int64_t number, std::int64_t killed) {
  ++kills_;
  short_lives_ = 0;
  notes_.death(number, killed, nodes_.size() == 1 ? 1 : probes_of_many);
}

void keeper::note_crash(steady::time_point born) {
  ++crashes_;
  short_lives_ = steady::now() - born < short_life ? short_lives_ + 1 : 0;
  if (short_lives_ > most_short_lives) {
    throw common::failure("a worker ends as soon as it is started");
  }
}

keeper::worker keeper::start(std::size_t node) {
  const std::int64_t number = notes_.birth(node + 1);
  std::vector<std::string> words{"/proc/self/exe",       "--durable", "--worker",
                                 std::to_string(number), "--delay",   std::to_string(options_.delay.count()) + "ns"};
  return {number, steady::now(), std::make_unique<child_process>(std::move(words), place_.argument() + '\0')};
}

keeper::steady::time_point keeper::random_moment(double times) {
  const auto between = options_.between_kills.value_or(24h);
  const double part = 2 * times * static_cast<double>(random_() >> 11) * 0x1p-53;
  return steady::now() +
         std::chrono::duration_cast<steady::duration>(std::chrono::duration<double, std::nano>(between) * part);
}

}  // namespace order_compensation
