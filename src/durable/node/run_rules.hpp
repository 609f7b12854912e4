#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>

#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// What a node has to know of a kind.
struct kind_rules {
  std::string name;
  bool transactional = false;
  handler_options options;
};

/// What runs the jobs of a kind. Copies share it, so that copying needs no memory: libstdc++ 12 takes a variant of
/// std::function for one that always has a value, also when a copy was refused.
class any_handler {
 public:
  template <class Handler>
  any_handler(Handler handler)  // NOLINT(google-explicit-constructor): it is one
      : which_(std::make_shared<const Handler>(std::move(handler))) {}

  /// Null if it is of another sort.
  template <class Handler>
  [[nodiscard]] const Handler* get() const noexcept {
    const auto* const mine = std::get_if<std::shared_ptr<const Handler>>(&which_);
    return mine == nullptr ? nullptr : mine->get();
  }

 private:
  std::variant<std::shared_ptr<const leased_handler>, std::shared_ptr<const transactional_handler>,
               std::shared_ptr<const batch_handler>>
      which_;
};

/// What a handler of the kind is given for a claim.
[[nodiscard]] job job_of(const kind_rules& kind, const claimed& one, std::stop_token stop);

/// What is to become of a run.
struct ending {
  outcome::verdict what = outcome::verdict::done;  ///< `retry` becomes `dead` after as many attempts as allowed.
  instant due{};                                   ///< Of a retry.
  std::string reason;                              ///< Empty if there was no memory for it.
  bool began = true;                               ///< False: the claim is given back.
  bool counts = true;                              ///< False: a retry that is no attempt.
  instant not_before{};                            ///< This node does not ask for the row again before that.
};

/// Bytes of a reason that a node keeps.
inline constexpr std::size_t longest_reason = 65536;

/// The first `longest` bytes of a reason, or fewer, so that UTF-8 stays that; empty if there is no memory for it.
[[nodiscard]] std::string copy_of(const std::string& reason, std::size_t longest = longest_reason) noexcept;

/// Decides how the run that is the `attempt`-th of its check ends, if its handler has `said` that.
[[nodiscard]] ending decide(const handler_options& options, int attempt, const outcome& said, instant now,
                            std::minstd_rand& random) noexcept;

/// How long a check waits at most after a run that asked for a retry; none if it dies.
[[nodiscard]] std::optional<std::chrono::microseconds> longest_pause(const handler_options& options, int attempt,
                                                                     const outcome& said) noexcept;

/// Whether a claim is one too many: the run before did not end the row, because it ended without a word, or because
/// more were allowed then.
[[nodiscard]] bool exhausted(const handler_options& options, int attempt) noexcept;

/// Whether the row may be one that kills its process: see `machine`, "Suspects".
[[nodiscard]] bool suspicious(const kind_rules& kind, const upcoming& what) noexcept;

}  // namespace timing_wheel::durable
