#include "durable/postgres/opening.hpp"

#include <poll.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::postgres {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct finish {
  void operator()(PGconn* each) const noexcept { PQfinish(each); }
};
using handle = std::unique_ptr<PGconn, finish>;

// The SQLSTATE in an error of a connection, which has it in its text only: "FATAL:  28P01: password …". Of several
// hosts, the last one's.
std::string sqlstate_in(const std::string& text) {
  const auto is_code = [](char each) { return (each >= '0' && each <= '9') || (each >= 'A' && each <= 'Z'); };
  for (std::size_t at = text.size(); at >= 3; --at) {
    if (text.compare(at - 3, 3, ":  ") == 0 && text.size() > at + 5 && text[at + 5] == ':' &&
        std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(at) + 5,
                    is_code)) {
      return text.substr(at, 5);
    }
  }
  return "08001";
}

// Whether it is a matter of time: no server, one that starts, has no place or is not the one that takes writes.
bool may_pass(const std::string& sqlstate) {
  const std::string group = sqlstate.substr(0, 2);
  return group == "08" || group == "53" || group == "57";
}

// The lines in which the server says where in its source it is have no place in an error.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string each = text.substr(from, end - from);
    if (!each.empty() && !each.starts_with("LOCATION")) {
      line.append(line.empty() ? "" : "; ").append(each);
    }
    from = end + 1;
  }
  return line;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char each : list) {
    each == ',' ? static_cast<void>(parts.emplace_back()) : parts.back().push_back(each);
  }
  return parts;
}

std::string rotated(const std::string& list, std::size_t first) {
  std::vector<std::string> parts = split(list);
  std::rotate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(first % parts.size()), parts.end());
  std::string joined = parts.front();
  std::for_each(parts.begin() + 1, parts.end(), [&](const std::string& each) { joined.append(",").append(each); });
  return joined;
}

bool is_list(const std::string& name) { return name == "host" || name == "hostaddr" || name == "port"; }

milliseconds pause_after(int tries, bool urgent) {
  static thread_local std::minstd_rand random(std::random_device{}());
  const int most = 50 << (urgent ? 0 : std::min(tries, 4));
  return milliseconds(std::uniform_int_distribution<int>(most / 2, most)(random));
}

}  // namespace

struct address::tried {
  handle open;           // or none
  std::string sqlstate;  // why there is none
  std::string text;
  bool silent = false;  // nobody said why
};

address::address(const std::string& conninfo, const connection_rules& rules) {
  char* words = nullptr;
  PQconninfoOption* read = PQconninfoParse(conninfo.c_str(), &words);
  PQfreemem(words);
  if (read == nullptr) {
    throw timer_error(timer_errc::invalid_option, "the connection string cannot be read");
  }
  for (const PQconninfoOption* each = read; each->keyword != nullptr; ++each) {
    const std::string name = each->keyword;
    if (each->val != nullptr && name != "client_encoding") {
      settings_.push_back({name, each->val});
      hosts_ = name.starts_with("host") ? std::max(hosts_, split(each->val).size()) : hosts_;
    }
  }
  PQconninfoFree(read);
  settings_.push_back({"fallback_application_name", "timing_wheel"});
  settings_.push_back({"client_encoding", "UTF8"});
  if (rules.prepare) {
    // With what begins the session: a pooler whose connections others share refuses that, or drops it, which shows.
    const std::string ours = " -c timing_wheel.session=own -c statement_timeout=";
    const std::string all = options_of_user() + ours + std::to_string(rules.statement_timeout.count());
    settings_.erase(
        std::remove_if(settings_.begin(), settings_.end(), [](const setting& each) { return each.name == "options"; }),
        settings_.end());
    settings_.push_back({"options", all});
  }
}

// As libpq finds them: in the string, a service file or the environment. So it is asked, with a server that is nowhere.
std::string address::options_of_user() const {
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const setting& each : settings_) {
    if (!is_list(each.name)) {
      names.push_back(each.name.c_str());
      values.push_back(each.value.c_str());
    }
  }
  for (const auto& [name, value] :
       {std::pair("host", "/dev/null"), std::pair<const char*, const char*>(nullptr, nullptr)}) {
    names.push_back(name);
    values.push_back(value);
  }
  const handle nowhere(PQconnectStartParams(names.data(), values.data(), 0));
  const char* found = nowhere ? PQoptions(nowhere.get()) : nullptr;
  return found == nullptr ? "" : found;
}

std::unique_ptr<connection> address::connect(milliseconds timeout, const connection_rules& rules, bool urgent) const {
  const auto until = steady_clock::now() + timeout;
  tried before;
  for (int tries = 0;; ++tries) {
    // Of several hosts one may be silent, and libpq does not go on by itself: each try begins with another.
    const auto time_for_one = hosts_ == 1 ? timeout : std::max<milliseconds>(timeout / (hosts_ + 1), milliseconds(100));
    tried made =
        try_once(std::min(until, steady_clock::now() + time_for_one), static_cast<std::size_t>(tries) % hosts_);
    if (made.open) {
      return std::make_unique<connection>(made.open.release(), rules);
    }
    // The last try may have had no time for an answer: then the one before knows better why there is none.
    if (made.silent && tries != 0 && steady_clock::now() >= until) {
      fail("connecting", before.sqlstate, before.text);
    }
    const auto pause = pause_after(tries, urgent);
    if (made.text.find("unsupported startup parameter") != std::string::npos) {
      fail("connecting", made.sqlstate, made.text + "; " + behind_a_pooler);
    }
    if (!may_pass(made.sqlstate) || steady_clock::now() + pause >= until) {
      fail("connecting", made.sqlstate, made.text);
    }
    before = std::move(made);
    std::this_thread::sleep_for(pause);
  }
}

std::vector<address::setting> address::settings_from(std::size_t first_host) const {
  std::vector<setting> all = settings_;
  for (setting& each : all) {
    if (is_list(each.name)) {
      each.value = rotated(each.value, first_host);
    }
  }
  return all;
}

address::tried address::try_once(steady_clock::time_point until, std::size_t first_host) const {
  const std::vector<setting> all = settings_from(first_host);
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const setting& each : all) {
    names.push_back(each.name.c_str());
    values.push_back(each.value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  handle trying(PQconnectStartParams(names.data(), values.data(), 0));
  if (!trying) {
    throw std::bad_alloc();
  }
  PQsetErrorVerbosity(trying.get(), PQERRORS_VERBOSE);
  PQsetNoticeProcessor(
      trying.get(), [](void*, const char*) {}, nullptr);
  for (auto wanted = PGRES_POLLING_WRITING; PQstatus(trying.get()) != CONNECTION_BAD;) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    pollfd waiting{PQsocket(trying.get()), static_cast<short>(wanted == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
      const char* host = PQhost(trying.get());
      return {nullptr, "08001", std::string("no answer in time from \"").append(host == nullptr ? "" : host) + "\"",
              true};
    }
    wanted = PQconnectPoll(trying.get());
    if (wanted == PGRES_POLLING_OK) {
      PQsetErrorVerbosity(trying.get(), PQERRORS_DEFAULT);
      return {std::move(trying), {}, {}, false};
    }
    if (wanted == PGRES_POLLING_FAILED) {
      break;
    }
  }
  const std::string text = PQerrorMessage(trying.get());
  return {nullptr, sqlstate_in(text), scrubbed(in_one_line(text), trying.get()), false};
}

// libpq and the server do not repeat a password. It is not left to them.
std::string address::scrubbed(std::string text, const PGconn* of) const {
  std::vector<std::string> secrets;
  for (const setting& each : settings_) {
    if (each.name.find("password") != std::string::npos) {
      secrets.push_back(each.value);
    }
  }
  if (const char* known = PQpass(of); known != nullptr) {
    secrets.emplace_back(known);
  }
  for (const std::string& each : secrets) {
    for (std::size_t at = 0; !each.empty() && (at = text.find(each, at)) != std::string::npos; at += 3) {
      text.replace(at, each.size(), "***");
    }
  }
  return text;
}

}  // namespace timing_wheel::durable::postgres
