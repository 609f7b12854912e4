#include "desk/deliver.hpp"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/duration.hpp"
#include "desk/commands.hpp"
#include "desk/place.hpp"
#include "desk/text.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::desk {

namespace {

using namespace std::chrono_literals;
using durable::job;
using std::chrono::steady_clock;

constexpr std::size_t most_threads = 1024;
constexpr std::size_t shortest_key = 24;  // as the standard has it
constexpr std::size_t longest_file = 1'048'576;
constexpr std::size_t longest_answer = 65'536;            // what comes behind it is not read
constexpr std::size_t longest_quote = 200;                // of an answer, in an error
constexpr std::chrono::seconds longest_retry_after = 6h;  // as later versions of libcurl have it
constexpr std::chrono::seconds slowest_store = 10s;       // to take the ends, if it does not fail
constexpr std::chrono::seconds patience = 4s;  // for what is under way when the node stops, and a second or two

// Who gets the checks of a kind, as the file names it.
struct receiver {
  std::string kind;
  std::string url;
  std::vector<std::string> keys;
  std::string authorities;  // a file of certificates; empty: those of the system
  std::chrono::milliseconds time_limit = 30s;
  std::size_t max_running = 8;
  int max_attempts = 20;
};

[[noreturn]] void refuse(const std::string& why) { throw failure(exit_status::usage, "--deliver: " + why); }

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(longest_file + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));  // of a folder it reads nothing, and is bad
  if (!in.is_open() || in.bad()) {
    refuse(one_line(file.string(), 300) + " cannot be read");
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > longest_file) {
    refuse(one_line(file.string(), 300) + " is longer than 1 MiB");
  }
  return text;
}

std::vector<std::string> read_keys(const std::filesystem::path& file) {
  constexpr std::string_view prefix = "whsec_";
  std::vector<std::string> keys;
  std::istringstream words(read_text(file));
  for (std::string word; words >> word;) {
    const std::optional<std::string> key =
        word.starts_with(prefix) ? from_base64(std::string_view(word).substr(prefix.size())) : std::nullopt;
    if (!key || key->size() < shortest_key) {
      refuse(one_line(file.string(), 300) +
             " has a word that is not whsec_ and the base64 of a key of 24 bytes or more");
    }
    keys.push_back(*key);
  }
  if (keys.empty()) {
    refuse("there is no key in " + one_line(file.string(), 300));
  }
  return keys;
}

bool is_web_address(const std::string& text) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  char* scheme = nullptr;
  const bool is_url = curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK &&
                      curl_url_get(url.get(), CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK;
  const bool fits = is_url && (std::string_view(scheme) == "http" || std::string_view(scheme) == "https");
  curl_free(scheme);
  return fits;
}

// A member of a kind in the file.
struct member {
  std::string where;
  const json& value;
  const std::filesystem::path& folder;

  [[nodiscard]] std::string text() const {
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      refuse(where + " is no text");
    }
    return value;
  }
  [[nodiscard]] std::string address() const {
    if (!is_web_address(text())) {  // which may have a password
      refuse(where + " is no address that begins with http:// or https://");
    }
    return text();
  }
  [[nodiscard]] std::filesystem::path file() const { return folder / text(); }
  [[nodiscard]] int number(int most) const {
    if (!value.is_number_integer() || value < 1 || value > most) {
      refuse(where + " is no number from 1 to " + std::to_string(most));
    }
    return value;
  }
  [[nodiscard]] std::chrono::milliseconds time() const {
    std::chrono::milliseconds read{};
    try {
      read = std::chrono::floor<std::chrono::milliseconds>(common::read_duration(text()));
    } catch (const common::duration_error& error) {
      refuse(where + ": " + error.what());
    }
    if (read < 1ms || read > 1h) {
      refuse(where + " is not from 1ms to 1h");
    }
    return read;
  }
};

receiver read_receiver(const std::string& kind, const json& members, const std::filesystem::path& folder) {
  const std::string which = "kind " + one_line(kind);
  if (!members.is_object()) {
    refuse(which + " is no object");
  }
  receiver one;
  one.kind = kind;
  for (const auto& [name, value] : members.items()) {
    const member each{which + ": " + one_line(name), value, folder};
    if (name == "url") {
      one.url = each.address();
    } else if (name == "key_file") {
      one.keys = read_keys(each.file());
    } else if (name == "ca_file") {
      one.authorities = each.file();
      static_cast<void>(read_text(each.file()));
    } else if (name == "time_limit") {
      one.time_limit = each.time();
    } else if (name == "max_running") {
      one.max_running = static_cast<std::size_t>(each.number(most_threads));
    } else if (name == "max_attempts") {
      one.max_attempts = each.number(1'000'000);
    } else {
      refuse(each.where + " is not known; there are url, key_file, ca_file, time_limit, max_running and max_attempts");
    }
  }
  if (one.url.empty() || one.keys.empty()) {
    refuse(which + " needs url and key_file");
  }
  return one;
}

// How many may run at a time.
std::size_t requests_of(const std::vector<receiver>& receivers) {
  return std::accumulate(receivers.begin(), receivers.end(), std::size_t{0},
                         [](std::size_t sum, const receiver& each) { return sum + each.max_running; });
}

std::vector<receiver> read_receivers(const std::string& file) {
  const std::filesystem::path path(file);
  json read;
  std::set<std::string> twice;
  try {
    std::set<std::string> seen;
    read = json::parse(read_text(path), [&](int depth, json::parse_event_t event, const json& name) {
      if (depth == 1 && event == json::parse_event_t::key && !seen.insert(name).second) {
        twice.insert(name);
      }
      return true;
    });
  } catch (const json::parse_error& error) {  // its words have a part of the file, such as a password
    refuse(one_line(file, 300) + " is no JSON at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    refuse(one_line(file, 300) + " is no JSON: it has a number that is too large");
  }
  if (!read.is_object() || read.empty() || !twice.empty()) {
    refuse(one_line(file, 300) + (twice.empty() ? " has no object with a member for each kind"
                                                : " names the kind " + one_line(*twice.begin()) + " twice"));
  }
  std::vector<receiver> all;
  for (const auto& [kind, members] : read.items()) {
    all.push_back(read_receiver(kind, members, path.parent_path()));
  }
  if (requests_of(all) > most_threads) {
    refuse("the kinds have more than 1024 max_running in all");
  }
  return all;
}

struct fields {
  fields() = default;
  fields(const fields&) = delete;
  fields& operator=(const fields&) = delete;
  ~fields() { curl_slist_free_all(list); }

  void add(const std::string& line) {
    curl_slist* const longer = curl_slist_append(list, line.c_str());
    if (longer == nullptr) {
      throw std::bad_alloc();
    }
    list = longer;
  }

  curl_slist* list = nullptr;
};

std::string percent_encoded(const std::string& bytes) {
  char* const text = curl_easy_escape(nullptr, bytes.data(), static_cast<int>(bytes.size()));
  if (text == nullptr) {
    throw std::bad_alloc();
  }
  std::string encoded = text;
  curl_free(text);
  return encoded;
}

// The same in all runs of a check, and without a full stop, as the standard has it.
std::string id_of(const job& what) {
  std::string id = percent_encoded(what.kind()) + "/" + percent_encoded(what.key()) + "/" + std::to_string(what.id());
  for (std::size_t at = 0; (at = id.find('.', at)) != std::string::npos;) {
    id.replace(at, 1, "%2E");
  }
  return id;
}

std::string body_of(const job& what) {
  json body;
  set_kind(body, what.kind());
  set_bytes(body, "key", what.key());
  body["id"] = what.id();
  body["due"] = time_text(what.due());
  body["attempt"] = what.attempt();
  body["fence"] = what.fence();
  set_bytes(body, "payload", what.payload());
  return text_of(body);
}

// The field `webhook-signature` of Standard Webhooks 1.0, with each of the keys.
std::string signature_of(const std::vector<std::string>& keys, std::string_view id, std::string_view timestamp,
                         std::string_view body) {
  std::string content(id);
  content.append(".").append(timestamp).append(".").append(body);
  std::string all;
  for (const std::string& key : keys) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest.data(), &size) == nullptr) {
      throw std::runtime_error("OpenSSL has no SHA-256");
    }
    all.append(all.empty() ? "v1," : " v1,").append(to_base64({reinterpret_cast<const char*>(digest.data()), size}));
  }
  return all;
}

// What the requests share.
struct traffic {
  std::atomic<int> requests = 0;   // under way; the scheduler learns of their ends when the store answers
  std::atomic<bool> ends = false;  // the node stops; the scheduler's own token says so when the store answers
};

// A request that is under way.
struct exchange {
  exchange(const std::stop_token& asked, traffic& others) : stop(asked), all(others) { ++all.requests; }
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  ~exchange() { --all.requests; }

  const std::stop_token& stop;
  traffic& all;
  std::optional<steady_clock::time_point> last = {};  // it ends then, since the node stops
  std::string answer = {};
  bool is_cut = false;
  bool has_head = false;

  static std::size_t on_data(const char* data, std::size_t /*one*/, std::size_t size, void* of) {
    exchange& self = *static_cast<exchange*>(of);
    self.answer.append(data, size);
    self.is_cut = self.answer.size() > longest_answer;
    return self.is_cut ? 0 : size;
  }
  // To libcurl, an answer that ends within its head is whole.
  static std::size_t on_head(const char* data, std::size_t /*one*/, std::size_t size, void* of) {
    const std::string_view line(data, size);
    exchange& self = *static_cast<exchange*>(of);
    self.has_head = !line.starts_with("HTTP/") && (self.has_head || line == "\r\n" || line == "\n");
    return size;
  }
  // At least once a second.
  static int on_progress(void* of, curl_off_t /*a*/, curl_off_t /*b*/, curl_off_t /*c*/, curl_off_t /*d*/) {
    exchange& self = *static_cast<exchange*>(of);
    if (!self.all.ends && !self.stop.stop_requested()) {
      return 0;
    }
    const auto now = steady_clock::now();
    self.last = self.last.value_or(now + patience);
    return now < *self.last ? 0 : 1;
  }
};

// NOLINTBEGIN(cppcoreguidelines-pro-type-vararg): curl_easy_setopt
void set_options(CURL* curl, const receiver& to, exchange& with) {
  curl_easy_setopt(curl, CURLOPT_URL, to.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // else a look-up of the host would go on beyond the time limit
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "timing-wheel/" TIMING_WHEEL_VERSION);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(to.time_limit.count()));
  if (!to.authorities.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, to.authorities.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &exchange::on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &with);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &exchange::on_head);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &with);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &exchange::on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &with);
}

void set_message(CURL* curl, const receiver& to, const job& what, const std::string& body, fields& head) {
  const std::string id = id_of(what);
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const std::string sent = std::to_string(std::chrono::floor<std::chrono::seconds>(since_epoch).count());
  head.add("content-type: application/json");
  head.add("connection: close");
  head.add("expect:");
  head.add("webhook-id: " + id);
  head.add("webhook-timestamp: " + sent);
  head.add("webhook-signature: " + signature_of(to.keys, id, sent, body));
  head.add("timing-wheel-kind: " + percent_encoded(what.kind()));
  head.add("timing-wheel-key: " + percent_encoded(what.key()));
  head.add("timing-wheel-attempt: " + std::to_string(what.attempt()));
  head.add("timing-wheel-fence: " + std::to_string(what.fence()));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, head.list);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
}

// What becomes of a check that was answered. A failure that may pass is thrown, so that the node tells of it.
durable::outcome outcome_of(CURL* curl, const job& what, const std::string& answer) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) {
    return durable::done;
  }
  std::string reason = "the receiver has answered " + std::to_string(status);
  reason += answer.empty() ? "" : ": " + one_line(answer, longest_quote);
  if (status == 409 || status == 410) {
    return durable::dead(std::move(reason));
  }
  curl_off_t wait = 0;
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
  if ((status == 429 || status == 503) && wait > 0) {
    // Not sooner than without the field, or a short time would use up the runs.
    const std::chrono::seconds least(std::int64_t{1} << std::min(what.attempt() - 1, 9));
    return durable::retry_after(std::clamp(std::chrono::seconds(wait), least, longest_retry_after), std::move(reason));
  }
  throw std::runtime_error(reason);
}

durable::outcome post(const receiver& to, const job& what, traffic& all) {
  exchange with(what.stop_token(), all);
  fields head;
  const std::string body = body_of(what);
  std::array<char, CURL_ERROR_SIZE> words{};
  // A connection of its own: on one that was used before, libcurl may send a request twice.
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(), &curl_easy_cleanup);
  if (!handle) {
    throw std::bad_alloc();
  }
  CURL* const curl = handle.get();
  set_options(curl, to, with);
  set_message(curl, to, what, body, head);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words.data());
  const CURLcode result = curl_easy_perform(curl);
  if (result == CURLE_ABORTED_BY_CALLBACK) {
    return durable::snooze(0s);
  }
  if (result != CURLE_OK && !with.is_cut) {
    throw std::runtime_error(std::string("no answer: ") +
                             (words[0] != '\0' ? words.data() : curl_easy_strerror(result)));
  }
  if (!with.has_head) {
    throw std::runtime_error("no answer: it has ended within its head");
  }
  return outcome_of(curl, what, with.answer);
}
// NOLINTEND(cppcoreguidelines-pro-type-vararg)

durable::scheduler_options options_for(const options& chosen, std::size_t requests) {
  durable::scheduler_options wanted;
  wanted.node = chosen.node.empty() ? "webhooks-" + host_name() + "-" + std::to_string(::getpid()) : chosen.node;
  wanted.lease = std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(chosen.lease));
  wanted.wait_for_store = true;
  wanted.threads = static_cast<unsigned>(requests);  // so that a receiver that hangs holds up no other one
  wanted.max_claimed += wanted.threads;              // those that hang leave room for other kinds
  wanted.max_claimed_bytes += wanted.threads * durable::request_limits{}.payload;
  return wanted;
}

bool only_reads(const timer_error& error) {
  const std::string_view database = error.code().category().name();
  if (database == "sqlite") {
    constexpr int sqlite_readonly = 8;
    return (error.code().value() & 0xff) == sqlite_readonly;
  }
  const std::string words = error.code().message();         // which end with the SQLSTATE
  const std::array refusals = {"25006", "0A000", "42501"};  // a standby, or a role without rights
  return database == "postgres" &&
         std::any_of(refusals.begin(), refusals.end(), [&](const char* state) { return words.ends_with(state); });
}

// What else may be wrong with it may pass, so that the node goes on.
void require_writes(durable::store& store) {
  try {
    store.transact_within({.lock_wait = 1s}, [](durable::store_transaction& open) {
      const std::int64_t nobody = -1;
      open.delete_dead({&nobody, 1});
    });
  } catch (const timer_error& error) {
    if (only_reads(error)) {
      throw failure(exit_status::no_store,
                    "--deliver: a server that delivers checks writes to the store, and this "
                    "store can only be read: " +
                        one_line(error.what(), 300));
    }
  }
}

// A request has up to six files: its connection, and what libcurl wakes itself and looks names up with. Without a file
// it could not connect, and the server could take no client.
void allow_files(std::size_t requests) {
  const rlim_t needed = 6 * requests + 256;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed) {
    return;
  }
  if (files.rlim_max < needed) {
    refuse(std::to_string(requests) + " max_running in all need " + std::to_string(needed) +
           " open files, and the system allows " + std::to_string(files.rlim_max) + " (ulimit -n)");
  }
  files.rlim_cur = needed;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

}  // namespace

class delivery::node {
 public:
  node(const options& chosen, std::ostream& err)
      : receivers_(read_receivers(chosen.deliver)),
        where_(open_place(chosen)),
        checks_(*where_.store, options_for(chosen, requests_of(receivers_))),
        err_(err) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      refuse("libcurl does not begin");
    }
    require_writes(*where_.store);
    allow_files(requests_of(receivers_));
    std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): of a connection that a receiver has closed
    for (const receiver& each : receivers_) {
      checks_.on(each.kind, [this, &each](const job& what) { return post(each, what, requests_); },
                 {.max_running = each.max_running, .max_attempts = each.max_attempts});
    }
  }

  void start() {
    checks_.start();
    for (const receiver& each : receivers_) {
      err_ << "delivers the checks of kind " << one_line(each.kind) << std::endl;
    }
  }

  bool stop() {
    const std::uint64_t failures = checks_.stats().failures;
    requests_.ends = true;
    const auto stop_within = [&](std::chrono::milliseconds time) { return checks_.stop(steady_clock::now() + time); };
    bool is_over = stop_within(patience + 1500ms).finished;
    while (!is_over && requests_.requests > 0) {  // they end by themselves, later if the machine is slow
      is_over = stop_within(500ms).finished;
    }
    const steady_clock::time_point last = steady_clock::now() + slowest_store;
    while (!is_over && checks_.stats().failures == failures && steady_clock::now() < last) {
      is_over = stop_within(500ms).finished;
    }
    return is_over || stop_within(1s).finished;
  }

 private:
  // The scheduler's destructor waits for its handlers, which use the receivers, and for its calls of the store.
  std::vector<receiver> receivers_;
  traffic requests_;
  place where_;
  durable::scheduler checks_;
  std::ostream& err_;
};

delivery::delivery(const options& chosen, std::ostream& err) : node_(std::make_unique<node>(chosen, err)) {}

delivery::~delivery() = default;

void delivery::start() { node_->start(); }

bool delivery::stop() { return node_->stop(); }

}  // namespace timing_wheel::desk
