#pragma once

#include <memory>
#include <string>
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

/// What to type next, for a shell: the command on the store of `chosen`, as that was named, with these words. "STORE"
/// stands for one that may hold a secret.
[[nodiscard]] std::string command_line(const options& chosen, const std::string& command,
                                       const std::vector<std::string>& words);

}  // namespace timing_wheel::desk
