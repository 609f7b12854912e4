/// \file
/// Bytes become requests to the handler of `timing-wheel serve`: whatever a client sends has one answer, of a status
/// that docs/desk.md lists and in JSON where it says so; nothing is changed without a token; and the store still works.
///
/// A line of the input is one request: METHOD TARGET FIELDS BODY, apart by tabs. In FIELDS, t sends the token, w a
/// wrong one, o another origin and h another host.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "desk/serve.hpp"
#include "fuzz/input.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace {

using timing_wheel::durable::memory_store;
using timing_wheel::fuzz::expect;
using namespace timing_wheel::desk;  // NOLINT(google-build-using-namespace): what is tested

constexpr const char* own = "127.0.0.1:8080";

// What a request may have changed: all that is kept.
std::string state_of(memory_store& store) {
  std::ostringstream all;
  const auto add = [&](const auto& check) {
    all << check.kind << '\n' << check.key << '\n' << check.payload << '\n' << check.due.time_since_epoch().count();
  };
  store.read_all(add, add);
  all << store.audit(1000).size() << store.paused_kinds().size() << store.drained_nodes().size();
  return all.str();
}

http_request request_of(std::string_view line) {
  std::array<std::string_view, 4> parts;
  for (std::string_view& part : parts) {
    part = line.substr(0, &part == &parts.back() ? line.size() : line.find('\t'));
    line.remove_prefix(std::min(line.size(), part.size() + 1));
  }
  const auto has = [&](char field) { return parts[2].find(field) != std::string_view::npos; };
  http_request asked{.method = std::string(parts[0]),
                     .target = std::string(parts[1]),
                     .host = has('h') ? "evil.example" : own,
                     .origin = has('o') ? "http://evil.example" : "",
                     .authorization = has('t')   ? "Bearer 0123456789abcdef"
                                      : has('w') ? "Bearer 0123456789abcdeg"
                                                 : "",
                     .body = std::string(parts[3])};
  asked.take_host_of_target();
  return asked;
}

void look_at(const http_answer& answer) {
  constexpr std::array known = {200U, 201U, 400U, 401U, 403U, 404U, 405U, 409U, 421U, 503U};
  expect(std::find(known.begin(), known.end(), answer.status) != known.end(), "the status is one that is documented");
  if (answer.status >= 400) {
    const json told = json::parse(answer.body, nullptr, false);
    expect(told.is_object() && told["status"] == answer.status, "an error is a problem of RFC 9457");
  } else if (answer.type == "application/json") {
    expect(json::accept(answer.body), "an answer is JSON");
  }
}

void run(std::string_view lines) {
  timing_wheel::manual_timer timer;
  timer.advance_by(std::chrono::hours(1));
  auto store = std::make_unique<memory_store>(timer);
  memory_store& kept = *store;
  kept.transact([](timing_wheel::durable::store_transaction& open) {
    static_cast<void>(open.schedule({.kind = "close", .key = "a", .payload = "\xFF", .due = std::chrono::hours(1)}));
    const timing_wheel::durable::dead_check dead{.id = 1, .kind = "close", .key = "a", .payload = {}, .error = "no"};
    open.restore({}, {&dead, 1});
  });
  const place where{.store = std::move(store), .type = "memory", .where = "here"};
  options chosen;
  chosen.command = "serve";
  const desk with{chosen, kept, where, std::cin, std::cout, std::cerr};
  const http_api api(with, {{.name = "me", .secret = "0123456789abcdef"}});
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    const http_request asked = request_of(line);
    const std::string before = state_of(kept);
    if (const auto refused = api.refuse(asked, own)) {
      expect(refused->status >= 400, "what is refused is an error");
      look_at(*refused);
    } else if (!http_api::wants_events(asked)) {
      expect(asked.host != "evil.example" && asked.origin.empty(), "a foreign page is refused");
      look_at(api.answer(asked));
      if (asked.method == "GET" || !asked.authorization.ends_with('f')) {
        expect(before == state_of(kept), "nothing is changed by a GET, nor without the token");
      }
    }
  }
  for (const bool whole : {true, false}) {
    expect(json::accept(api.look(whole).body), "the page is told something");
  }
}

}  // namespace

// Called by the fuzzer, which knows it by this name; so there is a declaration, and no naming rule.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run({reinterpret_cast<const char*>(data), size});
  return 0;
}
// NOLINTEND(readability-identifier-naming)
