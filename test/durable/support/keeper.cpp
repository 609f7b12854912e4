#include "durable/support/keeper.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iostream>
#include <thread>
#include <utility>

#include "durable/support/ledger.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::rig {
namespace {

using namespace std::chrono_literals;

/// Kills of nodes to one of the server.
constexpr double kills_to_one = 5;

/// \returns whether it has ended.
bool wait_for_end_of_input(int timeout_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char ignored = 0;
  return ::poll(&input, 1, timeout_ms) > 0 && ::read(STDIN_FILENO, &ignored, 1) == 0;
}

/// A database that is away for a while is nothing to tell: `stats` counts it.
void tell(const durable::failure& what) {
  try {
    std::rethrow_exception(what.error);
  } catch (const try_again&) {    // NOLINT(bugprone-empty-catch): see above
  } catch (const timer_error&) {  // NOLINT(bugprone-empty-catch): see above
  } catch (const std::exception& error) {
    std::cerr << "worker: " << what.what << ": " << error.what() << '\n';
  }
}

}  // namespace

keeper::keeper(site& where, keeper_options how)
    : site_(where),
      options_(std::move(how)),
      database_(where),
      random_(options_.seed),
      next_kill_(random_moment(1)),
      next_server_kill_(random_moment(kills_to_one)),
      killing_(options_.kill.has_value()) {
  std::signal(SIGCHLD, SIG_DFL);  // else the ends of processes are lost, if it was ignored before
  for (std::int64_t node = 1; node <= options_.nodes; ++node) {
    nodes_.push_back(start(node));
  }
}

keeper::life keeper::start(std::int64_t node) {
  const std::int64_t number = options_.first_process + ++births_ * most_nodes + node;
  std::vector<std::string> words{"/proc/self/exe", "--worker", std::to_string(number)};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  return {number, steady::now(), std::make_unique<child_process>(std::move(words), site_.argument() + '\0')};
}

void keeper::look() {
  for (life& each : nodes_) {
    if (each.process->has_ended()) {
      note_crash(each.born);
      each = start(each.number % most_nodes);
    }
  }
  if (killing_) {
    look_at_server();
  }
  if (killing_ && steady::now() >= next_kill_) {
    next_kill_ = random_moment(1);
    kill_one();
  }
}

void keeper::kill_one() {
  life& one = nodes_[random_() % nodes_.size()];
  const kill killed{one.number, database_.now()};
  if (one.process->kill()) {
    kills_.push_back(killed);
    short_lives_ = 0;
    note_death(one.number);
    one = start(one.number % most_nodes);
  }
}

/// Where several nodes divide the table, some of the probes fall to the one that was killed. It renews no share: until
/// another takes a share of it, the epoch stays.
void keeper::note_death(std::int64_t process) {
  const std::string owner = name_of_node(process);
  std::vector<std::int64_t> shares;
  database_.use([&](database& in) {
    write_transaction open(in);
    if (site_.on_server()) {
      shares =
          in.run("SELECT hashtext(kinds),share,epoch FROM " + site_.table("share") + " WHERE owner='" + owner + "'");
    }
    for (int probe = 0; probe < (nodes_.size() == 1 ? 1 : 16); ++probe) {
      in.schedule({.kind = probe_kind, .key = owner + "-" + std::to_string(++probes_), .payload = {}, .due = {}});
    }
    open.commit();
  });
  lost_shares_.insert(lost_shares_.end(), shares.begin(), shares.end());
}

void keeper::note_crash(steady::time_point born) {
  constexpr auto short_life = 1s;
  constexpr unsigned most_short_lives = 3;
  ++crashes_;
  short_lives_ = steady::now() - born < short_life ? short_lives_ + 1 : 0;
  if (short_lives_ > most_short_lives) {
    throw std::runtime_error("a worker ends as soon as it is started");
  }
}

void keeper::look_at_server() {
  if (!options_.kill_server) {
    return;
  }
  if (server_.valid() && server_.wait_for(0s) == std::future_status::ready) {
    server_.get();
    next_server_kill_ = random_moment(kills_to_one);  // from its new start: else a slow one would never be up
  }
  if (!server_.valid() && steady::now() >= next_server_kill_) {
    server_kills_.push_back({0, database_.now()});
    server_ = std::async(std::launch::async, [this] { site_.kill_server(); });
  }
}

void keeper::stop_killing() {
  killing_ = false;
  if (server_.valid()) {
    server_.get();
  }
}

void keeper::finish() {
  for (const life& each : nodes_) {
    crashes_ += each.process->finish() ? 0U : 1U;
  }
  nodes_.clear();
}

std::size_t keeper::kills_of(std::int64_t node) const {
  const auto is_of_node = [node](const kill& each) { return each.process % most_nodes == node; };
  return static_cast<std::size_t>(std::count_if(kills_.begin(), kills_.end(), is_of_node));
}

std::vector<keeper::kill> keeper::recoveries(database& in) const {
  std::vector<kill> all = kills_;
  for (kill& each : all) {
    each.again = in.ask("SELECT max(at) FROM run WHERE kind='probe' AND number=$1", each.process);
  }
  return all;
}

std::vector<keeper::kill> keeper::server_recoveries(database& in) const {
  std::vector<kill> all = server_kills_;
  for (kill& each : all) {
    each.again = in.ask("SELECT min(at) FROM run WHERE at>$1", each.at);
  }
  return all;
}

std::int64_t keeper::takeovers(database& in) const {
  std::int64_t count = 0;
  for (auto share = lost_shares_.begin(); share != lost_shares_.end(); share += 3) {
    count +=
        in.ask("SELECT count(*) FROM " + site_.table("share") + " WHERE hashtext(kinds)=$1 AND share=$2 AND epoch>$3",
               share[0], share[1], share[2]);
  }
  return count;
}

/// Uniform up to twice as much as on average.
keeper::steady::time_point keeper::random_moment(double times) {
  const double part = 2 * times * static_cast<double>(random_() >> 11) * 0x1p-53;
  return steady::now() + from_seconds(options_.kill.value_or(0) * part);
}

std::int64_t number_in(const std::string& key) {
  std::int64_t number = 0;
  const char* const begin = key.data() + key.find('-') + 1;
  if (std::from_chars(begin, key.data() + key.size(), number).ptr == begin) {
    throw std::runtime_error("there is no number in the key " + key);
  }
  return number;
}

void be_a_node(std::int64_t number, const site& where, durable::scheduler_options how,
               const std::function<void(durable::scheduler&)>& add_handlers) {
  constexpr int pause_ms = 50;
  how.node = name_of_node(number);
  how.on_failure = tell;
  std::unique_ptr<durable::store> store;
  std::optional<durable::scheduler> checks;
  for (const auto end = std::chrono::steady_clock::now() + 60s; !checks;) {  // the server may just be starting
    try {
      store = where.open_store({});
      checks.emplace(*store, how);
      checks->on(probe_kind, [&where, number](durable::transaction& open, const durable::job& what) {
        write_run(*where.within(open), what, open.now().time_since_epoch().count(), number, number_in(what.key()));
      });
      add_handlers(*checks);
      checks->start();
    } catch (const timer_error&) {
      checks.reset();
      if (std::chrono::steady_clock::now() > end) {
        throw;
      }
      if (wait_for_end_of_input(pause_ms)) {
        return;
      }
    }
  }
  while (!wait_for_end_of_input(-1)) {
  }
  constexpr unsigned patience_s = 10;
  ::alarm(patience_s);  // whatever hangs: it does not outlive its parent by more
  checks->stop();
}

std::unique_ptr<site> told_site() {
  std::string store;
  for (char each = 0; ::read(STDIN_FILENO, &each, 1) == 1 && each != '\0';) {
    store.push_back(each);  // no more than that: the end of the input is waited for elsewhere
  }
  return site_of(store);
}

}  // namespace timing_wheel::rig
