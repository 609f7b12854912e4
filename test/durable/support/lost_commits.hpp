#pragma once

namespace timing_wheel::test {

/// Loses commits of this process as networks do: those of connections whose `application_name` is "lossy".
///
/// Thread safety: every function may be called from any thread.
struct lost_commits {
  enum class loss {
    of_commit,  ///< The server never gets it: the connection ends before.
    of_answer,  ///< The server has done it, and says so; the connection ends before anybody has read that.
  };

  /// That of the `nth` commit from now on, once.
  static void plan(loss which, int nth = 1);
  /// So many so far.
  [[nodiscard]] static int count();

  /// At the end of a connection string.
  static constexpr const char* lossy = " application_name=lossy";
};

}  // namespace timing_wheel::test
