#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "desk/options.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::desk {

/// So many calls of the store run at a time, under `serve`.
inline constexpr std::size_t serving_threads = 4;

/// The store that was named.
struct place {
  std::unique_ptr<durable::store> store;
  std::string type;   ///< "sqlite" or "postgres".
  std::string where;  ///< Without a password.
};

/// Opens it. Makes no file and no table. \throws failure (no_store).
[[nodiscard]] place open_place(const options& chosen);

/// One word of a shell: the text as `one_line` has it, quoted if it has to be.
[[nodiscard]] std::string in_shell(const std::string& text);

/// What to type next, for a shell: the command on the store of `chosen`, as that was named, with these words, the flags
/// as they are, and options with their values, whatever bytes these have. "STORE" stands for a store that may hold a
/// secret.
[[nodiscard]] std::string command_line(const options& chosen, const std::string& command,
                                       const std::vector<std::string>& words, const std::string& flags = "",
                                       const std::vector<std::pair<std::string, std::string>>& values = {});

}  // namespace timing_wheel::desk
