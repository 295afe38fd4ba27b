// Whether a call was executed whose attempt failed: the one place that decides which calls may be
// sent again.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud {

enum class Outcome : uint8_t {
  kFinal,      // the answer; trying again gives the same
  kNotDone,    // certainly not executed: anything may be tried again
  kMaybeDone,  // perhaps executed: only calls that are safe to repeat may be tried again
};

constexpr Outcome outcome_of(StatusCode code) {
  switch (code) {
    case StatusCode::kUnknownTablet:
    case StatusCode::kRetry:
    case StatusCode::kUnavailable:  // never sent, or the peer refused because of another server
    case StatusCode::kNotLeader:
    case StatusCode::kWrongServer:  // the hello was refused
    case StatusCode::kStaleTerm:
    case StatusCode::kCrashed:  // a zombie refuses everything
      return Outcome::kNotDone;
    case StatusCode::kConnectionLost:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kProtocolError:  // an answer came but says nothing
      return Outcome::kMaybeDone;
    default:
      return Outcome::kFinal;
  }
}

/// The same of a call to a server. One of another cluster that has taken the address of ours says
/// that ours is not there; that the cluster is another one is for its coordinators to say.
constexpr Outcome outcome_at_server(StatusCode code) {
  return code == StatusCode::kWrongCluster ? Outcome::kNotDone : outcome_of(code);
}

/// How long one attempt of a call that is safe to repeat waits before the next one: a lost message
/// costs this, not the whole deadline. Rises, so that an overloaded server is not asked ever more.
constexpr Duration attempt_timeout(int attempt) {
  return std::chrono::seconds(1) * (1 << std::min(attempt, 3));
}

/// What the caller gets when the deadline came before an answer.
inline Status out_of_time(const Status& last, const std::string& where) {
  const StatusCode code =
      last == StatusCode::kRetry ? StatusCode::kDeadlineExceeded : StatusCode::kUnavailable;
  return {code,
          fmt::format("{}: no answer in time; the last attempt said: {}", where, last.to_string())};
}

/// A failure that a new tablet map may cure. The first lost connection is just made again: most
/// often the server is still there. One that was silent may have lost its tablets meanwhile.
inline bool wants_new_map(StatusCode code, int attempt) {
  switch (code) {
    case StatusCode::kRetry:
      return false;
    case StatusCode::kConnectionLost:
      return attempt > 0;
    default:
      return true;
  }
}

}  // namespace ramcloud
