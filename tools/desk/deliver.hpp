#pragma once

#include <iosfwd>
#include <memory>

#include "desk/options.hpp"

// Webhooks: docs/desk.md describes them for operators and for those who write a receiver.

namespace timing_wheel::desk {

/// A node that runs the checks of the kinds that a file names, by a POST to an address of each kind.
class delivery {
 public:
  /// Reads the file `chosen.deliver`, and the files that it names. \throws failure (usage) with one line.
  delivery(const options& chosen, std::ostream& err);
  /// Claims nothing more, and waits for what is under way; what has no answer after some five seconds runs again.
  ~delivery();
  delivery(const delivery&) = delete;
  delivery& operator=(const delivery&) = delete;

  /// Begins. If the store does not answer, it begins when the store does.
  void start();

  /// Claims nothing more, and waits for what is under way. \returns whether all is over: false if the store does not
  /// answer, so that the destructor would wait for it.
  [[nodiscard]] bool stop();

 private:
  class node;
  std::unique_ptr<node> node_;
};

}  // namespace timing_wheel::desk
