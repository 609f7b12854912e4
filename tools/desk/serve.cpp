#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <thread>
#include <utility>  // Boost 1.74 needs it, and does not include it

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "common/program.hpp"
#include "common/stop_signal.hpp"
#include "desk/deliver.hpp"
#include "desk/serve.hpp"

namespace timing_wheel::desk {

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using namespace std::chrono_literals;

constexpr std::uint32_t longest_header = 16 * 1024;
constexpr std::uint64_t longest_body = 2 * 1024 * 1024;
constexpr std::size_t most_connections = 128;
constexpr std::size_t most_watchers = 32;
constexpr std::size_t changing_threads = 2;                // fewer than the store has connections, so that looks go on
constexpr int watcher_buffer = 64 * 1024;                  // in the system, of events that a client has not taken
constexpr std::chrono::milliseconds longest_end = 6500ms;  // after SIGTERM, if the store does not answer

constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

class session;

// What the connections share. One thread runs all but the calls of the store.
struct hub {
  hub(const http_api& answers, std::chrono::duration<double> limit)
      : api(answers), time_limit(std::chrono::duration_cast<std::chrono::milliseconds>(limit)) {}

  void begin_looks() {
    if (!looking) {
      look_at(rested);
    }
  }
  // Who watches sees what a client has changed without waiting for the next turn.
  void changed() {
    changed_since_look = true;
    if (!looking && !watchers.empty()) {
      look_at(std::min(pause.expiry(), whole_rested));
    }
  }
  void look();
  void look_at(std::chrono::steady_clock::time_point when);
  void accept(tcp::acceptor& acceptor);
  // Whoever waits for the answer to a change that may have been made gets it, if that takes no longer than a second.
  void stop() {
    stopped = std::chrono::steady_clock::now();
    last_answers.expires_after(1s);
    last_answers.async_wait([this](const error_code& /*error*/) { context.stop(); });
    stop_if_all_have_answers();
  }
  void stop_if_all_have_answers() {
    if (stopped && unanswered == 0) {
      context.stop();
    }
  }

  const http_api& api;
  const std::chrono::milliseconds time_limit;
  std::set<session*> sessions;
  std::size_t unanswered = 0;  // requests that a pool has taken
  std::optional<std::chrono::steady_clock::time_point> stopped;
  std::map<std::uint64_t, session*> without_head;  // those that have not sent the head of a request, the oldest first
  std::uint64_t reads = 0;
  std::vector<std::weak_ptr<session>> watchers;
  bool looking = false;
  bool changed_since_look = false;
  std::chrono::steady_clock::time_point rested{};        // when the store may be looked at again
  std::chrono::steady_clock::time_point whole_rested{};  // with a whole look
  std::chrono::steady_clock::time_point whole_turn{};    // with a whole look, if nothing has changed
  net::io_context context{1};
  net::thread_pool pool{serving_threads};  // for looks
  net::thread_pool changes{changing_threads};
  net::steady_timer pause{context};
  net::steady_timer retry{context};
  net::steady_timer last_answers{context};
};

std::string address_text(const tcp::endpoint& at) {
  const net::ip::address& address = at.address();
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  const std::string host =
      mapped ? net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).to_string() : address.to_string();
  return (address.is_v6() && !mapped ? "[" + host + "]" : host) + ":" + std::to_string(at.port());
}

// The reads of a connection, each of which may belong to an operation of several steps. Once their time is over, a read
// that waits ends, and so does each that is begun later: `cancel` alone leaves an operation that is between two steps.
class timed_reads {
 public:
  using executor_type = beast::tcp_stream::executor_type;

  explicit timed_reads(beast::tcp_stream& of) : of_(of) {}
  executor_type get_executor() { return of_.get_executor(); }

  void begin() { is_over_ = false; }
  void end() {
    is_over_ = true;
    of_.cancel();
  }
  [[nodiscard]] bool is_over() const { return is_over_; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& into, Handler&& handler) {
    if (is_over_) {
      net::post(get_executor(), beast::bind_front_handler(std::forward<Handler>(handler),
                                                          error_code(net::error::timed_out), std::size_t{0}));
    } else {
      of_.async_read_some(into, std::forward<Handler>(handler));
    }
  }

 private:
  beast::tcp_stream& of_;
  bool is_over_ = false;
};

// A connection. When a client takes too long, it gets 408 if it has sent a part of a request. When it takes no answer,
// the stream closes.
class session : public std::enable_shared_from_this<session> {
 private:
  // Keeps the session until the operation is over.
  template <class Work>
  auto then(Work work) {
    return [self = shared_from_this(), work](const error_code& error, std::size_t /*size*/) { work(error); };
  }

 public:
  session(tcp::socket socket, hub& of) : stream_(std::move(socket)), hub_(of) {
    error_code ignored;
    own_ = address_text(stream_.socket().local_endpoint(ignored));
    stream_.socket().set_option(tcp::no_delay(true), ignored);  // NOLINT(bugprone-unused-return-value)
    hub_.sessions.insert(this);
  }
  ~session() {
    hub_.sessions.erase(this);
    hub_.without_head.erase(number_);
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(longest_header);
    parser_->body_limit(longest_body);
    number_ = ++hub_.reads;
    hub_.without_head.emplace(number_, this);
    since_ = std::chrono::steady_clock::now();
    limit_reading();
    read_head();
  }
  void close() { stream_.close(); }

  // Makes room for another client, which may be quicker. \returns whether it does: one that has just come is given some
  // time.
  bool gives_way() {
    constexpr std::chrono::milliseconds patience(100);
    if (std::chrono::steady_clock::now() - since_ < std::min(patience, hub_.time_limit)) {
      return false;
    }
    hub_.without_head.erase(number_);
    close();
    return true;
  }

  // One of the looks, if the client has taken the one before.
  void tell(const std::shared_ptr<const std::string>& text) {
    if (!is_watching_ || telling_) {
      return;
    }
    if (hub_.api.refuse(asked_, own_)) {  // its token has expired
      close();
      return;
    }
    telling_ = text;
    stream_.expires_after(hub_.time_limit);
    net::async_write(stream_, net::buffer(*telling_), then([this](const error_code& error) {
                       telling_.reset();
                       error ? close() : stream_.expires_never();
                     }));
  }

 private:
  // The stream's own limit would close it before the answer.
  void limit_reading() {
    stream_.expires_never();
    reads_.begin();
    is_reading_ = true;
    limit_.expires_after(hub_.time_limit);
    limit_.async_wait([weak = weak_from_this()](const error_code& error) {
      const std::shared_ptr<session> self = error ? nullptr : weak.lock();
      if (self && self->is_reading_ && self->limit_.expiry() <= std::chrono::steady_clock::now()) {
        self->reads_.end();
      }
    });
  }

  // The time of a request begins with its first byte, behind empty lines (RFC 9112, 2.2).
  void read_head() {
    const auto begins_with_empty_line = [this] {
      return std::string_view(static_cast<const char*>(buffer_.data().data()), buffer_.size()).starts_with("\r\n");
    };
    while (begins_with_empty_line()) {
      buffer_.consume(2);
    }
    if (buffer_.size() == 0) {
      reads_.async_read_some(buffer_.prepare(rest_.size()),
                             [self = shared_from_this()](const error_code& error, std::size_t size) {
                               self->buffer_.commit(size);
                               error ? self->fail(error) : self->read_head();
                             });
      return;
    }
    limit_reading();
    http::async_read_header(reads_, buffer_, *parser_, then([this](const error_code& error) { on_header(error); }));
  }

  void on_header(const error_code& error) {
    hub_.without_head.erase(number_);
    if (error) {
      fail(error);
      return;
    }
    const auto& head = parser_->get();
    const auto field = [&](http::field name) { return std::string(head[name]); };
    is_head_ = head.method() == http::verb::head;
    asked_ = {.method = is_head_ ? "GET" : std::string(head.method_string()),
              .target = std::string(head.target()),
              .host = field(http::field::host),
              .origin = field(http::field::origin),
              .authorization = field(http::field::authorization)};
    asked_.take_host_of_target();
    const auto codings = head.count(http::field::transfer_encoding);
    const bool is_chunked = codings == 1 && beast::iequals(head[http::field::transfer_encoding], "chunked");
    if (head.count(http::field::host) != 1) {
      respond(problem(400, "the request has no field Host, or several"), false);
    } else if (codings != 0 && (!is_chunked || head.version() < 11)) {  // where it ends is not known
      respond(problem(501, "the only Transfer-Encoding is chunked, in HTTP/1.1"), false);
    } else if (const std::optional<http_answer> refused = hub_.api.refuse(asked_, own_)) {
      respond(*refused, parser_->is_done());
    } else if (asked_.method == "GET" && !parser_->is_done()) {
      respond(problem(400, "such a request has no body"), false);
    } else if (head.version() >= 11 && beast::iequals(head[http::field::expect], "100-continue")) {
      http::async_write(stream_, go_on_, then([this](const error_code& failed) { failed ? close() : read_body(); }));
    } else {
      read_body();
    }
  }

  void read_body() {
    http::async_read(reads_, buffer_, *parser_, then([this](const error_code& error) { error ? fail(error) : ask(); }));
  }

  void ask() {
    is_reading_ = false;
    asked_.body = std::move(parser_->get().body());
    if (!is_head_ && http_api::wants_events(asked_)) {
      begin_events();
      return;
    }
    if (http_api::asks_no_store(asked_)) {
      respond(hub_.api.answer(asked_), true);
      return;
    }
    ++hub_.unanswered;
    is_unanswered_ = true;
    // Handed back whole: a session ends on the thread of the context.
    net::post(asked_.method == "GET" ? hub_.pool : hub_.changes, [self = shared_from_this()]() mutable {
      hub& of = self->hub_;
      auto got = std::make_shared<http_answer>(of.api.answer(self->asked_));
      net::post(of.context, [self = std::move(self), got] {
        if (self->asked_.method != "GET") {
          self->hub_.changed();
        }
        self->respond(*got, true);
      });
    });
  }

  void fail(const error_code& error) {
    if (reads_.is_over() && (buffer_.size() != 0 || parser_->got_some() || parser_->is_header_done())) {
      respond(problem(408, "the request did not come to its end in time"), false);
    } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      respond(problem(431, "the head of the request is longer than 16 KiB"), false);
    } else if (error == http::error::body_limit) {
      respond(problem(413, "the body is longer than 2 MiB"), false);
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      respond(problem(400, "this is no request of HTTP: " + error.message()), false);
    } else {
      close();
    }
  }

  template <class Message>
  static void set_fields(Message& message, const std::string& type) {
    message.set(http::field::content_type, type);
    message.set(http::field::cache_control, "no-store");
    message.set("Content-Security-Policy", policy);
    message.set("X-Content-Type-Options", "nosniff");
    message.set("Referrer-Policy", "no-referrer");
    message.set("Cross-Origin-Resource-Policy", "same-origin");
    message.set("Cross-Origin-Opener-Policy", "same-origin");
  }

  void respond(const http_answer& with, bool keep) {
    response_ = {};
    response_.result(with.status);
    set_fields(response_, with.type);
    if (with.status == 401) {
      response_.set(http::field::www_authenticate, "Bearer");
    }
    if (!with.allow.empty()) {
      response_.set(http::field::allow, with.allow);
    }
    response_.body() = with.body;
    response_.keep_alive(keep && parser_->get().keep_alive());
    response_.prepare_payload();
    is_reading_ = false;
    if (is_head_) {
      response_.body().clear();
    }
    stream_.expires_after(hub_.time_limit);
    http::async_write(stream_, response_, then([this](const error_code& error) {
                        if (std::exchange(is_unanswered_, false)) {
                          --hub_.unanswered;
                          hub_.stop_if_all_have_answers();
                        }
                        error ? close() : response_.keep_alive() ? read() : end();
                      }));
  }

  void begin_events() {
    std::erase_if(hub_.watchers, [](const auto& each) { return each.expired(); });
    if (hub_.watchers.size() >= most_watchers) {
      respond(problem(503, "too many watch already"), true);
      return;
    }
    hub_.watchers.push_back(weak_from_this());
    limit_events();
    set_fields(events_, "text/event-stream");
    events_.keep_alive(false);  // it ends when the connection does
    stream_.expires_after(hub_.time_limit);
    http::async_write_header(stream_, events_head_, then([this](const error_code& error) {
                               if (error) {
                                 close();
                               } else {
                                 stream_.expires_never();
                                 is_watching_ = true;
                                 hub_.begin_looks();
                                 wait_for_end();
                               }
                             }));
  }

  // The system ends the connection of a client that takes none, or is gone.
  void limit_events() {
    error_code ignored;
    const net::socket_base::send_buffer_size little(watcher_buffer);
    stream_.socket().set_option(little, ignored);  // NOLINT(bugprone-unused-return-value)
#ifdef TCP_USER_TIMEOUT
    const int longest = static_cast<int>(std::max<std::chrono::milliseconds>(hub_.time_limit, 10s).count());
    ::setsockopt(stream_.socket().native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &longest, sizeof longest);
#endif
  }

  // Of a client that watches: it says nothing more, but its end is seen at once.
  void wait_for_end() {
    stream_.socket().async_read_some(net::buffer(rest_),
                                     then([this](const error_code& error) { error ? close() : wait_for_end(); }));
  }

  // Reads what the client still sends, for a while, so that it gets the answer and not a reset.
  void end() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);  // NOLINT(bugprone-unused-return-value)
    const auto longest = std::min<std::chrono::milliseconds>(hub_.time_limit, 2s);
    closes_ = std::chrono::steady_clock::now() + longest;
    stream_.expires_after(longest);
    read_rest();
  }
  void read_rest() {  // the stream's limit ends reads that wait, and that of a client that sends on and on never does
    stream_.async_read_some(net::buffer(rest_), then([this](const error_code& error) {
                              error || std::chrono::steady_clock::now() >= closes_ ? close() : read_rest();
                            }));
  }

  beast::tcp_stream stream_;
  timed_reads reads_{stream_};
  hub& hub_;
  net::steady_timer limit_{hub_.context};
  bool is_reading_ = false;
  std::chrono::steady_clock::time_point since_;
  std::chrono::steady_clock::time_point closes_;
  bool is_unanswered_ = false;
  bool is_watching_ = false;
  std::uint64_t number_ = 0;
  std::string own_;
  beast::flat_buffer buffer_{2 * longest_header};
  std::optional<http::request_parser<http::string_body>> parser_;
  http_request asked_;
  bool is_head_ = false;
  http::response<http::empty_body> go_on_{http::status::continue_, 11};
  http::response<http::string_body> response_;
  http::response<http::empty_body> events_{http::status::ok, 11};
  http::response_serializer<http::empty_body> events_head_{events_};
  std::shared_ptr<const std::string> telling_;
  std::array<char, 4096> rest_{};
};

// Looks once a second for all who watch. Whole looks take no more than half a percent of the time, so that few checks
// are late because of them; after a change, a tenth, as the others. If nobody watches, each step of the history has its
// look.
void hub::look() {
  const bool whole = std::chrono::steady_clock::now() >= (changed_since_look ? whole_rested : whole_turn);
  looking = true;
  changed_since_look = changed_since_look && !whole;
  net::post(pool, [this, whole] {
    const auto begin = std::chrono::steady_clock::now();
    const http_answer seen = api.look(whole);
    auto text = std::make_shared<const std::string>("data: " + seen.body + "\n\n");
    // What has failed has waited most of the time, and the store may be back soon.
    const auto took = seen.status == 200 ? std::chrono::steady_clock::now() - begin : 0s;
    net::post(context, [this, text, took, whole] {
      std::erase_if(watchers, [](const auto& each) { return each.expired(); });
      for (const std::weak_ptr<session>& each : watchers) {
        if (const std::shared_ptr<session> watcher = each.lock()) {
          watcher->tell(text);
        }
      }
      looking = false;
      using duration = std::chrono::steady_clock::duration;
      const auto now = std::chrono::steady_clock::now();
      const auto step = std::max<duration>(wait_history::step - 1s - took, 9 * took);
      rested = now + std::max<duration>(1s - took, whole ? 0s : 9 * took);
      if (whole) {
        whole_rested = std::max(rested, now + 9 * took);
        whole_turn = std::max(rested, now + std::min<duration>(199 * took, step));
      }
      const auto turn = watchers.empty() ? now + step : rested;
      look_at(changed_since_look && !watchers.empty() ? std::min(turn, whole_rested) : turn);
    });
  });
}

void hub::look_at(std::chrono::steady_clock::time_point when) {
  pause.expires_at(when);
  pause.async_wait([this](const error_code& error) {
    if (!error && !looking) {  // a wait that was over when another one took its place is not cancelled
      look();
    }
  });
}

// When one more client comes than there may be, the one that has been silent for longest goes; if each has sent a
// request, the next ones wait in the system's queue.
void hub::accept(tcp::acceptor& acceptor) {
  acceptor.async_wait(tcp::acceptor::wait_read, [this, &acceptor](const error_code& /*error*/) {
    if (!acceptor.is_open()) {
      return;
    }
    tcp::socket accepted(context);
    error_code error = net::error::try_again;
    if (sessions.size() < most_connections) {
      acceptor.accept(accepted, error);  // NOLINT(bugprone-unused-return-value)
    } else if (!without_head.empty() && without_head.begin()->second->gives_way()) {
      net::post(context, [this, &acceptor] { accept(acceptor); });  // behind the end of the other one
      return;
    }
    if (!error) {
      std::make_shared<session>(std::move(accepted), *this)->read();
      accept(acceptor);
      return;
    }
    retry.expires_after(20ms);
    retry.async_wait([this, &acceptor](const error_code& /*error*/) { accept(acceptor); });
  });
}

tcp::endpoint read_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  error_code error;
  const net::ip::address address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() < 6 && port.find_first_not_of("0123456789") == std::string::npos;
  if (error || !is_number || std::stoul(port) > 65535) {
    throw failure(exit_status::usage,
                  "--listen: '" + one_line(text) + "' is no address and port, such as 127.0.0.1:8080 or [::1]:8080");
  }
  return {address, static_cast<std::uint16_t>(std::stoul(port))};
}

void stop_when_asked(hub& of, net::steady_timer& timer) {
  timer.expires_after(50ms);
  timer.async_wait(
      [&of, &timer](const error_code& /*error*/) { common::stop_asked() ? of.stop() : stop_when_asked(of, timer); });
}

// Calls of a store that is away may wait for many seconds, and nothing comes of them: as if the process were killed.
[[noreturn]] void end_without_store(std::ostream& err, bool delivers) {
  err << common::program_name("timing-wheel") << ": the store does not answer"
      << (delivers ? ": checks under way run again when their leases have ended" : "") << std::endl;
  std::_Exit(0);
}

}  // namespace

std::vector<access_token> read_tokens(const std::string& file) {
  constexpr std::size_t shortest = 16;
  std::vector<access_token> tokens;
  std::ifstream in(file);
  if (!in) {
    throw failure(exit_status::usage, "--token-file: cannot read " + one_line(file, 300));
  }
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line);
    access_token read;
    std::string until;
    std::string more;
    if (!(words >> read.name) || read.name.starts_with('#')) {
      continue;
    }
    const bool is_token = words >> read.secret && read.secret.size() >= shortest && is_text(read.name);
    words >> until >> more;
    if (!is_token || !more.empty() || (!until.empty() && !until.ends_with('Z'))) {
      throw failure(exit_status::usage, "--token-file: line " + std::to_string(number) +
                                            " is no name and token, with at least 16 characters in the token, and "
                                            "perhaps its end, such as 2026-11-23T18:00:00Z");
    }
    if (!until.empty()) {
      read.until = read_time("--token-file: line " + std::to_string(number), until, {});
    }
    tokens.push_back(std::move(read));
  }
  if (tokens.empty()) {
    throw failure(exit_status::usage, "--token-file: there is no token in " + one_line(file, 300));
  }
  return tokens;
}

exit_status serve(const desk& with) {
  const tcp::endpoint at = read_address(with.chosen.listen);
  std::vector<access_token> tokens;
  if (!with.chosen.token_file.empty()) {
    tokens = read_tokens(with.chosen.token_file);
  } else if (!at.address().is_loopback()) {
    throw failure(exit_status::usage, "--listen: an address that other machines reach needs --token-file, too");
  } else if (!with.chosen.hosts.empty()) {
    throw failure(exit_status::usage,
                  "--host: a name by which other machines may reach this one needs --token-file, too");
  }
  if (with.store.plan_migration().from.empty()) {
    throw failure(exit_status::no_store,
                  "there are no tables of durable checks; timing-wheel migrate --create makes them");
  }
  const http_api api(with, std::move(tokens));
  hub all(api, std::chrono::duration<double>(with.chosen.time_limit));
  tcp::acceptor acceptor(all.context);
  try {
    acceptor.open(at.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(at);
    acceptor.listen();
    acceptor.non_blocking(true);
  } catch (const boost::system::system_error& error) {
    throw failure(exit_status::refused, "cannot listen on " + address_text(at) + ": " + error.code().message());
  }
  common::stop_on_signals();
#ifdef TIMING_WHEEL_DESK_WEBHOOKS
  std::optional<delivery> webhooks;
  if (!with.chosen.deliver.empty()) {
    webhooks.emplace(with.chosen, with.err).start();
  }
#endif
  with.out << "http://" << address_text(acceptor.local_endpoint()) << "/" << std::endl;
  net::steady_timer timer(all.context);
  stop_when_asked(all, timer);
  all.accept(acceptor);
  all.look();
  all.context.run();
  acceptor.close();  // webhooks under way may go on for a while, and nobody answers clients meanwhile
  for (session* const each : all.sessions) {
    each->close();
  }
#ifdef TIMING_WHEEL_DESK_WEBHOOKS
  if (webhooks && !webhooks->stop()) {
    end_without_store(with.err, true);
  }
#endif
  for (net::thread_pool* const each : {&all.pool, &all.changes}) {
    each->stop();  // what has not begun has nobody who waits for it
  }
  std::packaged_task<void()> rest([&] {
    all.pool.join();
    all.changes.join();
#ifdef TIMING_WHEEL_DESK_WEBHOOKS
    webhooks.reset();
#endif
  });
  std::future<void> over = rest.get_future();
  std::thread waits(std::move(rest));
  if (over.wait_until(std::max(*all.stopped + longest_end, std::chrono::steady_clock::now() + 3s)) !=
      std::future_status::ready) {
    end_without_store(with.err, !with.chosen.deliver.empty());
  }
  waits.join();
  return exit_status::done;
}

}  // namespace timing_wheel::desk
