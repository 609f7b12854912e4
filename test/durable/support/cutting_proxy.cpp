#include "durable/support/cutting_proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

namespace timing_wheel::test {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

std::uint32_t number_at(std::string_view bytes, std::size_t place) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return ntohl(number);
}

// The text up to the next zero byte, which is taken off.
std::string take_text(std::string_view& bytes) {
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  std::string text(bytes.substr(0, end));
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return text;
}

bool alike(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Requests in the place of the protocol's version.
constexpr std::uint32_t asks_for_tls = 80877103;
constexpr std::uint32_t asks_for_gss = 80877104;

// Writes as much as there is room for. \returns false if nobody reads.
bool write_to(int where, std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(where, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    bytes.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

/// A client and its connection to the server.
class cutting_proxy::link {
 public:
  link(cutting_proxy& owner, int client, int server) : owner_(owner), client_(client), server_(server) {}
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  ~link() {
    close(client_);
    close(server_);
  }

  [[nodiscard]] bool over() const { return over_; }

  void ask(std::vector<pollfd>& all) const {
    const auto events = [](bool read, bool write) {
      return static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0));
    };
    all.push_back({client_, events(!ending_, !to_client_.empty()), 0});
    all.push_back({server_, events(!ending_, !to_server_.empty()), 0});
  }

  void work() {
    if (!ending_) {
      std::string bytes;
      ending_ = !read_from(client_, bytes);
      from_client_ += bytes;
      read_messages();
      bytes.clear();
      ending_ = !read_from(server_, bytes) || ending_;
      from_server_ += bytes;
      read_answers();
    }
    if (over_) {
      return;
    }
    const bool written = write_to(server_, to_server_) && write_to(client_, to_client_);
    over_ = !written || (ending_ && to_server_.empty() && to_client_.empty());
  }

 private:
  static bool read_from(int where, std::string& bytes) {
    std::array<char, 65536> room{};
    const ssize_t got = recv(where, room.data(), room.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes.assign(room.data(), static_cast<std::size_t>(got));
    }
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void read_messages() {
    while (!over_) {
      const std::size_t head = started_ ? 1 : 0;  // the first message has no type
      if (from_client_.size() < head + 4) {
        return;
      }
      const std::size_t size = head + number_at(from_client_, head);
      if (from_client_.size() < size) {
        return;
      }
      if (!started_) {
        begin(size);
      } else if (!message(from_client_.front(), std::string_view(from_client_).substr(5, size - 5))) {
        return;  // it stays where it is
      } else {
        forward(size);
      }
    }
  }

  void forward(std::size_t size) {
    to_server_.append(from_client_, 0, size);
    from_client_.erase(0, size);
  }

  void begin(std::size_t size) {
    const std::uint32_t code = size >= 8 ? number_at(from_client_, 4) : 0;
    if (code == asks_for_tls || code == asks_for_gss) {
      to_client_ += 'N';
      from_client_.erase(0, size);
      return;
    }
    started_ = true;
    unanswered_ = 1;  // the server says that it is ready
    forward(size);
  }

  /// \returns whether it is to be forwarded.
  bool message(char type, std::string_view rest) {
    bool forwarded = true;
    if (type == 'Q') {
      forwarded = statement(take_text(rest));
    } else if (type == 'P') {
      const std::string name = take_text(rest);
      prepared_[name] = take_text(rest);
    } else if (type == 'B') {
      const std::string portal = take_text(rest);
      bound_[portal] = prepared_[take_text(rest)];
    } else if (type == 'E') {
      forwarded = statement(bound_[take_text(rest)]);
    }
    if (forwarded && (type == 'Q' || type == 'S')) {
      ++unanswered_;
      synced_ = true;
    }
    return forwarded;
  }

  bool statement(const std::string& text) {
    const std::optional<fault> what = owner_.look_at(text);
    if (!what) {
      return true;
    }
    if (*what == fault::cut_before) {
      ++owner_.faults_;
      over_ = true;
      return false;
    }
    cuts_after_ = true;
    synced_ = false;  // the one that belongs to this statement is still to come
    return true;
  }

  // Each question ends with one answer of this type.
  void read_answers() {
    std::size_t size = 0;
    while (from_server_.size() >= size + 5) {
      const std::size_t next = size + 1 + number_at(from_server_, size + 1);
      if (from_server_.size() < next) {
        break;
      }
      unanswered_ -= from_server_[size] == 'Z' ? 1 : 0;
      size = next;
    }
    if (!cuts_after_) {
      to_client_.append(from_server_, 0, size);
    } else if (synced_ && unanswered_ == 0) {
      over_ = true;
      ++owner_.faults_;
    }
    from_server_.erase(0, size);
  }

  cutting_proxy& owner_;
  const int client_;
  const int server_;
  std::string from_client_;  // not read yet
  std::string from_server_;
  std::string to_client_;
  std::string to_server_;
  std::map<std::string, std::string> prepared_;
  std::map<std::string, std::string> bound_;
  bool cuts_after_ = false;  // at the answer, which is thrown away
  int unanswered_ = 0;
  bool started_ = false;
  bool synced_ = false;
  bool ending_ = false;
  bool over_ = false;
};

cutting_proxy::cutting_proxy(std::string server) : server_(std::move(server)) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    fail("no pipe");
  }
  wake_out_ = ends[0];
  wake_in_ = ends[1];
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  if (listener_ < 0 || bind(listener_, any, size) != 0 || listen(listener_, 128) != 0 ||
      getsockname(listener_, any, &size) != 0) {
    fail("no port on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

cutting_proxy::~cutting_proxy() {
  stop_ = true;
  wake();
  thread_.join();
  links_.clear();
  close(listener_);
  close(wake_in_);
  close(wake_out_);
}

std::string cutting_proxy::conninfo() const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=postgres dbname=postgres";
}

void cutting_proxy::plan(fault what, matcher which, int nth) {
  const std::scoped_lock lock(mutex_);
  rule_ = rule{what, std::move(which), nth};
}

std::vector<std::string> cutting_proxy::statements() const {
  const std::scoped_lock lock(mutex_);
  return statements_;
}

void cutting_proxy::wake() const { static_cast<void>(write(wake_in_, "", 1)); }

std::optional<cutting_proxy::fault> cutting_proxy::look_at(std::string_view statement) {
  const std::scoped_lock lock(mutex_);
  statements_.emplace_back(statement);
  if (!rule_ || !rule_->which(statement) || --rule_->nth > 0) {
    return std::nullopt;
  }
  return std::exchange(rule_, std::nullopt)->what;
}

void cutting_proxy::take_connection() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) {
    return;
  }
  const int at_once = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  server_.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const any = reinterpret_cast<sockaddr*>(&address);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  if (server < 0 || connect(server, any, sizeof address) != 0) {
    close(server);
    close(client);
    return;
  }
  links_.push_back(std::make_unique<link>(*this, client, server));
}

void cutting_proxy::run() {
  while (!stop_) {
    std::vector<pollfd> all = {{wake_out_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& each : links_) {
      each->ask(all);
    }
    poll(all.data(), all.size(), 1000);
    std::array<char, 64> ignored{};
    while (read(wake_out_, ignored.data(), ignored.size()) > 0) {
    }
    for (const auto& each : links_) {
      each->work();
    }
    std::erase_if(links_, [](const auto& each) { return each->over(); });
    if ((all[1].revents & POLLIN) != 0) {
      take_connection();
    }
  }
}

cutting_proxy::matcher begins_with(std::string word) {
  return [word = std::move(word)](std::string_view statement) {
    return statement.size() >= word.size() && std::equal(word.begin(), word.end(), statement.begin(), alike);
  };
}

cutting_proxy::matcher has(std::string words) {
  return [words = std::move(words)](std::string_view statement) {
    return std::search(statement.begin(), statement.end(), words.begin(), words.end(), alike) != statement.end();
  };
}

}  // namespace timing_wheel::test
